//! How long after its claim a job of a rated service may start. Owns how that span follows what claims really
//! take; that a start counts at its end is core's and the store's business.
//!
//! A span that is too short makes the worker hand jobs back that it cannot start in time; one that is too long
//! makes every window longer than it has to be. So it grows with answers that come late, at most to twice what
//! it was, and shrinks slowly when they come early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A start may come as much later than the answer as that took to come.
const SPARE: u32 = 2;
/// An early answer takes away one part in so many of what is more than needed.
const SLOWLY: u32 = 16;

/// The span, as it is now.
#[derive(Debug)]
pub(crate) struct StartWithin {
    least: Duration,
    most: Duration,
    micros: AtomicU64,
}

impl StartWithin {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self { least, most: most.max(least), micros: AtomicU64::new(as_micros(least)) }
    }

    pub(crate) fn span(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    /// It took so long from asking for jobs until one of them could start.
    pub(crate) fn took(&self, took: Duration) {
        let next = next(self.span(), took, self.least, self.most);
        self.micros.store(as_micros(next), Ordering::Relaxed);
    }
}

fn next(span: Duration, took: Duration, least: Duration, most: Duration) -> Duration {
    let wanted = took.saturating_mul(SPARE).clamp(least, most);
    if wanted >= span {
        wanted.min(span.saturating_mul(2)).max(least)
    } else {
        span - (span - wanted) / SLOWLY
    }
}

fn as_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn late_answers_make_it_longer_up_to_a_bound() {
        let span = StartWithin::new(millis(25), millis(1_000));
        span.took(millis(300));
        assert_eq!(span.span(), millis(50), "one late answer doubles it");
        (0..10).for_each(|_| span.took(millis(300)));
        assert_eq!(span.span(), millis(600), "twice what it takes");
        (0..10).for_each(|_| span.took(millis(30_000)));
        assert_eq!(span.span(), millis(1_000));
    }

    #[test]
    fn early_answers_make_it_shorter_slowly() {
        let span = StartWithin::new(millis(25), millis(1_000));
        (0..10).for_each(|_| span.took(millis(400)));
        assert_eq!(span.span(), millis(800));
        span.took(millis(1));
        assert!(span.span() > millis(700), "{:?}", span.span());
        (0..200).for_each(|_| span.took(millis(1)));
        assert!(span.span() < millis(26), "{:?}", span.span());
    }

    #[test]
    fn a_span_that_is_set_is_the_least() {
        let span = StartWithin::new(millis(100), millis(50));
        span.took(millis(1));
        assert_eq!(span.span(), millis(100));
    }
}
