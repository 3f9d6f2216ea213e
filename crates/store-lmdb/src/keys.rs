//! How keys are written so that LMDB's order of bytes is the order that is wanted. Keys may have 511 bytes, so
//! what can be longer is found by a hash, and told apart by its text, which is stored with it.

use runcue_core::{GroupName, LaneId, Seq, Timestamp};

/// Numbers in their order.
pub fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The number at a place of a key or a value; nothing if it ends before.
pub fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(eight.try_into().ok()?))
}

/// Instants in their order, those before the epoch first.
pub fn instant(at: Timestamp) -> [u8; 8] {
    (at.as_micros() ^ i64::MIN).to_be_bytes()
}

/// The instant at a place of a key or a value.
pub fn instant_at(bytes: &[u8], at: usize) -> Option<Timestamp> {
    let bits = number_at(bytes, at)?;
    Some(Timestamp::from_micros(i64::from_be_bytes(bits.to_be_bytes()) ^ i64::MIN))
}

/// Ready jobs of a lane: higher priorities first, then older jobs.
pub fn ready(lane: LaneId, priority: i32, seq: Seq) -> [u8; 20] {
    let mut key = [0; 20];
    key[..8].copy_from_slice(&number(lane.0));
    key[8..12].copy_from_slice(&(!(priority ^ i32::MIN)).to_be_bytes());
    key[12..].copy_from_slice(&number(seq.0));
    key
}

/// The priority and the job of such a key.
pub fn ready_at(key: &[u8]) -> Option<(i32, Seq)> {
    let priority = i32::from_be_bytes(key.get(8..12)?.try_into().ok()?);
    Some(((!priority) ^ i32::MIN, Seq(number_at(key, 12)?)))
}

/// Jobs by kind and by an instant.
pub fn due(kind: u8, at: Timestamp, seq: Seq) -> [u8; 17] {
    let mut key = [kind; 17];
    key[1..9].copy_from_slice(&instant(at));
    key[9..].copy_from_slice(&number(seq.0));
    key
}

/// Two numbers.
pub fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number(first));
    key[8..].copy_from_slice(&number(second));
    key
}

/// A group, or the jobs without one. A key may not be empty.
pub fn group(name: Option<&GroupName>) -> Vec<u8> {
    name.map_or_else(|| vec![0], |name| [&[1], name.as_str().as_bytes()].concat())
}

/// A text of any length.
pub fn hash(text: &str) -> [u8; 16] {
    // FNV-1a, 128 bits. Stored: it must never change.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in text.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_is_the_order_that_is_wanted() {
        let instants = [i64::MIN, -5, 0, 1, 255, 256, i64::MAX].map(Timestamp::from_micros);
        assert!(instants.windows(2).all(|pair| instant(pair[0]) < instant(pair[1])));
        assert!(instants.iter().all(|at| instant_at(&instant(*at), 0) == Some(*at)));
        let ranks = [i32::MAX, 200, 1, 0, -1, i32::MIN].map(|rank| ready(LaneId(1), rank, Seq(9)));
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "higher priorities come first");
        assert_eq!(ready_at(&ready(LaneId(7), -3, Seq(5))), Some((-3, Seq(5))));
        assert!(ready(LaneId(1), 0, Seq(1)) < ready(LaneId(1), 0, Seq(2)));
        assert!(ready(LaneId(1), i32::MIN, Seq(9)) < ready(LaneId(2), i32::MAX, Seq(1)));
    }
}
