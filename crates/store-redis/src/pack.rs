//! Lists of changes for the scripts, as MessagePack, which the server's Lua reads by itself.

use std::collections::HashMap;

/// Arguments in one change at the most; Lua can take some thousands.
const MOST: usize = 1000;

/// Appends a text.
pub fn text(to: &mut Vec<u8>, text: &[u8]) {
    match u32::try_from(text.len()).unwrap_or(u32::MAX) {
        len @ 0..=31 => to.push(0xa0 | len.to_be_bytes()[3]),
        len @ 32..=0xffff => {
            to.push(0xda);
            to.extend_from_slice(&len.to_be_bytes()[2..]);
        }
        len => {
            to.push(0xdb);
            to.extend_from_slice(&len.to_be_bytes());
        }
    }
    to.extend_from_slice(text);
}

/// Appends the beginning of a list of so many.
pub fn list(to: &mut Vec<u8>, len: usize) {
    match u32::try_from(len).unwrap_or(u32::MAX) {
        len @ 0..=15 => to.push(0x90 | len.to_be_bytes()[3]),
        len @ 16..=0xffff => {
            to.push(0xdc);
            to.extend_from_slice(&len.to_be_bytes()[2..]);
        }
        len => {
            to.push(0xdd);
            to.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// A list of texts.
pub fn texts<T: AsRef<[u8]>>(to: &mut Vec<u8>, texts: &[T]) {
    list(to, texts.len());
    for one in texts {
        text(to, one.as_ref());
    }
}

/// One change: a verb, a key, and arguments that are packed already.
#[derive(Debug)]
struct Change {
    verb: &'static str,
    key: String,
    count: usize,
    arguments: Vec<u8>,
}

/// A list of changes. Those with the same verb and key that follow each other here become one.
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Where the latest change of each verb and key is that still has room.
    open: HashMap<&'static str, HashMap<String, usize>>,
}

impl Changes {
    /// Adds arguments to the change of a verb and key. What is added in one call stays together.
    pub fn add(&mut self, verb: &'static str, key: &str, arguments: &[&[u8]]) {
        let open = self.open.entry(verb).or_default();
        let at = match open.get(key) {
            Some(at) if self.list[*at].count + arguments.len() <= MOST => *at,
            _ => {
                let change = Change { verb, key: key.to_owned(), count: 0, arguments: Vec::new() };
                self.list.push(change);
                open.insert(key.to_owned(), self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let change = &mut self.list[at];
        change.count += arguments.len();
        for argument in arguments {
            text(&mut change.arguments, argument);
        }
    }

    /// Adds a change that stands alone.
    pub fn alone(&mut self, verb: &'static str, key: &str, arguments: &[&[u8]]) {
        let mut packed = Vec::new();
        arguments.iter().for_each(|argument| text(&mut packed, argument));
        let key = key.to_owned();
        self.list.push(Change { verb, key, count: arguments.len(), arguments: packed });
    }

    /// What is added from here on comes after everything that is there.
    pub fn then(&mut self) {
        self.open.clear();
    }

    /// Packed, in parts of about so many bytes.
    pub fn parts(&self, bytes: usize) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut from = 0;
        while from < self.list.len() {
            let mut size = 0;
            let mut to = from;
            while to < self.list.len()
                && (to == from || size + self.list[to].arguments.len() <= bytes)
            {
                size += self.list[to].arguments.len();
                to += 1;
            }
            parts.push(pack(&self.list[from..to]));
            from = to;
        }
        parts
    }

    /// Packed whole.
    pub fn packed(&self) -> Vec<u8> {
        pack(&self.list)
    }

    /// About how large it is.
    pub fn bytes(&self) -> usize {
        self.list.iter().map(|change| change.arguments.len()).sum()
    }
}

fn pack(changes: &[Change]) -> Vec<u8> {
    let size: usize = changes.iter().map(|change| change.arguments.len() + 64).sum();
    let mut to = Vec::with_capacity(size);
    list(&mut to, changes.len());
    for change in changes {
        list(&mut to, change.count + 2);
        text(&mut to, change.verb.as_bytes());
        text(&mut to, change.key.as_bytes());
        to.extend_from_slice(&change.arguments);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_lists_of_every_size_are_marked_with_their_length() {
        let head = |len: usize| {
            let mut to = Vec::new();
            text(&mut to, &vec![b'x'; len]);
            to[..to.len() - len].to_vec()
        };
        assert_eq!(head(0), [0xa0]);
        assert_eq!(head(31), [0xbf]);
        assert_eq!(head(32), [0xda, 0, 32]);
        assert_eq!(head(65_536), [0xdb, 0, 1, 0, 0]);
        let mut to = Vec::new();
        list(&mut to, 15);
        list(&mut to, 16);
        list(&mut to, 70_000);
        assert_eq!(to, [0x9f, 0xdc, 0, 16, 0xdd, 0, 1, 0x11, 0x70]);
    }

    #[test]
    fn changes_of_one_key_become_one_up_to_what_lua_can_take() {
        let mut changes = Changes::default();
        for _ in 0..MOST {
            changes.add("SADD", "a", &[b"1"]);
            changes.add("HSET", "b", &[b"1", b"2"]);
        }
        let counts: Vec<usize> = changes.list.iter().map(|change| change.count).collect();
        assert_eq!(counts, [MOST, MOST, MOST]);
        assert_eq!(changes.parts(1).len(), 3);
        assert_eq!(changes.parts(usize::MAX).len(), 1);
    }

    #[test]
    fn what_comes_after_stays_after() {
        let mut changes = Changes::default();
        changes.add("HDEL", "a", &[b"1"]);
        changes.then();
        changes.add("HDEL", "a", &[b"2"]);
        assert_eq!(changes.list.len(), 2);
    }
}
