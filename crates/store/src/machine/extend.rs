//! extend: heartbeats. And the output that running jobs send along.

use super::*;
use crate::reply::{Extended, LogChunk};
use crate::request::Extend;
use runcue_core::WorkerId;

impl<T: Tables> Machine<T> {
    /// Extends leases, one answer per entry.
    pub fn extend(&mut self, now: Timestamp, entries: &[Extend]) -> Result<Vec<Extended>> {
        let workers: BTreeSet<WorkerId> = entries.iter().map(|entry| entry.lease.worker).collect();
        for worker in workers {
            self.tables.seen_worker(worker, now)?;
            self.news.any = true;
        }
        entries.iter().map(|entry| self.extend_one(now, entry)).collect()
    }

    fn extend_one(&mut self, now: Timestamp, entry: &Extend) -> Result<Extended> {
        let Some(mut job) = self.load(entry.lease.job)? else { return Ok(Extended::Lost) };
        let until = now.plus(entry.lease_for);
        let applied =
            self.apply(now, &mut job, Input::Extend { lease: &entry.lease, until }, None)?;
        if applied.is_err() {
            self.held.remove(&entry.lease.job);
            return Ok(Extended::Lost);
        }
        if let Some(progress) = &entry.progress
            && job.life.progress.as_ref() != Some(progress)
        {
            job.life.progress = Some(progress.clone());
            self.tables.save_progress(&job)?;
            self.emit(Event {
                percent: Some(progress.percent),
                message: Some(progress.message.clone()).filter(|message| !message.is_empty()),
                ..Event::of_job(EventKind::Progress, now, &job)
            });
        }
        let until = job.life.state.lease().map_or(until, |lease| lease.until);
        let cancel = job.life.cancel_requested;
        if self.held.contains_key(&job.id()) {
            self.held.insert(job.id(), job);
        }
        Ok(Extended::Held { until, cancel })
    }

    /// Keeps output of jobs, as long as the sender's claim is still the job's latest.
    pub fn append_logs(&mut self, now: Timestamp, chunks: Vec<LogChunk>) -> Result<()> {
        for chunk in chunks {
            let Some(job) = self.load(chunk.job)? else { continue };
            let stale = job.life.state.lease().is_some_and(|lease| lease.token != chunk.token);
            if stale || job.life.attempt > chunk.attempt {
                continue;
            }
            self.tables.append_log(job.seq, &LogChunk { at: now, ..chunk })?;
            self.news.any = true;
        }
        Ok(())
    }
}
