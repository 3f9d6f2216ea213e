//! The only place that prints. Standard output carries what was asked for, standard error what is said
//! about it. Colours go through `anstream`, which drops them where NO_COLOR or a pipe says so.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;
use serde::Serialize;

use crate::trouble::{Trouble, bad_json};

/// How much is said beside the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Out {
    /// Results as JSON.
    pub json: bool,
    /// No remarks.
    pub quiet: bool,
    /// More remarks.
    pub verbose: u8,
}

impl Out {
    /// A result in words; a line break is added.
    pub fn say(&self, text: impl AsRef<str>) -> Result<(), Trouble> {
        let mut to = anstream::stdout().lock();
        writeln!(to, "{}", text.as_ref())?;
        Ok(to.flush()?)
    }

    /// A result as one JSON document.
    pub fn document(&self, value: &impl Serialize) -> Result<(), Trouble> {
        let text = serde_json::to_string_pretty(value).map_err(|e| bad_json("the result", &e))?;
        self.raw(&(text + "\n"))
    }

    /// One of a stream of results, on a line of its own.
    pub fn record(&self, value: &impl Serialize) -> Result<(), Trouble> {
        let text = serde_json::to_string(value).map_err(|e| bad_json("the result", &e))?;
        self.raw(&(text + "\n"))
    }

    /// Text as it is, colours of its own included.
    pub fn raw(&self, text: &str) -> Result<(), Trouble> {
        let mut to = io::stdout().lock();
        to.write_all(text.as_bytes())?;
        Ok(to.flush()?)
    }

    /// A remark, unless asked to be quiet.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            complain(text.as_ref());
        }
    }

    /// A remark for those who asked for more.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            complain(text.as_ref());
        }
    }
}

/// The bars that are on the terminal now; whoever prints steps around them.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Says which bars are on the terminal.
pub fn set_bars(bars: Option<MultiProgress>) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = bars;
}

/// A line on standard error. One that cannot be written has nowhere else to go.
pub fn complain(text: &str) {
    let write = || {
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    };
    let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bars {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}

/// Tells of trouble: what, and the fix.
pub fn report(trouble: &Trouble) {
    let Trouble::Told { says, help, .. } = trouble else { return };
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
    complain(&format!("{red}error:{red:#} {says}"));
    if let Some(help) = help {
        complain(&format!("{cyan}help:{cyan:#} {help}"));
    }
}

/// Two parts of a remark: on one line where that fits, else on a line each, so that a narrow terminal breaks
/// neither where it likes.
pub fn fitted(first: &str, joint: &str, second: &str, width: Option<usize>) -> String {
    let whole = format!("{first}{joint}{second}");
    match width {
        Some(width) if whole.chars().count() > width => format!("{first}\n  {second}"),
        _ => whole,
    }
}

/// The columns of the terminal that a person looks at; nothing for a pipe or a file.
pub fn width(is_terminal: bool) -> Option<usize> {
    let size = is_terminal.then(ratatui::crossterm::terminal::size)?;
    size.ok().map(|(width, _)| usize::from(width))
}

/// Whether a person looks at standard error.
pub fn is_error_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person looks at standard output.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_on_one_line_goes_on_two() {
        assert_eq!(fitted("first", ", ", "second", None), "first, second");
        assert_eq!(fitted("first", ", ", "second", Some(13)), "first, second");
        assert_eq!(fitted("first", ", ", "second", Some(12)), "first\n  second");
    }
}
