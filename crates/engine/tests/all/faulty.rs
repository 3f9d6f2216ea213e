//! A store with faults on order: it refuses, it loses its answer after the change is made, or it is slow. The
//! store underneath is a real one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, TaskSpec, Timestamp, WorkerId,
};
use runcue_store::{
    Candidates, ClaimRequest, Claimed, Extend, Extended, Finish, Finished, Fired, GroupInfo,
    ListRequest, LogChunk, MemoryStore, Moved, Page, Pruned, QueueInfo, Reaped, Record, Result,
    Retention, ScheduleInfo, ServiceInfo, Stats, Store, StoreError, SubmitBatch, Submitted,
    WorkerInfo, WorkerSpec,
};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done.
    Refused,
    /// It is done, and the caller is not told.
    ReplyLost,
    /// It is done late. Only for real time: virtual time stands still while the store is asked.
    Late(Duration),
}

#[derive(Default)]
struct Orders {
    /// For the next calls of a verb; nothing means that one goes through.
    next: HashMap<&'static str, VecDeque<Option<Fault>>>,
    /// For every call of a verb, until taken back.
    always: HashMap<&'static str, Fault>,
    /// One call in so many fails, by a generator of its own.
    odds: Option<(u64, u64)>,
    calls: HashMap<&'static str, usize>,
}

impl Orders {
    fn take(&mut self, verb: &'static str) -> Option<Fault> {
        *self.calls.entry(verb).or_default() += 1;
        if let Some(ordered) = self.next.get_mut(verb).and_then(VecDeque::pop_front) {
            return ordered;
        }
        if let Some(fault) = self.always.get(verb) {
            return Some(*fault);
        }
        let (state, one_in) = self.odds.as_mut()?;
        // SplitMix64: the same faults in every run.
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        match bits % (*one_in * 2) {
            0 => Some(Fault::Refused),
            1 => Some(Fault::ReplyLost),
            _ => None,
        }
    }
}

/// A memory store with faults on order.
#[derive(Default)]
pub struct Faulty {
    inner: MemoryStore,
    orders: Mutex<Orders>,
}

impl Faulty {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The next calls of a verb.
    pub fn next(&self, verb: &'static str, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.orders.lock().unwrap().next.entry(verb).or_default().extend(faults);
    }

    /// Every call of these verbs from now on.
    pub fn always(&self, verbs: &[&'static str], fault: Fault) {
        let mut orders = self.orders.lock().unwrap();
        orders.always.extend(verbs.iter().map(|verb| (*verb, fault)));
    }

    /// One call in so many of any verb.
    pub fn odds(&self, seed: u64, one_in: u64) {
        self.orders.lock().unwrap().odds = Some((seed, one_in));
    }

    /// All goes well again.
    pub fn mend(&self) {
        let mut orders = self.orders.lock().unwrap();
        orders.next.clear();
        orders.always.clear();
        orders.odds = None;
    }

    pub fn calls(&self, verb: &'static str) -> usize {
        self.orders.lock().unwrap().calls.get(verb).copied().unwrap_or(0)
    }

    async fn through<R>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<R>>,
    ) -> Result<R> {
        let away = || StoreError::Unavailable(format!("{verb}: away, on purpose"));
        let fault = self.orders.lock().unwrap().take(verb);
        match fault {
            Some(Fault::Refused) => Err(away()),
            Some(Fault::ReplyLost) => call.await.and_then(|_| Err(away())),
            Some(Fault::Late(span)) => {
                tokio::time::sleep(span).await;
                call.await
            }
            None => call.await,
        }
    }
}

macro_rules! passed_on {
    ($($verb:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Faulty {
            $(async fn $verb(&self, $($argument: $kind),*) -> Result<$answer> {
                self.through(stringify!($verb), self.inner.$verb($($argument),*)).await
            })*

            async fn changed(&self, since: u64) -> u64 {
                self.inner.changed(since).await
            }

            fn durability(&self) -> &'static str {
                self.inner.durability()
            }
        }
    };
}

passed_on! {
    submit(now: Timestamp, batch: SubmitBatch) -> Vec<Submitted>;
    claim(now: Timestamp, request: ClaimRequest) -> Claimed;
    candidates(now: Timestamp, request: ClaimRequest, except: HashSet<Seq>) -> Candidates;
    extend(now: Timestamp, leases: Vec<Extend>) -> Vec<Extended>;
    finish(now: Timestamp, ends: Vec<Finish>) -> Vec<Finished>;
    reap(now: Timestamp, gone: Vec<WorkerId>) -> Reaped;
    cancel(now: Timestamp, filter: JobFilter, cascade: bool) -> u64;
    retry(now: Timestamp, filter: JobFilter) -> u64;
    set_group_paused(now: Timestamp, group: GroupName, paused: bool) -> bool;
    upsert_queues(now: Timestamp, queues: Vec<QueueSpec>) -> ();
    upsert_services(now: Timestamp, services: Vec<ServiceSpec>) -> ();
    upsert_schedules(now: Timestamp, schedules: Vec<ScheduleSpec>) -> ();
    remove_schedule(now: Timestamp, name: ScheduleName) -> bool;
    fire(now: Timestamp) -> Fired;
    put_records(now: Timestamp, records: Vec<Record>) -> ();
    records(kind: &str) -> Vec<Record>;
    upsert_tasks(now: Timestamp, tasks: Vec<TaskSpec>) -> ();
    upsert_worker(now: Timestamp, worker: WorkerSpec) -> ();
    remove_worker(now: Timestamp, worker: WorkerId) -> ();
    gone_workers() -> Vec<WorkerId>;
    append_logs(now: Timestamp, chunks: Vec<LogChunk>) -> ();
    prune(now: Timestamp, retention: Retention, dry_run: bool) -> Pruned;
    get(ids: Vec<JobId>) -> Vec<Option<Job>>;
    list(request: ListRequest) -> Page<Job>;
    stats(now: Timestamp) -> Stats;
    why(now: Timestamp, id: JobId) -> Vec<Reason>;
    groups() -> Vec<GroupInfo>;
    queues() -> Vec<QueueInfo>;
    services(now: Timestamp) -> Vec<ServiceInfo>;
    schedules() -> Vec<ScheduleInfo>;
    tasks() -> Vec<TaskSpec>;
    workers() -> Vec<WorkerInfo>;
    events(after: u64, limit: usize) -> Vec<Event>;
    last_event() -> u64;
    logs(id: JobId, after: u64) -> Vec<LogChunk>;
    relatives(id: JobId) -> (Vec<JobId>, Vec<JobId>);
    hand_over(now: Timestamp, after: Option<Seq>, limit: usize) -> Moved;
    take_over(now: Timestamp, moved: Moved) -> u64;
    check(now: Timestamp) -> Vec<String>;
    close() -> ();
}
