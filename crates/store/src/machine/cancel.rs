//! cancel: withdraws jobs, queued ones at once and running ones by asking.

use super::*;
use runcue_core::JobFilter;

impl<T: Tables> Machine<T> {
    /// Withdraws the jobs that match and answers how many that changed.
    pub fn cancel(&mut self, now: Timestamp, filter: &JobFilter, cascade: bool) -> Result<u64> {
        let mut filter = filter.clone();
        if filter.states.is_empty() {
            filter.states = [StateWord::Queued, StateWord::Leased, StateWord::Running].into();
        }
        let mut changed = 0;
        let mut after = None;
        loop {
            let seqs = self.tables.matching(&filter, after, CHUNK)?;
            for seq in &seqs {
                changed += u64::from(self.cancel_one(now, *seq, cascade)?);
            }
            after = seqs.last().copied();
            if seqs.len() < CHUNK {
                return Ok(changed);
            }
        }
    }

    fn cancel_one(&mut self, now: Timestamp, seq: Seq, cascade: bool) -> Result<bool> {
        let Some(mut job) = self.tables.job(seq)? else { return Ok(false) };
        let applied = self.apply(now, &mut job, Input::Cancel, None)?.is_ok();
        if applied && self.held.contains_key(&job.id()) {
            self.held.insert(job.id(), job.clone());
        }
        if cascade {
            for (_, _, with_dependents) in &mut self.ended {
                *with_dependents = true;
            }
            // A running job ends later; its dependents are withdrawn with it now.
            if applied && job.life.cancel_requested && job.has_dependents {
                self.ended.push((seq, Final::Cancelled, true));
            }
        }
        self.resolve(now)?;
        Ok(applied)
    }
}
