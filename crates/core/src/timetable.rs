//! When a schedule fires: a cron expression read in a time zone. Owns [`Timetable`], a pure function from an
//! instant to the next firing after it. The rules of the zones are part of the program; no file is read.
//!
//! What happens where clocks are put forward or back depends on how the time of day is written:
//!
//! - **Fixed times** (no `*` in seconds, minutes or hours, such as `30 2 * * *` or `0 9,17 * * *`) fire exactly
//!   once a day that has them. A time that the clock skips fires at the instant of the skip; several skipped
//!   times of one schedule are one firing. A time that comes twice fires the first time.
//! - **Intervals** (a `*` there, such as `*/15 * * * *` or `30 * * * *`) follow elapsed time: they fire whenever
//!   the clock shows such a time, so twice in an hour that comes twice and not at all in one that is skipped.

use std::sync::LazyLock;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::time::Timestamp;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The longest expression that is looked at.
const MAX_TEXT: usize = 255;

/// Why an expression or a zone cannot be used. Each names what was given and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTimetable {
    /// The expression does not say when.
    #[error(
        "{cron:?} is not a cron expression ({why}); write minute, hour, day of month, month and day of week, such as \"*/5 * * * *\""
    )]
    Cron {
        /// What was given.
        cron: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such zone.
    #[error(
        "there is no time zone {zone:?}; write a name of the IANA database, such as \"Europe/Berlin\" or \"UTC\""
    )]
    Zone {
        /// What was given.
        zone: String,
    },
    /// There is no such day.
    #[error("{cron:?} never comes: no day is like that")]
    Never {
        /// What was given.
        cron: String,
    },
}

/// The instants of a cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
    fixed: bool,
}

impl Timetable {
    /// Reads an expression of five fields, of six with seconds in front, or `@hourly`, `@daily`, `@weekly`,
    /// `@monthly`, `@yearly`; and the name of a zone.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, BadTimetable> {
        let found = ZONES.get(zone).map_err(|_| BadTimetable::Zone { zone: clip(zone) })?;
        let bad = |why: String| BadTimetable::Cron { cron: clip(cron), why };
        if cron.len() > MAX_TEXT {
            return Err(bad(format!("it has more than {MAX_TEXT} characters")));
        }
        let fields = cron.split_whitespace().count();
        let nickname = cron.trim().starts_with('@');
        if !nickname && fields != 5 && fields != 6 {
            return Err(bad(format!("it has {fields} fields")));
        }
        let parser =
            CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| bad(error.to_string()))?;
        let fixed = is_fixed(cron);
        let timetable = Self { cron: parsed, zone: found, fixed };
        if timetable.civil_after(DateTime::constant(2024, 1, 1, 0, 0, 0, 0), true).is_none() {
            return Err(BadTimetable::Never { cron: clip(cron) });
        }
        Ok(timetable)
    }

    /// The first firing after an instant; nothing if there is none before the year 5000.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let from = jiff::Timestamp::from_microsecond(instant.as_micros()).ok()?;
        let next = if self.fixed { self.next_fixed(from) } else { self.next_interval(from) };
        next.map(|next| Timestamp::from_micros(next.as_microsecond()))
    }

    /// The latest firing at or before an instant that is not before another.
    pub fn last_until(&self, instant: Timestamp, not_before: Timestamp) -> Option<Timestamp> {
        let after = |from: Timestamp| self.next_after(from).filter(|at| *at <= instant);
        let mut last = after(Timestamp::from_micros(not_before.as_micros().checked_sub(1)?))?;
        // No firing lies after this one.
        let mut bound = instant;
        while let Some(next) = after(last) {
            let span = bound.since(last) / 2;
            let middle = last.plus(span);
            match after(middle) {
                Some(at) => last = at,
                None => (last, bound) = (next, middle),
            }
        }
        Some(last)
    }

    fn next_fixed(&self, from: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut civil = self.zone.to_datetime(from);
        loop {
            civil = self.civil_after(civil, false)?;
            // In the second pass of an hour that comes twice, its times have fired already.
            let at = self.instant_of(civil)?;
            if at > from {
                return Some(at);
            }
        }
    }

    /// The instant of a local time: the first of two; the end of the gap for one that is skipped.
    fn instant_of(&self, civil: DateTime) -> Option<jiff::Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { before, .. } => {
                let within = before.to_timestamp(civil).ok()?;
                let later = within.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
                self.zone.preceding(later).next().map(|transition| transition.timestamp())
            }
            _ => ambiguous.earlier().ok(),
        }
    }

    /// Goes from one change of the clock to the next; in between, local time is elapsed time.
    fn next_interval(&self, from: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let (mut from, mut inclusive) = (from, false);
        loop {
            let offset = self.zone.to_offset(from);
            let civil = self.civil_after(offset.to_datetime(from), inclusive)?;
            let at = offset.to_timestamp(civil).ok()?;
            match self.zone.following(from).next().map(|transition| transition.timestamp()) {
                Some(change) if at >= change => (from, inclusive) = (change, true),
                _ => return Some(at),
            }
        }
    }

    /// The next local time that the expression names, as if no clock was ever changed.
    fn civil_after(&self, civil: DateTime, inclusive: bool) -> Option<DateTime> {
        self.cron.find_next_occurrence(&civil, inclusive).ok()
    }
}

/// Whether the time of day is written without a `*`.
fn is_fixed(cron: &str) -> bool {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    match fields.len() {
        1 => !cron.trim().eq_ignore_ascii_case("@hourly"),
        len => fields[..len - 3].iter().all(|field| !field.contains('*')),
    }
}

/// A message repeats no more than a line of what was given.
fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
