//! Lists of changes: for scripts as MessagePack, which the server's Lua reads by itself, or as commands.

use runcue_core::map::Map;

use crate::connection::{Batch, Link};
use crate::failure::Unreadable;
use crate::script::Script;

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

/// What a script answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Nothing.
    Nothing,
    /// A small number.
    Number(u8),
    /// A text.
    Text(&'a [u8]),
    /// A list.
    List(Vec<Item<'a>>),
}

impl<'a> Item<'a> {
    /// An item of a list; nothing beyond its end.
    pub fn at(&self, n: usize) -> &Self {
        self.items().get(n).unwrap_or(&Self::Nothing)
    }

    /// The items of a list; none where there is no list.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// A text, if it is one.
    pub fn text(&self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads what a script has packed.
pub fn read(mut packed: &[u8]) -> Result<Item<'_>, Unreadable> {
    read_item(&mut packed, 8).ok_or_else(|| Unreadable::new("answer", "it is cut off"))
}

fn read_item<'a>(from: &mut &'a [u8], depth: u8) -> Option<Item<'a>> {
    let kind = *from.split_off_first()?;
    let mut size = |bytes: usize| -> Option<usize> {
        let digits = from.split_off(..bytes)?;
        Some(digits.iter().fold(0, |size, digit| size << 8 | usize::from(*digit)))
    };
    let (is_list, len) = match kind {
        0x00..=0x7f => return Some(Item::Number(kind)),
        0xc0 | 0xc2 => return Some(Item::Nothing),
        // A table without anything in it may be taken for a map.
        0x80 => (true, 0),
        0x90..=0x9f => (true, usize::from(kind & 0x0f)),
        0xdc => (true, size(2)?),
        0xdd => (true, size(4)?),
        0xa0..=0xbf => (false, usize::from(kind & 0x1f)),
        0xd9 => (false, size(1)?),
        0xda => (false, size(2)?),
        0xdb => (false, size(4)?),
        _ => return None,
    };
    if !is_list {
        return from.split_off(..len).map(Item::Text);
    }
    let depth = depth.checked_sub(1)?;
    let mut items = Vec::with_capacity(len.min(from.len()));
    for _ in 0..len {
        items.push(read_item(from, depth)?);
    }
    Some(Item::List(items))
}

/// One change: a verb, a key, and arguments.
#[derive(Debug)]
struct Change {
    verb: Verb,
    key: String,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Change {
    fn new(verb: Verb, key: &str) -> Self {
        Self { verb, key: key.to_owned(), ends: Vec::new(), bytes: Vec::new() }
    }

    fn push(&mut self, arguments: &[&[u8]]) {
        for argument in arguments {
            self.bytes.extend_from_slice(argument);
            self.ends.push(self.bytes.len());
        }
    }

    fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[*begin..*end])
    }

    fn size(&self) -> usize {
        self.bytes.len() + 3 * self.ends.len()
    }
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// A command of the server.
    Plain(&'static str),
    /// One of the verbs of `carry_out.lua`.
    Own(&'static str),
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Plain(name) | Self::Own(name) => name,
        }
    }
}

/// A list of changes. Those with the same verb and key that follow each other here become one.
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Where the latest change of each verb and key is that still has room.
    open: Map<Verb, Map<String, usize>>,
    /// The two that were added to last, which mostly are those that are added to next.
    latest: [Option<usize>; 2],
}

impl Changes {
    /// Adds arguments to the change of a verb and key. What is added in one call stays together.
    pub fn add(&mut self, verb: Verb, key: &str, arguments: &[&[u8]]) {
        let fits = |change: &Change| change.ends.len() + arguments.len() <= MOST;
        let is_it = |change: &Change| change.verb == verb && change.key == key && fits(change);
        let mut latest = self.latest.iter().flatten().copied();
        if let Some(at) = latest.find(|at| is_it(&self.list[*at])) {
            return self.list[at].push(arguments);
        }
        let open = self.open.entry(verb).or_default();
        let at = match open.get(key) {
            Some(at) if fits(&self.list[*at]) => *at,
            _ => {
                self.list.push(Change::new(verb, key));
                open.insert(key.to_owned(), self.list.len() - 1);
                self.list.len() - 1
            }
        };
        self.list[at].push(arguments);
        self.latest = [Some(at), self.latest[0]];
    }

