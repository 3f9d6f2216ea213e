//! Random numbers that can be had again: `SplitMix64` from a seed that every failure names.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Throws the same numbers for the same seed.
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice of a seed that nobody chose, unless `RUNCUE_SEED` does.
    pub fn new() -> Self {
        let said = std::env::var("RUNCUE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = said.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        super::note(&format!("RUNCUE_SEED={seed}"));
        Self { state: seed }
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Whether one chance in `of` came true.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}
