//! What can be wrong with a run file or a config file, in words for the person who wrote it.
//!
//! Owns the error type and the list that collects several problems before giving up. Every problem
//! names its place; the message says what to write instead where that is known.

use std::fmt;
use std::io;

/// How many problems one report shows; the rest are only counted.
pub const MAX_PROBLEMS: usize = 20;

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be opened or read.
    #[error("{file}: cannot read it: {source}")]
    Read {
        /// The file as the user named it.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is larger than [`super::MAX_FILE_BYTES`]; it was not read.
    #[error(
        "{file}: {size} bytes, and the limit is {limit}; use for_each, glob or grid instead of \
         writing every job out, or split the file"
    )]
    TooLarge {
        /// The file as the user named it.
        file: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not text in UTF-8.
    #[error("{file}:{line}: not UTF-8 text; save the file as UTF-8")]
    NotUtf8 {
        /// The file as the user named it.
        file: String,
        /// The line with the first bad byte.
        line: usize,
    },
    /// The text is not YAML, TOML or JSON, or breaks a bound of the parser.
    #[error("{file}{}: {message}", line_suffix(*.line))]
    Syntax {
        /// The file as the user named it.
        file: String,
        /// The line, where the parser knows it.
        line: Option<usize>,
        /// What the parser objects to.
        message: String,
    },
    /// The text parses, but says something that cannot be run. One line per problem.
    #[error("{}", join(.problems, *.more))]
    Invalid {
        /// The problems found, at most [`MAX_PROBLEMS`].
        problems: Vec<Problem>,
        /// How many more there were.
        more: usize,
    },
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// The line, where the parser knows it.
    pub line: Option<usize>,
    /// The field path, for example `jobs[3] (id "x")`; empty for the file as a whole.
    pub place: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: ", self.file, line_suffix(self.line))?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)
    }
}

fn line_suffix(line: Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

fn join(problems: &[Problem], more: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    lines.join("\n")
}

/// Collects problems while reading goes on, so that one run shows them all.
#[derive(Debug)]
pub(crate) struct Problems {
    file: String,
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// An empty list for the file `file`.
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), list: Vec::new(), more: 0 }
    }

    /// Records one problem. `line` 0 means unknown.
    pub(crate) fn add(&mut self, line: usize, place: &str, message: impl Into<String>) {
        if self.list.len() >= MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.list.push(Problem {
            file: self.file.clone(),
            line: (line > 0).then_some(line),
            place: place.to_owned(),
            message: message.into(),
        });
    }

    /// How many problems there are so far.
    pub(crate) fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// `value`, unless a problem was recorded.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, FileError> {
        if self.list.is_empty() { Ok(value) } else { Err(self.into_error()) }
    }

    /// The report of what was recorded.
    pub(crate) fn into_error(self) -> FileError {
        FileError::Invalid { problems: self.list, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_twenty_problems_and_counts_the_rest() {
        let mut problems = Problems::new("jobs.yaml");
        for n in 0..25 {
            problems.add(n, &format!("jobs[{n}]"), "is odd");
        }
        let text = problems.into_error().to_string();
        assert_eq!(text.lines().count(), 21);
        assert_eq!(text.lines().next(), Some("jobs.yaml: jobs[0]: is odd"));
        assert_eq!(text.lines().nth(1), Some("jobs.yaml:1: jobs[1]: is odd"));
        assert_eq!(text.lines().last(), Some("… and 5 more"));
    }
}