    /// Adds a change that stands alone.
    pub fn alone(&mut self, verb: Verb, key: &str, arguments: &[&[u8]]) {
        let mut change = Change::new(verb, key);
        change.push(arguments);
        self.list.push(change);
    }

    /// What is added from here on comes after everything that is there.
    pub fn then(&mut self) {
        self.open.clear();
        self.latest = [None; 2];
    }

    /// Packed, in parts of about so many bytes.
    pub fn parts(&self, bytes: usize) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut from = 0;
        while from < self.list.len() {
            let mut size = 0;
            let mut to = from;
            while to < self.list.len() && (to == from || size + self.list[to].size() <= bytes) {
                size += self.list[to].size();
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

    /// As commands of a batch, in their order. Verbs of our own that follow each other are one script.
    pub fn queue(&self, link: &Link, batch: &mut Batch) {
        for together in self.list.chunk_by(|one, next| is_own(one) && is_own(next)) {
            match together {
                [change] if !is_own(change) => {
                    batch.command(change.ends.len() + 2);
                    batch.word(change.verb.name().as_bytes());
                    batch.key(link.keys(), &change.key);
                    change.arguments().for_each(|argument| batch.word(argument));
                }
                own => link.queue_text(batch, Script::carry_out(), &[&pack(own)]),
            }
        }
    }

    /// About how large it is.
    pub fn bytes(&self) -> usize {
        self.list.iter().map(Change::size).sum()
    }
}

fn is_own(change: &Change) -> bool {
    matches!(change.verb, Verb::Own(_))
}

fn pack(changes: &[Change]) -> Vec<u8> {
    let size: usize = changes.iter().map(|change| change.size() + 64).sum();
    let mut to = Vec::with_capacity(size);
    list(&mut to, changes.len());
    for change in changes {
        list(&mut to, change.ends.len() + 2);
        text(&mut to, change.verb.name().as_bytes());
        text(&mut to, change.key.as_bytes());
        change.arguments().for_each(|argument| text(&mut to, argument));
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
    fn what_is_packed_reads_back_and_what_is_cut_off_is_refused() {
        let mut packed = Vec::new();
        list(&mut packed, 5);
        let long = vec![b'x'; 70_000];
        for word in [&b""[..], b"short", &[b'y'; 300], &long] {
            text(&mut packed, word);
        }
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        texts(&mut packed, &many);
        let read = super::read(&packed).unwrap();
        let words: Vec<&[u8]> = read.items().iter().filter_map(Item::text).collect();
        assert_eq!(words, [&b""[..], b"short", &[b'y'; 300], &long]);
        assert_eq!(read.at(4).items().len(), 20);
        assert_eq!((read.at(4).at(19), read.at(9)), (&Item::Text(b"19"), &Item::Nothing));
        for cut in [0, 1, 5, 300, packed.len() - 1] {
            assert!(super::read(&packed[..cut]).is_err(), "{cut}");
        }
        assert_eq!(super::read(&[0x92, 0xc2, 1]).unwrap().at(1), &Item::Number(1));
        assert!(super::read(&[0x91; 40]).is_err(), "endless lists");
    }

    #[test]
    fn changes_of_one_key_become_one_up_to_what_lua_can_take() {
        let mut changes = Changes::default();
        for _ in 0..MOST {
            changes.add(Verb::Plain("SADD"), "a", &[b"1"]);
            changes.add(Verb::Plain("HSET"), "b", &[b"1", b"2"]);
        }
        let counts: Vec<usize> = changes.list.iter().map(|change| change.ends.len()).collect();
        assert_eq!(counts, [MOST, MOST, MOST]);
        assert_eq!(changes.parts(1).len(), 3);
        assert_eq!(changes.parts(usize::MAX).len(), 1);
    }

    #[test]
    fn what_comes_after_stays_after() {
        let mut changes = Changes::default();
        changes.add(Verb::Plain("HDEL"), "a", &[b"1"]);
        changes.then();
        changes.add(Verb::Plain("HDEL"), "a", &[b"2"]);
        assert_eq!(changes.list.len(), 2);
    }
}
