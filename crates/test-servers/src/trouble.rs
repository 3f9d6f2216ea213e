//! What went wrong with a server, in one line that says what to do.

use std::fmt;

/// Why there is no server. Shown the same way by `unwrap` as to a person.
pub struct Trouble(String);

impl Trouble {
    /// With its one line.
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// Something that was tried, and the error it gave.
    pub(crate) fn with(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.to_string();
        move |error| Self(format!("{what}: {error}"))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}
