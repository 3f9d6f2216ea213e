//! prune: deletes what retention no longer keeps. Live jobs are never touched.

use super::*;
use crate::reply::Pruned;
use crate::request::{Keep, Retention};

/// Lanes deleted in one go.
const LANES: usize = 10 * CHUNK;

impl<T: Tables> Machine<T> {
    /// Deletes up to a chunk of each kind, or counts what would go.
    pub fn prune(
        &mut self,
        now: Timestamp,
        retention: &Retention,
        dry_run: bool,
    ) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        let mut is_last = true;
        for (state, keep) in rules(retention) {
            let limit = if dry_run { usize::MAX } else { CHUNK };
            let stale =
                self.tables.stale(state, Retention::horizon(now, keep), keep.count, limit)?;
            if !dry_run {
                for seq in &stale {
                    self.delete(*seq)?;
                }
            }
            is_last &= stale.len() < CHUNK;
            pruned.jobs.insert(state, stale.len() as u64);
        }
        let events = Retention::horizon(now, retention.events);
        pruned.events = self.tables.prune_events(events, retention.events.count, dry_run)?;
        let longest = self.board.services().iter().map(|service| service.spec().memory()).max();
        let usage = retention.usage.max(longest.unwrap_or_default());
        pruned.usage = self.tables.prune_usage(now.minus(usage), dry_run)?;
        self.news.any |= !dry_run && !pruned.is_empty();
        if is_last && !dry_run {
            self.prune_lanes(now)?;
        }
        Ok(pruned)
    }

    /// Lanes and groups whose last job is gone go too, or a key or group per job would make them grow for
    /// ever. Looking for them takes a look at every job, so it is done once, at the end.
    fn prune_lanes(&mut self, now: Timestamp) -> Result<()> {
        // Counts that wait to be written decide whether a group is empty.
        self.flush()?;
        if !self.tables.prune_lanes(LANES)? {
            return Ok(());
        }
        self.news.any = true;
        self.groups.retain(|_, group| group.info.paused || group.info.counts.total() > 0);
        self.rebuild(now)
    }

    fn delete(&mut self, seq: Seq) -> Result<()> {
        if let Some(job) = self.tables.job(seq)? {
            self.count(&job.spec, Some(&job.life.state), None);
            self.tables.delete(&job)?;
        }
        Ok(())
    }
}

fn rules(retention: &Retention) -> [(StateWord, Keep); 4] {
    [
        (StateWord::Completed, retention.completed),
        (StateWord::Cancelled, retention.cancelled),
        (StateWord::Failed, retention.failed),
        (StateWord::Quarantined, retention.failed),
    ]
}
