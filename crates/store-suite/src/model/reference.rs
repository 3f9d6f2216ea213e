//! The reference: a plain list of jobs and the rules of the documents, written down once more in the
//! simplest way, without lanes, boards or counters.

use std::collections::BTreeMap;
use std::time::Duration;

use runcue_core::service::KeyLimits;
use runcue_core::{
    EventKind, GroupName, JobId, JobSpec, Lease, ScheduleName, ServiceName, ServiceSpec, StateWord,
    Timestamp, Wait, WorkerId,
};
use runcue_store::Counts;

use super::schedules::Schedule;
use super::turns::KeptFor;

/// A job and everything that happened to it.
#[derive(Clone, Debug)]
pub struct Job {
    pub spec: JobSpec,
    pub state: StateWord,
    /// Not before, while it waits for a time.
    pub due: Option<Timestamp>,
    pub attempt: u32,
    pub earlier: u32,
    pub crashes: u32,
    pub lease: Option<Lease>,
    pub started_at: Timestamp,
    pub queued_at: Timestamp,
    pub error: Option<String>,
    pub cancel_requested: bool,
    pub result_key: Option<String>,
    pub story: Vec<EventKind>,
}

/// A use of a service that counts in its windows.
#[derive(Clone, Debug)]
pub struct Start {
    pub at: Timestamp,
    pub job: JobSpec,
    pub units: u64,
}

/// A breaker.
#[derive(Clone, Debug, PartialEq)]
pub enum Circuit {
    Closed(u32),
    Open(Timestamp),
    Probing(JobId),
}

/// A service and its whole history.
#[derive(Clone, Debug)]
pub struct Service {
    pub spec: ServiceSpec,
    pub starts: Vec<Start>,
    pub circuit: Circuit,
    pub held_until: Timestamp,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub paused: bool,
    pub turn: u64,
}

/// How an attempt ended, as far as its services are concerned.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Good,
    Bad,
    Nothing,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub jobs: Vec<Job>,
    pub services: BTreeMap<ServiceName, Service>,
    pub groups: BTreeMap<Option<GroupName>, Group>,
    pub schedules: BTreeMap<ScheduleName, Schedule>,
    /// What may be kept: all that agrees with the picks so far.
    pub kept: Vec<BTreeMap<ServiceName, KeptFor>>,
    pub served: u64,
    pub now: Timestamp,
}

