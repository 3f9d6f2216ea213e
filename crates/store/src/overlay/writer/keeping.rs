//! How long a writer keeps its turn over several commits, and when it lends it.

use std::time::{Duration, Instant};

use super::super::Backend;
use super::gather::is_large_claim;
use super::{LARGE, Worker};

/// How long a turn is kept at the most, by whoever has little to do in each commit.
const KEPT: Duration = Duration::from_millis(50);
/// The same of others, if it is not known how many wait: those wait for their like, and lend it to the first meanwhile.
const KEPT_FOR_MUCH: Duration = Duration::from_millis(200);
/// If it is known, the turn comes round in this time, so that nobody waits the longer the more there are. Changing hands
/// takes some milliseconds: it is kept no shorter than by whoever has little to do, and no longer than is of use.
const ROUND: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_millis(500);
/// What is read with a commit is claimed one or two commits later, if this daemon makes them. So for each claim that is read
/// ahead a turn must last that much longer, or its jobs are read in vain.
const PER_CLAIM: Duration = Duration::from_millis(15);
/// A turn that is kept for much is not lent before it was held for so long, because it takes time to take it up again.
const UNTIL_LENT: Duration = Duration::from_millis(20);
/// Turns in a row that were each followed by the next request at once, before a turn is kept. A daemon with little to
/// do has three: it claims a job, ends it, and finds nothing more to claim. One with many jobs has shown it at once.
pub(super) const FOLLOWED: u32 = 4;

impl<B: Backend> Worker<B> {
    /// Whether the turn may be kept after a commit: there is more to do, or will be as soon as those who were handed many
    /// jobs come back, and others have not waited long.
    pub(super) fn may_keep(&mut self, claimed: usize) -> bool {
        let Some(since) = self.turn_since else { return false };
        if self.left(since).is_zero() || self.is_too_late_to_read(since) {
            return false;
        }
        let much = self.written.max(self.machine.tables().writes.jobs.len()) >= LARGE;
        let followed = if much { 1 } else { FOLLOWED };
        let more = self.followed >= followed || self.waiting.iter().any(is_large_claim);
        let at_work = claimed.max(self.handed_out);
        more || (at_work >= LARGE && self.coming_back.is_worth_it())
    }

    /// How many claims had better be read ahead in a turn that is kept.
    pub(super) fn worth_reading(&self, since: Option<Instant>) -> usize {
        since.map_or(0, |since| claims_within(self.left(since)))
    }

    /// Whether the next jobs to claim would have to be read first, so late in the turn that others had better have it: the
    /// server would have nothing to write meanwhile. Whoever has not claimed any yet may claim some.
    fn is_too_late_to_read(&mut self, since: Instant) -> bool {
        let others_wait = self.much && self.line != Some(0);
        let late = others_wait && self.has_claimed && claims_within(self.left(since)) == 0;
        late && !self.machine.tables().has_next_claim()
    }

    fn left(&self, since: Instant) -> Duration {
        let most = if self.much { kept_for_much(self.line) } else { KEPT };
        most.saturating_sub(since.elapsed())
    }

    /// Whether a turn that might be kept is to be lent.
    pub(super) fn is_to_lend(&self) -> bool {
        self.hurry && self.much && self.taken_at.elapsed() >= UNTIL_LENT
    }
}

/// How long whoever has much to do keeps a turn that so many others with much to do wait for.
fn kept_for_much(line: Option<usize>) -> Duration {
    let Some(line) = line else { return KEPT_FOR_MUCH };
    let all = u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1);
    (ROUND / all).clamp(KEPT, LONGEST)
}

/// How many claims are surely made in such a time.
fn claims_within(left: Duration) -> usize {
    usize::try_from(left.as_millis() / PER_CLAIM.as_millis()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_of_a_turn_is_left_the_less_is_read_ahead() {
        let within = |millis| claims_within(Duration::from_millis(millis));
        assert_eq!([0, 14, 15, 44, 45, 500].map(within), [0, 0, 1, 2, 3, 33]);
    }

    #[test]
    fn the_more_wait_the_shorter_a_turn_is_kept() {
        let kept = |line| kept_for_much(Some(line)).as_millis();
        assert_eq!([0, 1, 3, 9, 19, 1000].map(kept), [500, 500, 500, 200, 100, 50]);
        assert_eq!(kept_for_much(None), KEPT_FOR_MUCH);
        assert_eq!(kept(usize::MAX), 50);
    }
}
