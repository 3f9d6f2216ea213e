//! hand_over: a queue in pieces, for another store to take over. Reads only.

use super::*;
use crate::moving::{Definitions, Moved, MovedJob};
use runcue_core::JobFilter;

impl<T: Tables> Machine<T> {
    /// So many jobs after a place, oldest first; with the first of them the definitions.
    pub fn hand_over(&mut self, now: Timestamp, after: Option<Seq>, limit: usize) -> Result<Moved> {
        let definitions = match after {
            None => Some(self.definitions(now)?),
            Some(_) => None,
        };
        let seqs = self.tables.matching(&JobFilter::default(), after, limit)?;
        let next = seqs.last().copied().filter(|_| seqs.len() == limit);
        let mut jobs = Vec::with_capacity(seqs.len());
        for seq in seqs {
            if let Some(job) = self.tables.job(seq)? {
                jobs.push(self.hand_over_job(job)?);
            }
        }
        Ok(Moved { definitions, jobs, next })
    }

    fn hand_over_job(&mut self, job: Job) -> Result<MovedJob> {
        let holds_key = match &job.spec.idempotency_key {
            Some(key) => self.tables.key_holder(key)? == Some(job.seq),
            None => false,
        };
        let prerequisites = match job.spec.depends_on.is_empty() {
            true => Vec::new(),
            false => self.tables.prerequisites(job.seq)?,
        };
        let mut earlier = match job.has_dependents {
            true => self.tables.dependents(job.seq)?,
            false => Vec::new(),
        };
        earlier.retain(|dependent| *dependent < job.seq);
        Ok(MovedJob {
            holds_key,
            prerequisites: self.ids_of(&prerequisites)?,
            earlier_dependents: self.ids_of(&earlier)?,
            output: Vec::new(),
            job,
        })
    }

    fn ids_of(&mut self, seqs: &[Seq]) -> Result<Vec<JobId>> {
        let mut ids = Vec::with_capacity(seqs.len());
        for seq in seqs {
            ids.extend(self.tables.job(*seq)?.map(|job| job.id()));
        }
        Ok(ids)
    }

    fn definitions(&mut self, now: Timestamp) -> Result<Definitions> {
        let services = self.board.services().iter().map(|service| ServiceRow {
            spec: service.spec().clone(),
            breaker: service.breaker,
            held_until: service.held_until,
        });
        Ok(Definitions {
            services: services.collect(),
            usage: self.tables.changes(0, now)?.usage,
            groups: self.groups(),
            queues: self.queues(),
            tasks: Vec::new(),
            schedules: self.tables.schedules()?,
            served: self.board.served(),
            last_served_group: self.counters.last_served_group.clone(),
        })
    }
}
