//! Where ids get their random bits from. Owns [`IdSource`]; the shape of an id is `runcue_core`'s.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use runcue_core::{JobId, Timestamp, WorkerId};

/// Gives random bits for new ids.
pub trait IdSource: Send + Sync + 'static {
    /// 128 bits that nobody else has.
    fn bits(&self) -> u128;

    /// A new job's id.
    fn job(&self, now: Timestamp) -> JobId {
        JobId::time_ordered(now, self.bits())
    }

    /// The id of a worker instance.
    fn worker(&self, now: Timestamp) -> WorkerId {
        WorkerId::time_ordered(now, self.bits())
    }
}

/// Bits from the operating system, fetched for many ids at a time.
#[derive(Debug, Default)]
pub struct RandomIds {
    ahead: Mutex<Vec<u8>>,
}

const AHEAD: usize = 4096;

impl IdSource for RandomIds {
    fn bits(&self) -> u128 {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.len() < 16 {
            let mut fresh = vec![0_u8; AHEAD];
            if let Err(error) = getrandom::fill(&mut fresh) {
                // Ids made without randomness would collide between processes; there is no safe way on.
                panic!("the operating system gives no random bits: {error}");
            }
            *ahead = fresh;
        }
        let rest = ahead.len() - 16;
        ahead.drain(rest..).fold(0, |bits, byte| bits << 8 | u128::from(byte))
    }
}

/// The same bits in every run, for tests and the simulator.
#[derive(Debug)]
pub struct SeededIds {
    state: AtomicU64,
}

impl SeededIds {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl IdSource for SeededIds {
    fn bits(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_do_not_repeat() {
        let (random, seeded) = (RandomIds::default(), SeededIds::new(1));
        let bits: HashSet<u128> = (0..2_000).flat_map(|_| [random.bits(), seeded.bits()]).collect();
        assert_eq!(bits.len(), 4_000);
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let (a, b) = (SeededIds::new(7), SeededIds::new(7));
        assert!((0..10).all(|_| a.bits() == b.bits()));
    }
}