impl Reference {
    /// The place of a job.
    pub fn find(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.spec.id == id)
    }

    /// What a queued job waits for.
    pub fn wait(&self, n: usize) -> Wait {
        match (self.open_prerequisites(n), self.jobs[n].due) {
            (0, None) => Wait::Turn,
            (0, Some(at)) => Wait::Until(at),
            (left, _) => Wait::Prerequisites(left),
        }
    }

    fn open_prerequisites(&self, n: usize) -> u32 {
        let open = self.jobs[n].spec.depends_on.iter().filter(|id| {
            self.find(**id).is_some_and(|n| self.jobs[n].state != StateWord::Completed)
        });
        u32::try_from(open.count()).unwrap()
    }

    /// Jobs of a group, or all, by state.
    pub fn counts(&self, group: Option<&Option<GroupName>>) -> Counts {
        let mut counts = Counts::default();
        for job in self.jobs.iter().filter(|job| group.is_none_or(|g| *g == job.spec.group)) {
            *counts.of(job.state) += 1;
        }
        counts
    }

    /// Jobs that use a service now, perhaps of one key only.
    pub fn in_use(&self, service: &ServiceName, like: Option<&JobSpec>) -> u32 {
        let using = self.jobs.iter().filter(|job| {
            job.lease.is_some()
                && job.spec.services.iter().any(|used| used.service == *service)
                && like.is_none_or(|like| like.key == job.spec.key)
        });
        u32::try_from(using.count()).unwrap()
    }

    /// Units used in the window that ends now.
    pub fn used(&self, service: &Service, window: Duration, like: Option<&JobSpec>) -> u64 {
        let counted = service.starts.iter().filter(|start| {
            start.at.plus(window) > self.now && like.is_none_or(|like| like.key == start.job.key)
        });
        counted.map(|start| start.units).sum()
    }

    /// The limits of each key of a service.
    pub fn key_limits(service: &Service) -> Option<&KeyLimits> {
        service.spec.per_key.as_ref()
    }

    /// Puts a job into the queue; a group that had nothing queued joins the rotation.
    pub fn enter(&mut self, n: usize, due: Option<Timestamp>) {
        let group = self.jobs[n].spec.group.clone();
        let idle = self.counts(Some(&group)).queued == 0;
        let joined = self.served * 2;
        let entry = self.groups.entry(group).or_default();
        if idle {
            entry.turn = entry.turn.max(joined);
        }
        self.jobs[n].state = StateWord::Queued;
        self.jobs[n].due = due;
    }

    /// Accepts a job whose id and idempotency key are free.
    pub fn accept(&mut self, spec: JobSpec) {
        let job = Job {
            state: StateWord::Completed,
            due: None,
            attempt: 0,
            earlier: 0,
            crashes: 0,
            lease: None,
            started_at: self.now,
            queued_at: self.now,
            error: None,
            cancel_requested: false,
            result_key: None,
            story: vec![EventKind::Queued],
            spec,
        };
        let due = job.spec.run_at.filter(|at| *at > self.now);
        self.jobs.push(job);
        self.enter(self.jobs.len() - 1, due);
    }

    /// Jobs that enter the queue and find a prerequisite that did not complete end at once, each for its
    /// own reason; then their dependents are told.
    pub fn doom(&mut self, jobs: &[usize]) {
        let doomed: Vec<(usize, &str)> =
            jobs.iter().filter_map(|n| Some((*n, self.reason_to_end(*n)?))).collect();
        for (n, error) in &doomed {
            self.jobs[*n].error = Some((*error).to_owned());
            self.settle(*n, StateWord::Failed, EventKind::Failed);
        }
        for (n, _) in doomed {
            self.tell_dependents(self.jobs[n].spec.id, StateWord::Failed, false);
        }
    }

    fn reason_to_end(&self, n: usize) -> Option<&'static str> {
        let prerequisites = self.jobs[n].spec.depends_on.iter().filter_map(|id| self.find(*id));
        let mut states = prerequisites.map(|n| self.jobs[n].state);
        match states.find(|state| state.is_final() && *state != StateWord::Completed)? {
            StateWord::Cancelled => Some("prerequisite_cancelled"),
            _ => Some("prerequisite_failed"),
        }
    }

    fn unmet(&mut self, n: usize, error: &str) {
        self.jobs[n].error = Some(error.to_owned());
        self.end(n, StateWord::Failed, EventKind::Failed, false);
    }

    /// A final state, and what it means for the dependents.
    fn end(&mut self, n: usize, state: StateWord, event: EventKind, cascade: bool) {
        self.settle(n, state, event);
        self.tell_dependents(self.jobs[n].spec.id, state, cascade);
    }

    fn settle(&mut self, n: usize, state: StateWord, event: EventKind) {
        let id = self.jobs[n].spec.id;
        self.free(|kept| kept.job != id);
        self.jobs[n].state = state;
        self.jobs[n].due = None;
        self.jobs[n].lease = None;
        self.jobs[n].story.push(event);
    }

    /// The dependents of a job that ended, before theirs.
    fn tell_dependents(&mut self, id: JobId, state: StateWord, cascade: bool) {
        let mut ended = Vec::new();
        for n in 0..self.jobs.len() {
            let job = &self.jobs[n];
            if job.state != StateWord::Queued || !job.spec.depends_on.contains(&id) {
                continue;
            }
            match state {
                StateWord::Completed if self.open_prerequisites(n) == 0 => {
                    self.jobs[n].due = self.jobs[n].spec.run_at.filter(|at| *at > self.now);
                }
                StateWord::Completed => {}
                StateWord::Cancelled if cascade => {
                    self.settle(n, StateWord::Cancelled, EventKind::Cancelled);
                    ended.push(n);
                }
                _ => {
                    let cancelled = state == StateWord::Cancelled;
                    let word =
                        if cancelled { "prerequisite_cancelled" } else { "prerequisite_failed" };
                    self.jobs[n].error = Some(word.to_owned());
                    self.settle(n, StateWord::Failed, EventKind::Failed);
                    ended.push(n);
                }
            }
        }
        for n in ended {
            self.tell_dependents(self.jobs[n].spec.id, self.jobs[n].state, cascade);
        }
    }

    /// Whether a lease is the one that is held.
    pub fn holds(&self, lease: &Lease) -> Option<usize> {
        let n = self.find(lease.job)?;
        let held = self.jobs[n].lease.as_ref()?;
        held.same_as(lease).then_some(n)
    }

    /// A heartbeat of the holder.
    pub fn beat(&mut self, n: usize, until: Timestamp) -> Timestamp {
        if self.jobs[n].state == StateWord::Leased {
            self.jobs[n].state = StateWord::Running;
            self.jobs[n].started_at = self.now;
            self.jobs[n].story.push(EventKind::Started);
        }
        let until = until.min(self.last_moment(n));
        let lease = self.jobs[n].lease.as_mut().unwrap();
        lease.until = until;
        until
    }

    /// A lease cannot be longer than the timeout and thirty seconds of grace.
    pub fn last_moment(&self, n: usize) -> Timestamp {
        let job = &self.jobs[n];
        let grace = Duration::from_secs(30);
        job.spec.timeout.map_or(Timestamp::MAX, |timeout| job.started_at.plus(timeout).plus(grace))
    }

    fn release(&mut self, n: usize, verdict: Verdict) {
        let spec = self.jobs[n].spec.clone();
        self.jobs[n].lease = None;
        for used in &spec.services {
            let now = self.now;
            let Some(service) = self.services.get_mut(&used.service) else { continue };
            let Some(threshold) = service.spec.circuit_threshold else { continue };
            let opened = Circuit::Open(now.plus(service.spec.circuit_timeout));
            service.circuit = match (&service.circuit, verdict) {
                (Circuit::Probing(id), Verdict::Good) if *id == spec.id => Circuit::Closed(0),
                (Circuit::Probing(id), Verdict::Bad) if *id == spec.id => opened,
                (Circuit::Probing(id), Verdict::Nothing) if *id == spec.id => Circuit::Open(now),
                (Circuit::Closed(_), Verdict::Good) => Circuit::Closed(0),
                (Circuit::Closed(bad), Verdict::Bad) if bad + 1 >= threshold => opened,
                (Circuit::Closed(bad), Verdict::Bad) => Circuit::Closed(bad + 1),
                (other, _) => other.clone(),
            };
        }
    }

    /// The start of the attempt that is held never was.
    pub fn unused(&mut self, n: usize) {
        let job = &self.jobs[n];
        let Some(at) = job.lease.as_ref().and_then(|lease| lease.start_by) else { return };
        for used in &job.spec.services {
            let starts = &mut self.services.get_mut(&used.service).unwrap().starts;
            let own = |start: &Start| start.at == at && start.job.id == job.spec.id;
            let place = starts.iter().rposition(own).unwrap();
            starts.remove(place);
        }
    }

    /// The holder is done.
    pub fn complete(&mut self, n: usize, result_key: Option<String>) {
        self.release(n, Verdict::Good);
        self.jobs[n].result_key = result_key;
        self.jobs[n].error = None;
        self.end(n, StateWord::Completed, EventKind::Completed, false);
    }

    /// The holder failed, or went away.
    pub fn fail(&mut self, n: usize, error: &str, kind: Bad) {
        let verdict = if matches!(kind, Bad::Transient | Bad::Timeout) {
            Verdict::Bad
        } else {
            Verdict::Nothing
        };
        self.release(n, verdict);
        self.jobs[n].error = Some(error.to_owned());
        if kind == Bad::Crash {
            self.jobs[n].crashes += 1;
        }
        let job = &self.jobs[n];
        let round = job.attempt - job.earlier;
        let poison = kind == Bad::Crash && job.crashes >= job.spec.retry.max_crashes;
        if job.cancel_requested {
            self.end(n, StateWord::Cancelled, EventKind::Cancelled, false);
        } else if kind == Bad::Permanent {
            self.end(n, StateWord::Failed, EventKind::Failed, false);
        } else if round >= job.spec.retry.max_attempts || poison {
            self.end(n, StateWord::Quarantined, EventKind::Failed, false);
        } else {
            let delay = Duration::from_secs(1 << (round - 1));
            let due = (kind != Bad::Crash).then(|| self.now.plus(delay));
            self.jobs[n].story.push(EventKind::Retrying);
            self.enter(n, due);
        }
    }

    /// The holder gives it back: the attempt does not count.
    pub fn hand_back(&mut self, n: usize, due: Option<Timestamp>) {
        self.release(n, Verdict::Nothing);
        if self.jobs[n].cancel_requested {
            return self.end(n, StateWord::Cancelled, EventKind::Cancelled, false);
        }
        self.jobs[n].attempt -= 1;
        self.jobs[n].story.push(EventKind::Retrying);
        self.enter(n, due);
    }

    /// The holder stopped.
    pub fn stop(&mut self, n: usize) {
        self.release(n, Verdict::Nothing);
        self.end(n, StateWord::Cancelled, EventKind::Cancelled, false);
    }

    /// Takes back what lapsed and what gone workers held; ends what is overdue. Answers the three lists.
    pub fn reap(&mut self, gone: Option<WorkerId>) -> [Vec<JobId>; 3] {
        let (mut requeued, mut aside) = (Vec::new(), Vec::new());
        for n in 0..self.jobs.len() {
            let Some(lease) = self.jobs[n].lease.clone() else { continue };
            let lapsed = lease.until <= self.now;
            if !lapsed && gone != Some(lease.worker) {
                continue;
            }
            let overtime = lapsed && lease.until >= self.last_moment(n);
            match overtime {
                true => {
                    self.fail(n, "timeout: ran longer than it may and did not stop", Bad::Timeout)
                }
                false => self.fail(n, "the worker went away", Bad::Crash),
            }
            let queued = self.jobs[n].state == StateWord::Queued;
            if queued { &mut requeued } else { &mut aside }.push(self.jobs[n].spec.id);
        }
        [requeued, aside, self.end_overdue()]
    }

    /// Ends the jobs whose deadline has passed, in the order of their deadlines: an end may end others.
    pub fn end_overdue(&mut self) -> Vec<JobId> {
        let mut overdue = Vec::new();
        while let Some((_, n)) = self.next_overdue() {
            overdue.push(self.jobs[n].spec.id);
            if self.expires(n).is_some_and(|at| at <= self.now) {
                self.jobs[n].error = Some("expired: not started in time".to_owned());
                self.end(n, StateWord::Cancelled, EventKind::Cancelled, false);
            } else {
                self.unmet(n, "dependency_timeout");
            }
        }
        overdue
    }

    fn expires(&self, n: usize) -> Option<Timestamp> {
        self.jobs[n].spec.expires_at.filter(|_| self.jobs[n].attempt == 0)
    }

    fn next_overdue(&self) -> Option<(Timestamp, usize)> {
        let deadline = |n: usize| {
            let job = &self.jobs[n];
            let waits = matches!(self.wait(n), Wait::Prerequisites(_));
            let patience = job.spec.dependency_timeout.filter(|_| waits);
            let at =
                self.expires(n).into_iter().chain(patience.map(|span| job.queued_at.plus(span)));
            Some((at.min()?, n))
        };
        let queued = |n: &usize| self.jobs[*n].state == StateWord::Queued;
        let all = (0..self.jobs.len()).filter(queued).filter_map(deadline);
        all.filter(|(at, _)| *at <= self.now).min()
    }

    /// Withdraws a job; answers whether that changed it.
    pub fn cancel(&mut self, n: usize, cascade: bool) -> bool {
        match self.jobs[n].state {
            StateWord::Queued => self.end(n, StateWord::Cancelled, EventKind::Cancelled, cascade),
            StateWord::Leased | StateWord::Running if !self.jobs[n].cancel_requested => {
                self.jobs[n].cancel_requested = true;
                if cascade {
                    self.tell_dependents(self.jobs[n].spec.id, StateWord::Cancelled, true);
                }
            }
            _ => return false,
        }
        true
    }

    /// Sends jobs round again, and the dependents that failed because of them.
    pub fn retry(&mut self, mut chosen: Vec<usize>) -> u64 {
        let bad = [StateWord::Failed, StateWord::Cancelled, StateWord::Quarantined];
        chosen.retain(|n| bad.contains(&self.jobs[*n].state));
        let mut looked_at = 0;
        while looked_at < chosen.len() {
            let id = self.jobs[chosen[looked_at]].spec.id;
            looked_at += 1;
            for (n, job) in self.jobs.iter().enumerate() {
                let because = matches!(
                    job.error.as_deref(),
                    Some("prerequisite_failed" | "prerequisite_cancelled")
                );
                let failed = job.state == StateWord::Failed && because;
                if failed && job.spec.depends_on.contains(&id) && !chosen.contains(&n) {
                    chosen.push(n);
                }
            }
        }
        chosen.sort_unstable();
        for n in &chosen {
            let job = &mut self.jobs[*n];
            job.earlier = job.attempt;
            job.crashes = 0;
            job.cancel_requested = false;
            job.queued_at = self.now;
            job.story.push(EventKind::Queued);
            let due = job.spec.run_at.filter(|at| *at > self.now);
            self.enter(*n, due);
        }
        self.doom(&chosen);
        chosen.len() as u64
    }
}

/// Sorts of failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bad {
    Transient,
    Permanent,
    Timeout,
    Crash,
}
