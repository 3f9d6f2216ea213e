//! The line protocol by which a command reports back on its standard output.
//!
//! ```text
//! ::runcue progress 40 halfway there        percent, 0 to 100, and an optional message
//! ::runcue retry-after 30 openai            rate limited: seconds, and an optional service
//! ::runcue result {"rows": 12}              the result, any JSON value on one line
//! ```
//!
//! A line counts only from its first column, and only if all of it is understood; anything else is ordinary output.
//! Reported lines stay in the captured output as well. Owns the grammar; what a report leads to is the caller's.

use std::time::Duration;

use serde_json::Value;

/// What every reporting line starts with.
pub const PREFIX: &str = "::runcue ";

/// The longest line that is looked at, in bytes; a longer one is ordinary output.
pub const MAX_LINE: usize = 1024 * 1024;

/// What a command said about itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// How far it is.
    Progress {
        /// From 0 to 100.
        percent: u8,
        /// What it is doing.
        message: Option<String>,
    },
    /// It was told to come back later.
    RetryAfter {
        /// How much later.
        delay: Duration,
        /// The service that said so, if it is not obvious.
        service: Option<String>,
    },
    /// What it found out. The last one counts.
    Result(Value),
}

/// Reads one line, without its line break. `None`: the line is ordinary output.
#[must_use]
pub fn parse(line: &str) -> Option<Line> {
    let (verb, rest) = word(line.strip_prefix(PREFIX)?);
    match verb {
        "progress" => progress(rest),
        "retry-after" => retry_after(rest),
        "result" => serde_json::from_str(rest).ok().map(Line::Result),
        _ => None,
    }
}

fn progress(rest: &str) -> Option<Line> {
    let (percent, message) = word(rest);
    let percent = percent.strip_suffix('%').unwrap_or(percent);
    Some(Line::Progress {
        percent: percent.parse().ok().filter(|percent| *percent <= 100)?,
        message: some(message),
    })
}

fn retry_after(rest: &str) -> Option<Line> {
    let (seconds, service) = word(rest);
    Some(Line::RetryAfter {
        delay: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        service: some(service),
    })
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Finds reporting lines in a stream that arrives in pieces. Ordinary lines are never stored.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    ordinary: bool,
}

impl Lines {
    /// Takes the next piece and hands over every report it completes.
    pub fn push(&mut self, chunk: &[u8], mut found: impl FnMut(Line)) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.extend(piece);
            if piece.ends_with(b"\n") {
                self.end(&mut found);
            }
        }
    }

    /// The stream is over: its last line may have no line break.
    pub fn finish(&mut self, mut found: impl FnMut(Line)) {
        self.end(&mut found);
    }

    fn extend(&mut self, piece: &[u8]) {
        if self.ordinary {
            return;
        }
        let room = MAX_LINE - self.line.len();
        let held = self.line.len().min(PREFIX.len());
        let expected = &PREFIX.as_bytes()[held..];
        let common = expected.len().min(piece.len());
        if piece.len() > room || piece[..common] != expected[..common] {
            self.ordinary = true;
            self.line.clear();
            return;
        }
        self.line.extend_from_slice(piece);
    }

    fn end(&mut self, found: &mut impl FnMut(Line)) {
        if !self.ordinary
            && let Ok(line) = str::from_utf8(&self.line)
            && let Some(line) = parse(line.trim_end())
        {
            found(line);
        }
        self.line.clear();
        self.line.shrink_to(4096);
        self.ordinary = false;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_has_a_percentage_and_perhaps_a_message() {
        let line = |percent, message: Option<&str>| {
            Some(Line::Progress { percent, message: message.map(str::to_owned) })
        };
        assert_eq!(parse("::runcue progress 40 half way"), line(40, Some("half way")));
        assert_eq!(parse("::runcue progress 0"), line(0, None));
        assert_eq!(parse("::runcue progress 100%"), line(100, None));
    }

    #[test]
    fn retry_after_has_seconds_and_perhaps_a_service() {
        assert_eq!(
            parse("::runcue retry-after 1.5 openai"),
            Some(Line::RetryAfter {
                delay: Duration::from_millis(1500),
                service: Some("openai".to_owned())
            })
        );
        assert!(parse("::runcue retry-after 30").is_some());
    }

    #[test]
    fn a_result_is_json() {
        assert_eq!(
            parse(r#"::runcue result {"a": [1, 2]}"#),
            Some(Line::Result(json!({"a": [1, 2]})))
        );
        assert_eq!(parse("::runcue result null"), Some(Line::Result(Value::Null)));
    }

    #[test]
    fn what_is_not_understood_is_ordinary_output() {
        for line in [
            "",
            "hello",
            " ::runcue progress 1",
            "::runcue",
            "::runcue progress",
            "::runcue progress 101",
            "::runcue progress -1",
            "::runcue progress x",
            "::runcue retry-after",
            "::runcue retry-after -1",
            "::runcue retry-after nan",
            "::runcue retry-after 1e300",
            "::runcue result {",
            "::runcue dance",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn every_split_finds_the_same_lines() {
        let text = "noise\n::runcue progress 10 ä\r\n\n::run\nx::runcue progress 11\n\
            ::runcue retry-after 3 s\n::runcue result {\"a\":1}";
        let mut whole = Vec::new();
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for chunk in text.as_bytes().chunks(size) {
                lines.push(chunk, |line| found.push(line));
            }
            lines.finish(|line| found.push(line));
            if size == 1 {
                whole = found;
                assert_eq!(whole.len(), 3);
            } else {
                assert_eq!(found, whole, "{size}");
            }
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        lines.push(b"::runcue result \"", |line| found.push(line));
        for _ in 0..40 {
            lines.push(&[b'x'; 64 * 1024], |line| found.push(line));
            assert!(lines.line.len() <= MAX_LINE);
        }
        lines.push(b"\"\n::runcue progress 1\n", |line| found.push(line));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn ordinary_output_is_not_stored() {
        let mut lines = Lines::default();
        lines.push(&[b'x'; 100_000], |_| {});
        assert!(lines.line.is_empty());
    }
}
