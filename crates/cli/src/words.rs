//! Numbers, instants and texts in the words a person reads. Nothing here is parsed back by anything.

use std::time::Duration;

use runcue_core::{Job, JobId, Timestamp};
use serde::Deserialize;

use crate::stored_task::Origin;

/// How many digits of an id are shown. Ids begin with their time, so neighbours differ at the end.
pub const SHORT_ID: usize = 8;

/// The end of an id, which is enough to name it.
pub fn short(id: JobId) -> String {
    let text = id.to_string();
    text[text.len() - SHORT_ID..].to_owned()
}

/// `1 job`, `2 jobs`.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A span in its two largest units: `340 ms`, `12 s`, `3 min 20 s`, `2 d 5 h`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    if seconds == 0 {
        return format!("{} ms", span.subsec_millis());
    }
    let (large, small) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3600 => ((seconds / 60, "min"), (seconds % 60, "s")),
        3600..86_400 => ((seconds / 3600, "h"), (seconds % 3600 / 60, "min")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3600, "h")),
    };
    match small {
        (0, _) => format!("{} {}", large.0, large.1),
        (n, unit) => format!("{} {} {n} {unit}", large.0, large.1),
    }
}

/// `in 12 s`, `12 s ago`, `now`.
pub fn relative(now: Timestamp, at: Timestamp) -> String {
    const NEAR: Duration = Duration::from_millis(500);
    let (ahead, behind) = (at.since(now), now.since(at));
    if ahead < NEAR && behind < NEAR {
        return "now".to_owned();
    }
    // Rounded up, so that what is due "in 1 s" is not still due when a second has passed.
    if at > now { format!("in {}", span(ceil(ahead))) } else { format!("{} ago", span(behind)) }
}

fn ceil(span: Duration) -> Duration {
    if span.subsec_nanos() == 0 { span } else { Duration::from_secs(span.as_secs() + 1) }
}

/// An instant in local time, and how far away it is.
pub fn instant(now: Timestamp, at: Timestamp) -> String {
    format!("{} ({})", local(at), relative(now, at))
}

/// An instant in local time.
pub fn local(at: Timestamp) -> String {
    let Ok(stamp) = jiff::Timestamp::from_microsecond(at.as_micros()) else {
        return at.to_string();
    };
    stamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The time of day in local time.
pub fn clock(at: Timestamp) -> String {
    local(at).split_once(' ').map_or_else(|| at.to_string(), |(_, time)| time.to_owned())
}

/// The window of a rate: `min`, `s`, `5 min`.
pub fn window(window: Duration) -> String {
    match (window.as_secs(), window.subsec_nanos()) {
        (1, 0) => "s".to_owned(),
        (60, 0) => "min".to_owned(),
        (3600, 0) => "h".to_owned(),
        (86_400, 0) => "d".to_owned(),
        _ => span(window),
    }
}

/// A text on one line of at most so many characters, without anything that could move a cursor.
pub fn one_line(text: &str, most: usize) -> String {
    let mut plain = String::new();
    for (n, c) in text.trim().chars().enumerate() {
        if n + 1 == most && text.trim().chars().nth(most).is_some() {
            plain.push('…');
            return plain;
        }
        plain.push(if c.is_control() { ' ' } else { c });
    }
    plain
}

/// A text of several lines without anything that could move a cursor.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

#[derive(Deserialize)]
struct CommandParams {
    run: Vec<String>,
}

/// What a job is about, in a few characters: its command, its target or its params.
pub fn about(job: &Job, most: usize) -> String {
    if let Some(origin) = Origin::of(&job.spec) {
        return one_line(&origin.id, most);
    }
    if let Some(target) = &job.spec.target {
        return one_line(target, most);
    }
    match job.spec.params.to::<CommandParams>() {
        Ok(command) => one_line(&command_line(&command.run), most),
        Err(_) if job.spec.params.as_str() == "{}" => String::new(),
        Err(_) => one_line(job.spec.params.as_str(), most),
    }
}

/// Arguments as one could type them.
pub fn command_line(args: &[String]) -> String {
    let quoted: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
    quoted.join(" ")
}

fn quote(arg: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "_-./=:,@%+".contains(c);
    if !arg.is_empty() && arg.chars().all(safe) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_their_two_largest_units() {
        let say = |ms| span(Duration::from_millis(ms));
        assert_eq!(say(340), "340 ms");
        assert_eq!(say(12_900), "12 s");
        assert_eq!(say(200_000), "3 min 20 s");
        assert_eq!(say(7_200_000), "2 h");
        assert_eq!(say(190_800_000), "2 d 5 h");
    }

    #[test]
    fn the_future_is_rounded_up_and_the_past_down() {
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(relative(now, Timestamp::from_millis(1_011_200)), "in 12 s");
        assert_eq!(relative(now, Timestamp::from_millis(988_000)), "12 s ago");
        assert_eq!(relative(now, now), "now");
    }

    #[test]
    fn a_shown_text_cannot_move_the_cursor_and_is_cut_with_a_mark() {
        assert_eq!(one_line("a\x1b[2Jb\nc", 20), "a [2Jb c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn a_command_is_shown_as_it_could_be_typed() {
        let args = ["echo", "it's", "a b", ""].map(str::to_owned);
        assert_eq!(command_line(&args), r"echo 'it'\''s' 'a b' ''");
    }
}
