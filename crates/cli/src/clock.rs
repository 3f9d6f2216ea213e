//! The machine's clock and randomness. A command line is a front, so it may ask; nothing below it does.

use std::time::{SystemTime, UNIX_EPOCH};

use runcue_core::{JobId, Timestamp};

use crate::trouble::Trouble;

/// The time.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the front's one look at the clock")]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.plus(since)
}

/// An id that nobody has.
pub fn new_id(now: Timestamp) -> Result<JobId, Trouble> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Trouble::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(JobId::time_ordered(now, u128::from_ne_bytes(bytes)))
}
