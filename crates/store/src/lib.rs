//! What a store is: the [`Store`] trait, its requests, replies and errors; the [`machine`] that every
//! embedded store runs; and the memory store, which is the machine over plain maps.
//!
//! A store is a set of semantic, atomic operations. Each takes `now` from the caller and many jobs in
//! one call. Decisions come from `runcue_core`; a store only makes them durable.
//!
//! What a store must keep:
//! - a reply is given only when its change is durable in the store's named mode;
//! - claim and services are one atomic step: no job is ever handed out beyond a limit and put back;
//! - a write under a lease that is no longer held changes nothing and says so;
//! - dependents are resolved in the same step that ends their prerequisite;
//! - events are numbered in the order of the changes they tell of.

pub mod error;
pub mod event_run;
pub mod machine;
pub mod memory;
pub mod moving;
pub mod overlay;
pub mod presence;
mod projects;
pub mod reply;
pub mod request;
pub mod stage;
pub mod tables;
pub mod watcher;
pub mod writer;

use std::collections::HashSet;

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, TaskSpec, Timestamp, WorkerId,
};

pub use error::StoreError;
pub use memory::MemoryStore;
pub use moving::{Definitions, Moved, MovedJob};
pub use reply::{
    Candidate, Candidates, Claimed, Counts, Extended, Finished, Fired, Firing, GroupInfo, LeftOut,
    LogChunk, LogStream, Page, Particulars, ProjectInfo, Pruned, QueueInfo, Reaped, Record,
    Refused, ScheduleInfo, ServiceInfo, Stats, Submitted, WorkerInfo,
};
pub use request::{
    ClaimRequest, Extend, Finish, Keep, ListRequest, Outcome, Retention, SubmitBatch, WorkerSpec,
};

