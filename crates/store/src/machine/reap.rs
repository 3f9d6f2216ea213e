//! reap: takes back jobs whose worker is gone, and ends queued jobs whose deadline has passed.

use super::*;
use crate::reply::Reaped;
use crate::tables::Due;
use runcue_core::WorkerId;

impl<T: Tables> Machine<T> {
    /// Does what is due now.
    pub fn reap(&mut self, now: Timestamp, gone: &[WorkerId]) -> Result<Reaped> {
        let mut reaped = Reaped::default();
        for worker in gone {
            for seq in self.tables.held_by(*worker)? {
                self.take_back(now, seq, &mut reaped)?;
            }
            self.tables.drop_worker(*worker)?;
            self.news.any = true;
        }
        while self.reap_lapsed(now, &mut reaped)? {}
        while self.reap_overdue(now, &mut reaped)? {}
        let lapse = self.tables.next_due(Due::Lapsed)?;
        let deadline = self.tables.next_deadline()?;
        reaped.wake = lapse.into_iter().chain(deadline).min();
        Ok(reaped)
    }

    fn reap_lapsed(&mut self, now: Timestamp, reaped: &mut Reaped) -> Result<bool> {
        let due = self.tables.due(Due::Lapsed, now, CHUNK)?;
        for seq in &due {
            self.take_back(now, *seq, reaped)?;
        }
        Ok(due.len() == CHUNK)
    }

    fn take_back(&mut self, now: Timestamp, seq: Seq, reaped: &mut Reaped) -> Result<()> {
        let Some(mut job) = self.tables.job(seq)? else { return Ok(()) };
        if self.apply(now, &mut job, Input::Lapse, None)?.is_err() {
            return Ok(());
        }
        match job.life.state {
            State::Queued(_) => reaped.requeued.push(job.id()),
            _ => reaped.quarantined.push(job.id()),
        }
        self.resolve(now)
    }

    /// Queued jobs whose deadline has passed are not handed out any more.
    pub(super) fn end_overdue(&mut self, now: Timestamp) -> Result<()> {
        while self.reap_overdue(now, &mut Reaped::default())? {}
        Ok(())
    }

    fn reap_overdue(&mut self, now: Timestamp, reaped: &mut Reaped) -> Result<bool> {
        let overdue = self.tables.overdue(now, CHUNK)?;
        for seq in &overdue {
            let Some(mut job) = self.tables.job(*seq)? else { continue };
            let unstarted =
                job.life.attempt == 0 && job.spec.expires_at.is_some_and(|at| at <= now);
            let input = if unstarted {
                Input::NotStarted
            } else {
                Input::PrerequisiteUnmet(Unmet::TimedOut)
            };
            if self.apply(now, &mut job, input, None)?.is_ok() {
                reaped.overdue.push(job.id());
            }
            self.resolve(now)?;
        }
        Ok(overdue.len() == CHUNK)
    }
}
