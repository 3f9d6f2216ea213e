//! Questions that only the machine can answer, because they concern the board: why a job waits, what is
//! in use of the services, the counts.

use super::*;
use crate::reply::{Counts, ServiceInfo, Stats};
use runcue_core::board::units_of;
use runcue_core::why::Reason;
use std::time::Duration;

/// A worker not heard of for this long is not counted on.
const SILENT: Duration = Duration::from_secs(60);
/// How many different priorities of a lane are looked at for its oldest job.
const PRIORITIES: usize = 32;
/// How many prerequisites an answer names.
const NAMED: usize = 10;

impl<T: Tables> Machine<T> {
    /// Why a job waits, most important reason first.
    pub fn why(&mut self, now: Timestamp, id: JobId) -> Result<Vec<Reason>> {
        let Some(job) = self.load(id)? else { return Err(StoreError::NotFound(id)) };
        let State::Queued(wait) = job.life.state else {
            let (state, error) = (job.life.state.word(), job.life.last_error.clone());
            return Ok(vec![Reason::NotWaiting { state, error }]);
        };
        let mut reasons = Vec::new();
        match wait {
            Wait::Prerequisites(left) => {
                let jobs = self.open_prerequisites(job.seq)?;
                reasons.push(Reason::Prerequisites { left, jobs });
            }
            Wait::Until(at) if at > now => {
                reasons.push(Reason::NotYet { at, retry: job.life.attempt > 0 })
            }
            _ => {}
        }
        if let Some(group) = &job.spec.group
            && self.board.is_group_paused(Some(group))
        {
            reasons.push(Reason::GroupPaused { group: group.clone() });
        }
        if self.board.is_queue_paused(&job.spec.queue) {
            reasons.push(Reason::QueuePaused { queue: job.spec.queue.clone() });
        }
        let units = units_of(&job.spec.services);
        let blocks = self.board.blocks(&LaneKey::of(&job.spec), units.as_deref(), now);
        reasons.extend(blocks.into_iter().map(|(service, block)| Reason::of_block(service, block)));
        self.why_no_worker(now, &job, &mut reasons)?;
        if wait == Wait::Turn {
            let ahead = self.tables.ahead(&job)?;
            reasons.push(if ahead > 0 { Reason::Behind { ahead } } else { Reason::Next });
        }
        Ok(reasons)
    }

    fn why_no_worker(
        &mut self,
        now: Timestamp,
        job: &Job,
        reasons: &mut Vec<Reason>,
    ) -> Result<()> {
        let mut workers = self.tables.live_workers(now.minus(SILENT))?;
        // One without slots runs nothing but runcue's own jobs.
        workers.retain(|worker| worker.slots > 0 || job.spec.task.is_reserved());
        if workers.is_empty() {
            reasons.push(Reason::NoWorker);
        } else if !job.spec.requires.is_none()
            && !workers.iter().any(|w| w.offers.meet(&job.spec.requires))
        {
            reasons.push(Reason::NoWorkerFits);
        }
        Ok(())
    }

    fn open_prerequisites(&mut self, seq: Seq) -> Result<Vec<JobId>> {
        let mut open = Vec::new();
        for prerequisite in self.tables.prerequisites(seq)? {
            if open.len() == NAMED {
                break;
            }
            if let Some(job) = self.tables.job(prerequisite)?
                && job.life.state != State::Completed
            {
                open.push(job.id());
            }
        }
        Ok(open)
    }

    /// Every service with its use.
    pub fn services(&mut self, now: Timestamp) -> Vec<ServiceInfo> {
        let info = |service: &runcue_core::service::ServiceState| ServiceInfo {
            spec: service.spec().clone(),
            in_use: service.in_use(),
            used: service.rates_in_use(now),
            breaker: service.breaker,
            held_until: Some(service.held_until).filter(|until| *until > now),
        };
        let mut services: Vec<ServiceInfo> = self.board.services().iter().map(info).collect();
        services.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        services
    }

    /// Counts of everything.
    pub fn stats(&mut self) -> Result<Stats> {
        self.fill_hungry()?;
        let mut counts = Counts::default();
        for group in self.groups.values() {
            counts.add(&group.info.counts);
        }
        let oldest = match self.oldest_ready()? {
            Some(seq) => self.tables.job(seq)?.map(|job| job.life.queued_at),
            None => None,
        };
        Ok(Stats {
            counts,
            delayed: self.counters.delayed,
            blocked: self.counters.blocked,
            oldest_ready: oldest,
            last_served_group: self.counters.last_served_group.clone(),
        })
    }

    /// The oldest job of a lane is the first of one of its priorities.
    fn oldest_ready(&mut self) -> Result<Option<Seq>> {
        let mut oldest = None;
        for (lane, head) in self.board.heads() {
            let mut next = Some(head);
            for _ in 0..PRIORITIES {
                let Some(head) = next else { break };
                oldest = Some(oldest.map_or(head.seq, |seq: Seq| seq.min(head.seq)));
                let Some(below) = head.priority.checked_sub(1) else { break };
                next = self.tables.ready(lane, Some(below), 1)?.pop();
            }
        }
        Ok(oldest)
    }

    /// Every group with its counts and its place in the rotation.
    pub fn groups(&self) -> Vec<GroupInfo> {
        let mut groups: Vec<GroupInfo> =
            self.groups.values().map(|group| group.info.clone()).collect();
        for group in &mut groups {
            group.turn = self.board.turn(group.name.as_ref());
        }
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    }

    /// Every queue with its depth.
    pub fn queues(&self) -> Vec<QueueInfo> {
        let mut queues: Vec<QueueInfo> = self.queues.values().cloned().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        queues
    }

    /// The number of the latest event.
    pub fn last_event(&self) -> u64 {
        self.counters.event
    }

    /// Checks that stored data agrees with itself and with the cache.
    pub fn check(&mut self, now: Timestamp) -> Result<Vec<String>> {
        let mut findings = self.tables.check()?;
        findings.extend(self.odd_schedules(now)?);
        for service in self.board.services() {
            let (name, in_use) = (&service.spec().name, service.in_use());
            if service.spec().max_concurrent.is_some_and(|max| in_use > max) {
                findings.push(format!(
                    "service {name} has {in_use} jobs at once, more than its limit allows"
                ));
            }
            for (rate, used) in service.rates_in_use(now) {
                if used > rate.limit {
                    findings.push(format!(
                        "service {name} used {used} units in a window that allows {}",
                        rate.limit
                    ));
                }
            }
        }
        Ok(findings)
    }
}
