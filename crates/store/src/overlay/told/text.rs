//! How a message is worded. It is read while somebody waits for a job to start, by a process that was asleep until then and
//! has forgotten everything it was not using: so messages are short, and what reads them is little code. What is
//! said in them is [`super::told`]'s business.
//!
//! Numbers and words, each with a space behind it. A word has its length before it (`4:noop `), a list how many things it
//! has (`2 1 5 `), and `- ` stands for what there is not. Whatever is worded otherwise is not understood.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer(String);

impl Writer {
    /// All of it.
    pub fn done(self) -> String {
        self.0
    }

    pub fn number(&mut self, number: u64) {
        let (mut digits, mut at, mut left) = ([0_u8; 20], 20, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10).to_le_bytes()[0];
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.0.extend(digits[at..].iter().map(|digit| char::from(*digit)));
        self.0.push(' ');
    }

    pub fn signed(&mut self, number: i64) {
        if number < 0 {
            self.0.push('~');
        }
        self.number(number.unsigned_abs());
    }

    pub fn flag(&mut self, flag: bool) {
        self.number(u64::from(flag));
    }

    pub fn word(&mut self, word: &str) {
        self.number(word.len() as u64);
        // The length is followed by the word at once.
        self.0.pop();
        self.0.push(':');
        self.0.push_str(word);
        self.0.push(' ');
    }

    pub fn maybe<T>(&mut self, thing: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match thing {
            Some(thing) => write(self, thing),
            None => self.0.push_str("- "),
        }
    }

    pub fn list<T>(&mut self, things: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(things.len() as u64);
        things.iter().for_each(|thing| write(self, thing));
    }
}

/// What is left to read of a message. Nothing comes of what is not understood.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    pub fn new(message: &'a str) -> Self {
        Self(message)
    }

    /// That nothing is left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Digits up to a byte, which is passed over.
    fn digits(&mut self, end: u8) -> Option<u64> {
        let (mut number, mut at) = (0_u64, 0);
        loop {
            let byte = *self.0.as_bytes().get(at)?;
            at += 1;
            if byte == end && at > 1 {
                self.0 = &self.0[at..];
                return Some(number);
            }
            let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
    }

    pub fn number(&mut self) -> Option<u64> {
        self.digits(b' ')
    }

    pub fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub fn signed(&mut self) -> Option<i64> {
        match self.0.strip_prefix('~') {
            Some(rest) => {
                self.0 = rest;
                0_i64.checked_sub_unsigned(self.number()?)
            }
            None => self.number()?.try_into().ok(),
        }
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn word(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.digits(b':')?).ok()?;
        let (word, rest) = self.0.split_at_checked(length)?;
        self.0 = rest.strip_prefix(' ')?;
        Some(word)
    }

    pub fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.0.strip_prefix("- ") {
            Some(rest) => {
                self.0 = rest;
                Some(None)
            }
            None => read(self).map(Some),
        }
    }

    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // No room is made before a thing is there: what a message says of itself may not be so.
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        writer.signed(i64::MIN);
        writer.signed(7);
        writer.flag(true);
        writer.word("a word, ümlaut: 3 ");
        writer.word("");
        writer.maybe(None::<u64>, Writer::number);
        writer.maybe(Some(0), Writer::number);
        writer.list(&["x", "-"], |writer, word| writer.word(word));
        let text = writer.done();
        assert_eq!(
            text,
            "18446744073709551615 ~9223372036854775808 7 1 19:a word, ümlaut: 3  0: - 0 2 1:x 1:- "
        );
        let mut reader = Reader::new(&text);
        assert_eq!(reader.number(), Some(u64::MAX));
        assert_eq!((reader.signed(), reader.signed()), (Some(i64::MIN), Some(7)));
        assert_eq!(reader.flag(), Some(true));
        assert_eq!((reader.word(), reader.word()), (Some("a word, ümlaut: 3 "), Some("")));
        assert_eq!(reader.maybe(Reader::number), Some(None));
        assert_eq!(reader.maybe(Reader::number), Some(Some(0)));
        assert_eq!(reader.list(Reader::word), Some(vec!["x", "-"]));
        assert_eq!(reader.end(), Some(()));
    }

    #[test]
    fn what_is_worded_otherwise_is_not_understood() {
        for text in ["", " ", "1", "x ", "-1 ", "18446744073709551616 ", "+1 "] {
            assert_eq!(Reader::new(text).number(), None, "{text:?}");
        }
        for text in ["~9223372036854775809 ", "9223372036854775808 ", "~ ", "~-1 "] {
            assert_eq!(Reader::new(text).signed(), None, "{text:?}");
        }
        for text in ["4:abc ", "3:abc", "2:abc ", ":a ", "1:ü ", "99999999999999999999:a "] {
            assert_eq!(Reader::new(text).word(), None, "{text:?}");
        }
        assert_eq!(Reader::new("2 ").flag(), None);
        assert_eq!(Reader::new("9999999999999 1 ").list(Reader::number), None);
        assert_eq!(Reader::new("1 ").end(), None);
    }
}
