//! The clock and the machine's randomness. A command line is a front, so it may ask; nothing below it does.
//!
//! The store's clock counts. Where that is a server's and this machine's is off, [`follow`] learns by how much, and from
//! then on [`now`] is the server's time: spans that people write and read are right, whatever this machine thinks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use runcue_core::{JobId, Timestamp};
use runcue_store::Store;

use crate::trouble::Trouble;

/// How far the followed clock is ahead of the machine's, in microseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// The time, by the store's clock if that is followed.
pub fn now() -> Timestamp {
    shifted(machine(), AHEAD.load(Ordering::Relaxed))
}

/// Whether the followed clock is another than the machine's.
pub fn is_shifted() -> bool {
    AHEAD.load(Ordering::Relaxed) != 0
}

/// The time by this machine's own clock.
pub fn machine() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the front's one look at the clock")]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.plus(since)
}

/// Goes by the clock of a store from now on, if it has one of its own.
pub async fn follow(store: &dyn Store) {
    // Whoever cannot answer will be asked something else in a moment, and then that is told.
    let ahead = ahead_of_machine(store).await.unwrap_or(None);
    AHEAD.store(ahead.unwrap_or(0), Ordering::Relaxed);
}

/// How far a store's clock is ahead of this machine's, at the least, in microseconds; nothing if it has none.
pub async fn ahead_of_machine(store: &dyn Store) -> runcue_store::Result<Option<i64>> {
    let asked = machine();
    let theirs = store.particulars().await?.now;
    let answered = machine();
    Ok(theirs.map(|theirs| ahead(asked, theirs, answered)))
}

/// How far another clock is ahead, at the least: it was looked at somewhere between asking and answering.
pub fn ahead(asked: Timestamp, theirs: Timestamp, answered: Timestamp) -> i64 {
    let theirs = theirs.as_micros();
    match (asked.as_micros(), answered.as_micros()) {
        (asked, _) if theirs < asked => theirs - asked,
        (_, answered) if theirs > answered => theirs - answered,
        _ => 0,
    }
}

/// An instant, so many microseconds later.
fn shifted(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

/// An id that nobody has.
pub fn new_id(now: Timestamp) -> Result<JobId, Trouble> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Trouble::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(JobId::time_ordered(now, u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_only_by_what_the_question_cannot_have_taken() {
        let at = Timestamp::from_micros;
        assert_eq!(ahead(at(100), at(150), at(200)), 0);
        assert_eq!(ahead(at(100), at(100), at(100)), 0);
        assert_eq!(ahead(at(100), at(350), at(200)), 150);
        assert_eq!(ahead(at(100), at(40), at(200)), -60);
    }
}
