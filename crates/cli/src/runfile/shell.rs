//! What a POSIX shell would make of the text before a hole: is it quoted, a comment, code?
//!
//! Enough of the shell's grammar to know how a value must be quoted where it goes in, and to refuse
//! the places where no quoting is safe. Doubtful cases are refused, never guessed.

/// Where a hole stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// Outside quotes.
    Bare,
    /// Between double quotes.
    DoubleQuotes,
}

/// A place where no value may go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Where the hole stands, in words.
    pub place: &'static str,
    /// What to do instead.
    pub advice: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Single,
    Double,
    /// `$(…)` or `(…)`: commands again, with quotes of their own.
    Commands,
    /// `${…}`.
    Parameter,
    /// `$((…))`.
    Arithmetic,
    Backticks,
    Comment,
}

/// Reads a shell string from left to right.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    levels: Vec<Level>,
    escaped: bool,
    dollar: bool,
    heredoc: bool,
    /// Something came up that this scanner does not follow; no value is safe from here on.
    doubtful: bool,
    /// The letters just before, to see the word `case`.
    word: String,
    previous: char,
    started: bool,
}

impl Scanner {
    /// Reads literal text.
    pub(crate) fn read(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            self.step(c, chars.peek().copied());
            self.previous = c;
            self.started = true;
        }
    }

    /// Notes that a value stands here: a word has begun.
    pub(crate) fn read_value(&mut self) {
        self.previous = 'x';
        self.word.clear();
        self.started = true;
        self.dollar = false;
    }

    /// How a value must be quoted here.
    pub(crate) fn context(&self) -> Result<Context, Refused> {
        if self.escaped || self.dollar {
            return Err(refused("right after \\ or $", "put a blank before it"));
        }
        if self.heredoc {
            let advice = "pass it as an argument or through env";
            return Err(refused("after a here-document (<<)", advice));
        }
        let advice = "pass it through env and use the variable";
        if self.doubtful {
            let place = "after $'…', quotes in ${…}, or case in (…)";
            return Err(refused(place, advice));
        }
        match self.levels.last() {
            None | Some(Level::Commands) => Ok(Context::Bare),
            Some(Level::Double) => Ok(Context::DoubleQuotes),
            Some(Level::Single) => {
                Err(refused("inside single quotes", "close the quotes before it"))
            }
            Some(Level::Comment) => Err(refused("in a comment", "remove it")),
            Some(Level::Backticks) => Err(refused("inside backticks", "use $(…)")),
            Some(Level::Arithmetic) => Err(refused("inside $((…))", advice)),
            Some(Level::Parameter) => Err(refused("inside ${…}", advice)),
        }
    }

    fn step(&mut self, c: char, next: Option<char>) {
        if std::mem::take(&mut self.escaped) {
            return;
        }
        let after_dollar = std::mem::take(&mut self.dollar);
        match self.levels.last().copied() {
            Some(Level::Single) => self.close_on(c, '\''),
            Some(Level::Comment) => self.close_on(c, '\n'),
            Some(Level::Double) => match c {
                '"' => self.close(),
                '\'' => {}
                _ => self.expansion(c, next, after_dollar),
            },
            Some(Level::Backticks) if c == '`' => self.close(),
            Some(Level::Parameter) if c == '}' => self.close(),
            Some(Level::Arithmetic | Level::Commands) if c == ')' => self.close(),
            Some(Level::Arithmetic) if c == '(' => self.levels.push(Level::Arithmetic),
            level => self.code(c, next, after_dollar, level),
        }
    }

    /// A character outside quotes.
    fn code(&mut self, c: char, next: Option<char>, after_dollar: bool, level: Option<Level>) {
        if c.is_alphanumeric() || c == '_' {
            self.word.push(c);
        } else if std::mem::take(&mut self.word) == "case" && level == Some(Level::Commands) {
            // The `)` of its patterns would look like the end of the commands.
            self.doubtful = true;
        }
        let commands = matches!(level, None | Some(Level::Commands));
        match c {
            '\'' => {
                self.doubtful |= after_dollar || level == Some(Level::Parameter);
                self.levels.push(Level::Single);
            }
            '"' => {
                self.doubtful |= level == Some(Level::Parameter);
                self.levels.push(Level::Double);
            }
            '#' if commands && self.at_word_start() => self.levels.push(Level::Comment),
            // `((` is arithmetic in bash.
            '(' if commands && !after_dollar && (next == Some('(') || self.previous == '(') => {
                self.levels.push(Level::Arithmetic);
            }
            '(' if commands && !after_dollar => self.levels.push(Level::Commands),
            '<' if commands && self.previous == '<' => self.heredoc = true,
            _ => self.expansion(c, next, after_dollar),
        }
    }

    /// What counts both outside quotes and between double quotes.
    fn expansion(&mut self, c: char, next: Option<char>, after_dollar: bool) {
        match c {
            '\\' => self.escaped = true,
            '`' => self.levels.push(Level::Backticks),
            '$' => self.dollar = true,
            '{' if after_dollar => self.levels.push(Level::Parameter),
            // The second parenthesis opens a level of its own, so that two close it.
            '(' if after_dollar && next == Some('(') => self.levels.push(Level::Arithmetic),
            '(' if after_dollar => self.levels.push(Level::Commands),
            _ => {}
        }
    }

    fn at_word_start(&self) -> bool {
        !self.started
            || self.previous.is_whitespace()
            || matches!(self.previous, ';' | '&' | '|' | '(' | ')')
    }

    fn close_on(&mut self, c: char, end: char) {
        if c == end {
            self.close();
        }
    }

    fn close(&mut self) {
        self.levels.pop();
    }
}

fn refused(place: &'static str, advice: &'static str) -> Refused {
    Refused { place, advice }
}

/// `value` as one shell word, in single quotes; always, since even `if` and `A=b` mean something
/// bare.
#[must_use]
pub fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_quoted() {
        assert_eq!(quote("https://x.org/a.csv"), "'https://x.org/a.csv'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote("$HOME"), "'$HOME'");
        assert_eq!(quote("~"), "'~'");
    }

    #[test]
    fn the_scanner_knows_where_it_stands() {
        let at = |text: &str| {
            let mut scanner = Scanner::default();
            scanner.read(text);
            scanner.context()
        };
        for bare in ["", "a ", "'x' ", "\"x\" ", "$(a) ", "$(a ", "a#b ", "# it's\n", "(a; b) "] {
            assert_eq!(at(bare), Ok(Context::Bare), "{bare}");
        }
        for double in ["\"", "\"a 'b", "\"$(a) ", "\"$((1+(2))) "] {
            assert_eq!(at(double), Ok(Context::DoubleQuotes), "{double}");
        }
        for refused in [
            "'",
            "`",
            "# ",
            "$((",
            "$(( 1 + (2) ",
            "${x:-",
            "\\",
            "$",
            "a <<E\n",
            "$'a\\'",
            "\"$(case y in a) ",
            "((",
            "${x:-'}' ",
        ] {
            assert!(at(refused).is_err(), "{refused}");
        }
        assert_eq!(at("\"$(a \"b\" "), Ok(Context::Bare));
    }
}
