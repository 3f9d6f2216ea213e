//! What is kept of a stream that may never end: its tail, and how much went before.
//!
//! Owns bytes and character boundaries. Reads from no one; `run` and the pool feed it.

use serde::{Deserialize, Serialize};

/// What is kept of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The end of the stream as text. Bytes that are not UTF-8 became U+FFFD, which is three bytes long: text
    /// made of binary output can be up to three times as long as the limit.
    pub text: String,
    /// How many bytes came before `text` and were let go.
    pub dropped: u64,
}

/// The last `limit` bytes pushed, in at most twice that memory.
#[derive(Debug)]
pub(crate) struct Tail {
    kept: Vec<u8>,
    limit: usize,
    dropped: u64,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, dropped: 0 }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let surplus = chunk.len().saturating_sub(self.limit);
        // Letting the buffer grow to twice the limit before cutting makes the copying linear in the output.
        if self.kept.len() + chunk.len() - surplus > self.limit.saturating_mul(2) {
            self.cut(self.limit - (chunk.len() - surplus));
        }
        self.dropped += surplus as u64;
        if surplus > 0 {
            self.cut(0);
        }
        self.kept.extend_from_slice(&chunk[surplus..]);
    }

    /// Keeps the last `len` bytes.
    fn cut(&mut self, len: usize) {
        let surplus = self.kept.len().saturating_sub(len);
        self.kept.drain(..surplus);
        self.dropped += surplus as u64;
    }

    pub(crate) fn finish(mut self) -> Captured {
        self.cut(self.limit);
        if self.dropped > 0 {
            let torn = self.kept.iter().take(3).take_while(|b| continues(**b));
            self.cut(self.kept.len() - torn.count());
        }
        Captured {
            text: match String::from_utf8(self.kept) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            },
            dropped: self.dropped,
        }
    }
}

fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The length of `bytes` without a character at its end that is still incomplete.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let needs = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if needs > back + 1 { bytes.len() - back - 1 } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, chunks: &[&[u8]]) -> Captured {
        let mut tail = Tail::new(limit);
        for chunk in chunks {
            tail.push(chunk);
        }
        tail.finish()
    }

    #[test]
    fn short_output_is_kept_whole() {
        let kept = captured(10, &[b"abc", b"def"]);
        assert_eq!((kept.text.as_str(), kept.dropped), ("abcdef", 0));
    }

    #[test]
    fn every_split_keeps_the_same_tail_and_count() {
        let all: Vec<u8> = (0..100u8).map(|n| b'a' + n % 26).collect();
        for size in 1..=100 {
            for limit in [0, 1, 7, 50, 99, 100, 200] {
                let chunks: Vec<&[u8]> = all.chunks(size).collect();
                let kept = captured(limit, &chunks);
                let start = all.len().saturating_sub(limit);
                assert_eq!(kept.text.as_bytes(), &all[start..], "{size} {limit}");
                assert_eq!(kept.dropped, start as u64, "{size} {limit}");
            }
        }
    }

    #[test]
    fn memory_stays_within_twice_the_limit() {
        let mut tail = Tail::new(1000);
        for _ in 0..10_000 {
            tail.push(&[b'x'; 300]);
            assert!(tail.kept.len() <= 2000);
        }
    }

    #[test]
    fn a_cut_never_leaves_half_a_character() {
        let kept = captured(4, &["ä€".as_bytes(), "öü".as_bytes()]);
        assert_eq!((kept.text.as_str(), kept.dropped), ("öü", 5));
        let kept = captured(5, &["ä€".as_bytes(), "öü".as_bytes()]);
        assert_eq!((kept.text.as_str(), kept.dropped), ("öü", 5));
    }

    #[test]
    fn bytes_that_are_not_text_are_marked() {
        assert_eq!(captured(10, &[b"a\xFFb"]).text, "a\u{FFFD}b");
    }

    #[test]
    fn an_incomplete_character_is_held_back() {
        for text in ["a", "ä", "€", "🦀", "x🦀"] {
            let bytes = text.as_bytes();
            assert_eq!(whole_characters(bytes), bytes.len());
            let last = text.chars().last().unwrap().len_utf8();
            for missing in 1..last {
                let torn = &bytes[..bytes.len() - missing];
                assert_eq!(whole_characters(torn), bytes.len() - last);
            }
        }
        assert_eq!(whole_characters(b""), 0);
        assert_eq!(whole_characters(b"\x80\x80\x80\x80"), 4);
        assert_eq!(whole_characters(b"a\xFF"), 2);
    }
}
