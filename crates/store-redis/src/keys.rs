//! The names of keys, and how places and instants are written in them. Every key of a queue has the same hash
//! tag, so that all of it is in one slot of a cluster.
//!
//! | key | type | what |
//! |---|---|---|
//! | `meta` | hash | `schema`, `revision`, `numbers`; `pending`: a large commit that is being carried out; `secret`: what daemons sign with what they tell each other |
//! | `turn` | string | the word of the daemon whose turn it is; expires |
//! | `line` | list | the words of daemons that wait for their turn with much to do, in the order they came; expires |
//! | `first` | list | the same of those with little to do, who go first |
//! | `next` | string | the word of the daemon whose turn is next; expires |
//! | `gate:<word>` | list | tells the daemon that it is next; expires |
//! | `commit:<daemon>` | string | the latest commit of a daemon, to recognise it when a reply is lost |
//! | `try:<daemon>` | string | whether the server refuses what it has to refuse is tried with it, at every connection |
//! | `changes` | stream | what each of the latest revisions changed, by revision |
//! | `staged:<commit>` | list | parts of a large commit |
//! | `spec`, `life` | hash | jobs by place: what was asked for, and what has happened |
//! | `id`, `key`, `keyof` | hash | places by id and by idempotency key, and keys by place |
//! | `page` | hash | how many jobs there are in each run of [`PAGE`] places |
//! | `ready:<lane>` | sorted set | ready jobs of a lane, by falling priority, then place |
//! | `waiting` | hash | lanes that may have ready jobs |
//! | `members` | hash | how many jobs there are in each lane |
//! | `delayed`, `lapsing`, `deadline` | sorted set | jobs by instant |
//! | `ended:<state>` | sorted set | finished jobs by when they ended |
//! | `before:<place>`, `behind:<place>`, `tied` | set | prerequisites, dependents, jobs that have dependents |
//! | `lane`, `lanes` | hash | lanes by number and by constraints |
//! | `group`, `queue`, `service`, `schedule`, `task` | hash | definitions and counts by name; `services`: their order |
//! | `worker`, `started`, `seen` | hash | worker instances |
//! | `usage`, `event`, `log:<place>` | stream | uses of services, events in runs, output; `logsize`: its bytes |
//! | `news` | channel | the revision of every commit that others want to know of |

use runcue_core::{LaneId, Seq, StateWord, Timestamp};
use runcue_store::overlay::Timed;

/// Places in one page, by which jobs are walked through in their order.
pub const PAGE: u64 = 1000;

/// The names of one queue's keys.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// Of a name space under a prefix.
    pub fn new(prefix: &str, space: &str) -> Self {
        Self { prefix: format!("{prefix}:{{{space}}}:") }
    }

    /// A key by its name.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The set of ready jobs of a lane.
pub fn ready(lane: LaneId) -> String {
    format!("ready:{}", lane.0)
}

/// The set of jobs by an instant.
pub fn timed(list: Timed) -> &'static str {
    match list {
        Timed::Delayed => "delayed",
        Timed::Lapsing => "lapsing",
        Timed::Deadline => "deadline",
    }
}

/// The set of finished jobs of a state.
pub fn ended(state: StateWord) -> String {
    format!("ended:{state}")
}

/// A place as it is written: of fixed width, so that texts have the order of the numbers.
pub fn place(seq: Seq) -> String {
    place_bytes(seq).iter().map(|byte| char::from(*byte)).collect()
}

/// The same as bytes, of which commits write many.
pub fn place_bytes(seq: Seq) -> [u8; 12] {
    let mut digits = [0; 12];
    for (n, digit) in digits.iter_mut().rev().enumerate() {
        let value = (seq.0 >> (4 * n) & 0xf).to_le_bytes()[0];
        *digit = if value < 10 { b'0' + value } else { b'a' - 10 + value };
    }
    digits
}

/// And back.
pub fn seq(place: &[u8]) -> Option<Seq> {
    u64::from_str_radix(std::str::from_utf8(place).ok()?, 16).ok().map(Seq)
}

/// An instant as a score. Exact until the year 2255.
pub fn score(at: Timestamp) -> String {
    at.as_micros().to_string()
}

/// And back.
#[expect(clippy::cast_possible_truncation, reason = "scores are written from whole numbers")]
pub fn instant(score: &[u8]) -> Option<Timestamp> {
    let number: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    Some(Timestamp::from_micros(number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_the_order_of_their_numbers_and_read_back() {
        let places: Vec<String> =
            [0, 1, 9, 10, 255, 256, u64::from(u32::MAX)].map(|n| place(Seq(n))).to_vec();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(seq(place(Seq(77)).as_bytes()), Some(Seq(77)));
        assert_eq!(seq(b"x"), None);
    }

    #[test]
    fn instants_read_back_to_the_microsecond() {
        for micros in [0, -5, 1_763_251_200_123_456, 9_007_199_254_740_991] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(instant(score(at).as_bytes()), Some(at));
        }
        assert_eq!(
            instant(b"1.7632512001234561e+15"),
            Some(Timestamp::from_micros(1_763_251_200_123_456))
        );
    }

    #[test]
    fn every_key_has_the_hash_tag_of_its_space() {
        assert_eq!(Keys::new("runcue", "default").key("meta"), "runcue:{default}:meta");
    }
}
