//! When a timetable fires: in real zones, across every kind of change of their clocks, compared minute by
//! minute with what the clocks on the wall show.

use jiff::civil::{Date, DateTime, Time, date, time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use runcue_core::timetable::BadTimetable;
use runcue_core::{Timestamp, Timetable};

fn table(cron: &str, zone: &str) -> Timetable {
    Timetable::parse(cron, zone).unwrap()
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// An instant from how it is written, such as "2026-03-29T01:00Z".
fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(instant.as_microsecond())
}

fn local(instant: Timestamp, zone: &TimeZone) -> DateTime {
    zone.to_datetime(jiff::Timestamp::from_microsecond(instant.as_micros()).unwrap())
}

/// The firings after an instant up to another.
fn firings(table: &Timetable, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(table.next_after(after), |last| table.next_after(*last))
        .take_while(|at| *at <= until)
        .collect()
}

/// The firings of a day, as the clock on the wall shows them, with the offset from UTC.
fn day(cron: &str, name: &str, from: &str, until: &str) -> Vec<String> {
    let zone = zone(name);
    let show = |at: &Timestamp| {
        let instant = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap();
        format!("{} {}", local(*at, &zone).time().strftime("%H:%M"), zone.to_offset(instant))
    };
    firings(&table(cron, name), at(from), at(until)).iter().map(show).collect()
}

#[test]
fn a_fixed_time_that_the_clock_skips_fires_once_at_the_skip() {
    let berlin = day("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T12:00Z");
    assert_eq!(berlin, ["03:00 +02", "02:30 +02"]);
    let york = day("30 2 * * *", "America/New_York", "2026-03-08T00:00Z", "2026-03-09T12:00Z");
    assert_eq!(york, ["03:00 -04", "02:30 -04"]);
    let howe = day("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", "2026-10-05T00:00Z");
    assert_eq!(howe, ["02:30 +11", "02:15 +11"]);
    let morocco = day("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00Z", "2026-03-23T12:00Z");
    assert_eq!(morocco, ["03:00 +01", "02:30 +01"]);
    // Three skipped times of one schedule are one firing.
    let three = day("0,20,40 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z");
    assert_eq!(three, ["03:00 +02"]);
}

#[test]
fn a_fixed_time_that_comes_twice_fires_the_first_time() {
    let berlin = day("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T12:00Z");
    assert_eq!(berlin, ["02:30 +02"]);
    let york = day("0,30 1,5 * * *", "America/New_York", "2026-11-01T00:00Z", "2026-11-01T12:00Z");
    assert_eq!(york, ["01:00 -04", "01:30 -04", "05:00 -05", "05:30 -05"]);
    let howe = day("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", "2026-04-05T00:00Z");
    assert_eq!(howe, ["01:45 +11"]);
    let morocco = day("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", "2026-02-15T12:00Z");
    assert_eq!(morocco, ["02:30 +01"]);
    // Asked in the second pass, the next one is that of the next day.
    let again = table("30 2 * * *", "Europe/Berlin").next_after(at("2026-10-25T01:10Z"));
    assert_eq!(again, Some(at("2026-10-26T01:30Z")));
}

#[test]
fn intervals_follow_elapsed_time() {
    let half_hours = |name, from, until| firings(&table("*/30 * * * *", name), at(from), at(until));
    let days = [
        ("Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("America/New_York", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),
        ("Africa/Casablanca", "2026-02-14T23:00Z", "2026-02-16T00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T13:00Z", "2026-04-05T13:30Z"),
    ];
    for (name, from, until) in days {
        let found = half_hours(name, from, until);
        for pair in found.windows(2) {
            assert_eq!(pair[1].since(pair[0]).as_secs(), 1800, "{name} after {}", pair[0]);
        }
        assert_eq!(found.len() as u64, at(until).since(at(from)).as_secs() / 1800, "{name}");
    }
    let hourly = day("30 * * * *", "Europe/Berlin", "2026-10-25T00:00Z", "2026-10-25T02:00Z");
    assert_eq!(hourly, ["02:30 +02", "02:30 +01"]);
    let every_two = day("0 */2 * * *", "Europe/Berlin", "2026-03-28T22:00Z", "2026-03-29T04:00Z");
    assert_eq!(every_two, ["00:00 +01", "04:00 +02", "06:00 +02"], "the hour of two is skipped");
}

#[test]
fn a_day_that_was_skipped_whole_is_made_up_for_at_its_end() {
    let apia = day("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00Z", "2011-12-31T12:00Z");
    assert_eq!(apia, ["12:00 -10", "00:00 +14", "12:00 +14"]);
}

#[test]
fn seconds_nicknames_weekdays_and_leap_days() {
    let seconds =
        firings(&table("*/20 * * * * *", "UTC"), at("2026-01-01T00:00Z"), at("2026-01-01T00:01Z"));
    assert_eq!(seconds.len(), 3);
    let daily = table("@daily", "Asia/Tokyo").next_after(at("2026-01-01T00:00Z"));
    assert_eq!(daily, Some(at("2026-01-01T15:00Z")));
    let monday = table("0 9 * * MON", "UTC").next_after(at("2026-11-14T00:00Z"));
    assert_eq!(monday, Some(at("2026-11-16T09:00Z")));
    let leap = table("0 0 29 2 *", "UTC").next_after(at("2026-01-01T00:00Z"));
    assert_eq!(leap, Some(at("2028-02-29T00:00Z")));
    let fraction = table("* * * * * *", "UTC").next_after(Timestamp::from_micros(1_500_000));
    assert_eq!(fraction, Some(Timestamp::from_micros(2_000_000)));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_fix() {
    let why = |cron: &str, zone: &str| Timetable::parse(cron, zone).unwrap_err();
    for cron in ["", "* * * *", "61 * * * *", "* * * * * * *", "often", "@reboot", "a b c d e"] {
        let error = why(cron, "UTC");
        assert!(matches!(error, BadTimetable::Cron { .. }), "{cron}: {error:?}");
        assert!(error.to_string().contains("*/5 * * * *"), "{error}");
    }
    for zone in ["", "Berlin", "Europe/Nowhere", "/etc/passwd", "../UTC"] {
        let error = why("* * * * *", zone);
        assert!(error.to_string().contains("Europe/Berlin"), "{error}");
    }
    assert!(matches!(why("0 0 30 2 *", "UTC"), BadTimetable::Never { .. }));
    assert!(matches!(why("* * 31 2,4 *", "UTC"), BadTimetable::Never { .. }));
}

#[test]
fn the_end_of_time_has_no_next() {
    let table = table("* * * * *", "Europe/Berlin");
    assert_eq!(table.next_after(Timestamp::MAX), None);
    assert!(table.next_after(Timestamp::from_micros(i64::MIN)).is_none());
}

/// Zones with the window that is walked: around a change of the clock.
const WINDOWS: [(&str, Date); 9] = [
    ("Europe/Berlin", date(2026, 3, 28)),
    ("Europe/Berlin", date(2026, 10, 24)),
    ("America/New_York", date(2026, 3, 7)),
    ("America/New_York", date(2026, 10, 31)),
    ("Australia/Lord_Howe", date(2026, 4, 4)),
    ("Australia/Lord_Howe", date(2026, 10, 3)),
    ("Africa/Casablanca", date(2026, 2, 14)),
    ("Africa/Casablanca", date(2026, 3, 21)),
    ("Pacific/Apia", date(2011, 12, 29)),
];

/// Every minute of four days as (instant, what the clock shows), with the day before and after.
fn minutes(zone: &TimeZone, day: Date) -> Vec<(Timestamp, DateTime)> {
    let begin = zone.to_ambiguous_timestamp(day.at(0, 0, 0, 0)).compatible().unwrap();
    let begin = begin.as_microsecond();
    let instant = |n: i64| Timestamp::from_micros(begin + n * 60_000_000);
    (0..4 * 1440).map(|n| (instant(n), local(instant(n), zone))).collect()
}

/// What the rule says, found by looking at every minute.
fn expected(clock: &[(Timestamp, DateTime)], times: &[Time], fixed: bool) -> Vec<Timestamp> {
    let mut found: Vec<Timestamp> = if fixed {
        let (first, last) = (clock[0].1.date(), clock[clock.len() - 1].1.date());
        let days = first.series(jiff::ToSpan::days(1)).take_while(|day| *day < last);
        let wanted = days.flat_map(|day| times.iter().map(move |time| day.to_datetime(*time)));
        // The first minute that shows the time, or the first that shows a later one after the skip.
        let fires = wanted.filter_map(|wanted| {
            let shown = clock.iter().find(|(_, shown)| *shown == wanted);
            shown.or_else(|| clock.iter().find(|(_, shown)| *shown > wanted)).map(|(at, _)| *at)
        });
        fires.collect()
    } else {
        let shows = |shown: &DateTime| times.contains(&shown.time());
        clock.iter().filter(|(_, shown)| shows(shown)).map(|(at, _)| *at).collect()
    };
    found.sort();
    found.dedup();
    found
}

proptest! {
    #[test]
    fn fixed_times_and_intervals_agree_with_the_clock_on_the_wall(
        window in 0..WINDOWS.len(),
        minute in 0..60_i8,
        hours in proptest::collection::btree_set(0..24_i8, 1..5),
        step in prop_oneof![Just(5_i8), Just(7), Just(15), Just(30)],
        fixed: bool,
    ) {
        let (name, day) = WINDOWS[window];
        let zone = zone(name);
        let list = hours.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
        let (cron, times): (String, Vec<Time>) = if fixed {
            (format!("{minute} {list} * * *"), hours.iter().map(|hour| time(*hour, minute, 0, 0)).collect())
        } else {
            let minutes = (0..60).filter(|minute| minute % step == 0);
            let times = hours.iter().flat_map(|hour| minutes.clone().map(|m| time(*hour, m, 0, 0)));
            (format!("*/{step} {list} * * *"), times.collect())
        };
        let clock = minutes(&zone, day);
        let last_day = clock[clock.len() - 1].1.date();
        let end = clock.iter().find(|(_, shown)| shown.date() == last_day).unwrap().0;
        let table = table(&cron, name);
        let begin = Timestamp::from_micros(clock[0].0.as_micros() - 1);
        let found = firings(&table, begin, Timestamp::from_micros(end.as_micros() - 1));
        let mut wanted = expected(&clock, &times, fixed);
        wanted.retain(|at| *at < end);
        prop_assert_eq!(&found, &wanted, "{} in {}", cron, name);
        for pair in found.windows(2) {
            prop_assert_eq!(table.last_until(pair[1], begin), Some(pair[1]));
            let before = Timestamp::from_micros(pair[1].as_micros() - 1);
            prop_assert_eq!(table.last_until(before, begin), Some(pair[0]));
        }
    }
}