/// What every operation answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A durable queue. See the crate's documentation for what every implementation must keep.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Accepts a batch whole or refuses it whole, naming the job and the fix. Jobs may depend on jobs of
    /// the same batch in any order. A job whose id is known already, or whose idempotency key is taken by
    /// a live or completed job, is answered with the one that is there.
    async fn submit(&self, now: Timestamp, batch: SubmitBatch) -> Result<Vec<Submitted>>;

    /// Hands out up to `max` jobs that may run now, each under a lease, with its services taken. Schedules
    /// whose firing has come are fired and jobs whose time has come are promoted first. Jobs that applications
    /// have put down beside the queue are admitted by some claim soon after their transaction has committed.
    async fn claim(&self, now: Timestamp, request: ClaimRequest) -> Result<Claimed>;

    /// Jobs that a claim could take now, for a caller that wants to choose among them by score and then
    /// claim them by id. About `max` of them, from every lane that is open. A caller that has turned some
    /// down names them, and is told of those behind; an answer without jobs means that there are no more.
    async fn candidates(
        &self,
        now: Timestamp,
        request: ClaimRequest,
        except: HashSet<Seq>,
    ) -> Result<Candidates>;

    /// Heartbeats: extends leases, notes that a job has begun, takes progress, and tells of cancel
    /// requests and lost leases. One answer per entry.
    async fn extend(&self, now: Timestamp, leases: Vec<Extend>) -> Result<Vec<Extended>>;

    /// Ends attempts: resolves dependents, frees services, moves breakers, writes events. One answer
    /// per entry.
    async fn finish(&self, now: Timestamp, ends: Vec<Finish>) -> Result<Vec<Finished>>;

    /// Takes back the jobs whose lease has lapsed or whose worker is among the gone, and ends queued jobs
    /// whose deadline has passed.
    async fn reap(&self, now: Timestamp, gone: Vec<WorkerId>) -> Result<Reaped>;

    /// Withdraws jobs: queued ones at once, running ones by asking them to stop. With `cascade` their
    /// dependents are withdrawn too, otherwise those fail. Answers how many jobs it changed.
    async fn cancel(&self, now: Timestamp, filter: JobFilter, cascade: bool) -> Result<u64>;

    /// Sends failed, cancelled and quarantined jobs round again, together with the dependents that
    /// failed only because of them. Answers how many.
    async fn retry(&self, now: Timestamp, filter: JobFilter) -> Result<u64>;

    /// Pauses or resumes a group; running jobs finish. Answers whether that changed anything.
    async fn set_group_paused(
        &self,
        now: Timestamp,
        group: GroupName,
        paused: bool,
    ) -> Result<bool>;

    /// Defines queues: their caps and pauses.
    async fn upsert_queues(&self, now: Timestamp, queues: Vec<QueueSpec>) -> Result<()>;

    /// Defines services or changes their limits while they are in use.
    async fn upsert_services(&self, now: Timestamp, services: Vec<ServiceSpec>) -> Result<()>;

    /// Stores task definitions with the queue.
    async fn upsert_tasks(&self, now: Timestamp, tasks: Vec<TaskSpec>) -> Result<()>;

    /// Keeps records of fronts, all or none; one without a value goes.
    async fn put_records(&self, now: Timestamp, records: Vec<Record>) -> Result<()>;

    /// Every record of a kind, by name.
    async fn records(&self, kind: &str) -> Result<Vec<Record>>;

    /// Defines schedules, all or none. One whose expression, zone or pause has changed fires next at its
    /// next instant after now; any other change leaves its next firing as it is.
    async fn upsert_schedules(&self, now: Timestamp, schedules: Vec<ScheduleSpec>) -> Result<()>;

    /// Deletes a schedule; jobs it has submitted stay. Answers whether there was one.
    async fn remove_schedule(&self, now: Timestamp, name: ScheduleName) -> Result<bool>;

    /// Submits the jobs of every firing that has come and moves the schedules on, in one step: each firing
    /// is submitted once, by however many callers.
    async fn fire(&self, now: Timestamp) -> Result<Fired>;

    /// Makes a worker instance known, or alive again.
    async fn upsert_worker(&self, now: Timestamp, worker: WorkerSpec) -> Result<()>;

    /// A worker instance says goodbye.
    async fn remove_worker(&self, now: Timestamp, worker: WorkerId) -> Result<()>;

    /// Worker instances of this machine that are known to be gone, without waiting for their leases. Only
    /// a store that can tell for certain answers anything.
    async fn gone_workers(&self) -> Result<Vec<WorkerId>>;

    /// Something that shows others that a worker instance is still there for as long as anybody has it
    /// open. A front whose children outlive it for a moment hands it to whoever clears them away, so that
    /// its jobs are not begun again before that. Only a store that tells by such means has one.
    fn presence(&self, worker: WorkerId) -> Option<std::fs::File> {
        let _ = worker;
        None
    }

    /// Keeps output of running jobs, bounded per job; the oldest goes first.
    async fn append_logs(&self, now: Timestamp, chunks: Vec<LogChunk>) -> Result<()>;

    /// Deletes what retention no longer keeps, or with `dry_run` only counts it.
    async fn prune(&self, now: Timestamp, retention: Retention, dry_run: bool) -> Result<Pruned>;

    /// Jobs by id, in the order asked, nothing where there is none.
    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>>;

    /// Jobs by filter, newest first, page by page.
    async fn list(&self, request: ListRequest) -> Result<Page<Job>>;

    /// The ids from one to another, both included, in their order, at most so many. A store that keeps ids in
    /// order looks them up; this looks at every job.
    async fn ids_between(&self, first: JobId, last: JobId, limit: usize) -> Result<Vec<JobId>> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = self.list(ListRequest { before, limit: 1_000, ..ListRequest::default() });
            let page = page.await?;
            let ids = page.rows.iter().map(Job::id);
            found.extend(ids.filter(|id| (first..=last).contains(id)));
            before = page.next;
            if before.is_none() {
                found.sort_unstable();
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    /// Counts of everything, without looking at every job. Jobs that applications have put down beside the
    /// queue are admitted first.
    async fn stats(&self, now: Timestamp) -> Result<Stats>;

    /// Every project with jobs that are not in a final state, by name. Looks at each of those, a page at a time:
    /// the counts of several pages are not of one instant.
    async fn projects(&self) -> Result<Vec<ProjectInfo>> {
        projects::count(self).await
    }

    /// Why a job waits, most important reason first.
    async fn why(&self, now: Timestamp, id: JobId) -> Result<Vec<Reason>>;

    /// Every group with its counts.
    async fn groups(&self) -> Result<Vec<GroupInfo>>;

    /// Every queue with its cap and depth.
    async fn queues(&self) -> Result<Vec<QueueInfo>>;

    /// Every service with its use.
    async fn services(&self, now: Timestamp) -> Result<Vec<ServiceInfo>>;

    /// Jobs that applications put down in their own transactions and that were refused, latest first. Only a
    /// store that applications have transactions on has any.
    async fn refused(&self, limit: usize) -> Result<Vec<Refused>> {
        let _ = limit;
        Ok(Vec::new())
    }

    /// Every task definition.
    async fn tasks(&self) -> Result<Vec<TaskSpec>>;

    /// Every schedule with its next firing, by name.
    async fn schedules(&self) -> Result<Vec<ScheduleInfo>>;

    /// Every known worker instance.
    async fn workers(&self) -> Result<Vec<WorkerInfo>>;

    /// Events after a number, oldest first, at most so many.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>>;

    /// The number of the latest event.
    async fn last_event(&self) -> Result<u64>;

    /// A job's kept output after a chunk number, oldest first.
    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>>;

    /// The dependents and prerequisites of a job: (prerequisites, dependents).
    async fn relatives(&self, id: JobId) -> Result<(Vec<JobId>, Vec<JobId>)>;

    /// Waits until something has changed after a version that an earlier call answered, here or in
    /// another process, and answers the version to pass next time; zero answers at once. May answer for
    /// no reason. A caller that asks for a version, looks, and then waits with that version misses nothing.
    async fn changed(&self, since: u64) -> u64;

    /// A word for the durability mode, for every figure that is published.
    fn durability(&self) -> &'static str;

    /// What another store takes over: the definitions with the first page, and so many jobs after a place,
    /// oldest first, with what belongs to them but for their output. Changes nothing.
    async fn hand_over(&self, now: Timestamp, after: Option<Seq>, limit: usize) -> Result<Moved>;

    /// Takes over what another store has handed over, all or nothing, as it is: no limit is asked, no event
    /// is written. A job that is there already is brought to the same life. Answers how many jobs are new.
    async fn take_over(&self, now: Timestamp, moved: Moved) -> Result<u64>;

    /// Why the store cannot be used at the moment, in words, if that is so. It goes on trying by itself.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What is known of the place the queue is kept in, for whoever looks for what is wrong.
    async fn particulars(&self) -> Result<Particulars> {
        Ok(Particulars::default())
    }

    /// Checks that stored data agrees with itself; answers what does not, in words.
    async fn check(&self, now: Timestamp) -> Result<Vec<String>>;

    /// Makes everything durable and stops background work. The store is not used afterwards.
    async fn close(&self) -> Result<()>;
}
