//! [`ServerStore`]: the [`Store`] over a server. What changes something, and what only the board knows, goes
//! to the writer; other questions go to a [`Reader`] and never wait for a turn.
//!
//! The store's clock is the server's. What a caller compares with its own clock (when a lease lapses, when to
//! come back) is answered on that one, counted from the instant at which the caller asked, so that it is on
//! the safe side whatever the two clocks say.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, State, TaskSpec, Timestamp, WorkerId,
};

use super::Backend;
use super::cache::{Foresight, Overlay};
use super::news::News;
use super::requests::{Answered, Writer};
use super::writer::Settings;
use crate::machine::Machine;
use crate::tables::Tables;
use crate::{
    Candidates, ClaimRequest, Claimed, Extend, Extended, Finish, Finished, Fired, GroupInfo,
    ListRequest, LogChunk, Moved, Page, Particulars, Pruned, QueueInfo, Reaped, Record, Refused,
    Result, Retention, ScheduleInfo, ServiceInfo, Stats, Store, StoreError, SubmitBatch, Submitted,
    WorkerInfo, WorkerSpec,
};

/// The questions that a server answers beside the turns; the words are [`Store`]'s.
#[async_trait]
pub trait Reader: Send + Sync + 'static {
    /// Jobs by id, in the order asked.
    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>>;
    /// Jobs by filter, newest first.
    async fn list(&self, request: ListRequest) -> Result<Page<Job>>;
    /// Every record of a kind, by name.
    async fn records(&self, kind: &str) -> Result<Vec<Record>>;
    /// Every task definition.
    async fn tasks(&self) -> Result<Vec<TaskSpec>>;
    /// Jobs from applications that were refused, latest first.
    async fn refused(&self, limit: usize) -> Result<Vec<Refused>> {
        let _ = limit;
        Ok(Vec::new())
    }
    /// Every known worker instance.
    async fn workers(&self) -> Result<Vec<WorkerInfo>>;
    /// Events after a number.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>>;
    /// The number of the latest event.
    async fn last_event(&self) -> Result<u64>;
    /// A job's kept output after a chunk.
    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>>;
    /// The prerequisites and the dependents of a job, nothing if there is no such job.
    async fn relatives(&self, id: JobId) -> Result<Option<(Vec<JobId>, Vec<JobId>)>>;
    /// What is known of the server.
    async fn particulars(&self) -> Result<Particulars> {
        Ok(Particulars::default())
    }
    /// Begins to listen for what others change, if that has not begun.
    fn listen(&self, news: &News);
    /// A word for the durability mode.
    fn durability(&self) -> &'static str;
    /// Stops listening and lets go of connections.
    async fn close(&self);
}

/// Whoever has submitted so often listens, so that its submissions need not begin with asking what others have written.
const OFTEN: u32 = 8;

/// A queue on a server.
pub struct ServerStore<B, R> {
    writer: Arc<Writer<B>>,
    submissions: AtomicU32,
    reader: R,
    callers_clock: bool,
}

impl<B, R> std::fmt::Debug for ServerStore<B, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerStore").finish_non_exhaustive()
    }
}

impl<B: Backend, R: Reader> ServerStore<B, R> {
    /// A store over a backend that is connected.
    pub fn new(backend: B, reader: R, settings: Settings) -> Result<Self> {
        let place = settings.place.clone();
        let callers_clock = settings.callers_clock;
        let writer = Writer::start(backend, settings).map_err(|error| {
            StoreError::Unavailable(format!("{place}: no thread to write: {error}"))
        })?;
        let submissions = AtomicU32::new(0);
        Ok(Self { writer: Arc::new(writer), submissions, reader, callers_clock })
    }

    /// What is beneath the questions.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Admits jobs that were put down beside the queue. Answers how many rows it dealt with.
    pub async fn admit(&self, now: Timestamp) -> Result<u64> {
        self.call(now, |machine, now| machine.admit(now)).await.map(|answered| answered.value)
    }

    async fn call<A: Send + 'static>(
        &self,
        now: Timestamp,
        operation: impl Fn(&mut Machine<Overlay<B>>, Timestamp) -> Result<A> + Send + 'static,
    ) -> Result<Answered<A>> {
        self.writer.call(now, Foresight::default(), operation).await
    }

    async fn value<A: Send + 'static>(
        &self,
        now: Timestamp,
        operation: impl Fn(&mut Machine<Overlay<B>>, Timestamp) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        self.call(now, operation).await.map(|answered| answered.value)
    }
}

/// From the store's clock to the caller's.
#[derive(Clone, Copy)]
struct Shift {
    from: Timestamp,
    to: Timestamp,
}

impl Shift {
    fn at(self, at: Timestamp) -> Timestamp {
        let micros = at.as_micros().saturating_sub(self.from.as_micros());
        Timestamp::from_micros(self.to.as_micros().saturating_add(micros))
    }

    fn maybe(self, at: Option<Timestamp>) -> Option<Timestamp> {
        at.map(|at| self.at(at))
    }

    fn lease(self, lease: &mut runcue_core::Lease) {
        lease.until = self.at(lease.until);
        lease.start_by = self.maybe(lease.start_by);
    }
}

#[async_trait]
impl<B: Backend, R: Reader> Store for ServerStore<B, R> {
    async fn submit(&self, now: Timestamp, batch: SubmitBatch) -> Result<Vec<Submitted>> {
        if self.submissions.fetch_add(1, Ordering::Relaxed) == OFTEN {
            self.reader.listen(self.writer.news());
        }
        let batch = Arc::new(batch);
        let foresight = Foresight::of_batch(&batch);
        let operation = move |machine: &mut Machine<Overlay<B>>, now| {
            machine.submit(now, SubmitBatch::clone(&batch))
        };
        self.writer.call(now, foresight, operation).await.map(|answered| answered.value)
    }

    async fn claim(&self, now: Timestamp, request: ClaimRequest) -> Result<Claimed> {
        if request.again {
            self.writer.news().be_awaited();
        }
        let mut answered = match self.writer.claimed_ahead(&request) {
            Some(answered) => answered,
            None => {
                let foresight = Foresight::of_claim(&request);
                let operation = move |machine: &mut Machine<Overlay<B>>, now| {
                    let claimed = machine.claim(now, &request)?;
                    machine.tables().note_found(&request, claimed.jobs.len());
                    Ok(claimed)
                };
                self.writer.call(now, foresight, operation).await?
            }
        };
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            answered.value.wake = shift.maybe(answered.value.wake);
            for (job, lease) in &mut answered.value.jobs {
                shift.lease(lease);
                if let State::Leased(own) | State::Running(own) = &mut job.life.state {
                    shift.lease(own);
                }
            }
        }
        Ok(answered.value)
    }

    async fn candidates(
        &self,
        now: Timestamp,
        request: ClaimRequest,
        except: HashSet<Seq>,
    ) -> Result<Candidates> {
        let operation = move |machine: &mut Machine<Overlay<B>>, now| {
            machine.candidates(now, &request, &except)
        };
        let mut answered = self.call(now, operation).await?;
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            answered.value.wake = shift.maybe(answered.value.wake);
        }
        Ok(answered.value)
    }

    async fn extend(&self, now: Timestamp, leases: Vec<Extend>) -> Result<Vec<Extended>> {
        let foresight = Foresight::of_ids(leases.iter().map(|entry| entry.lease.job));
        let operation = move |machine: &mut Machine<Overlay<B>>, now| machine.extend(now, &leases);
        let mut answered = self.writer.call(now, foresight, operation).await?;
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            for extended in &mut answered.value {
                if let Extended::Held { until, .. } = extended {
                    *until = shift.at(*until);
                }
            }
        }
        Ok(answered.value)
    }

    async fn finish(&self, now: Timestamp, ends: Vec<Finish>) -> Result<Vec<Finished>> {
        let foresight = Foresight::of_ids(ends.iter().map(|end| end.lease.job));
        let operation =
            move |machine: &mut Machine<Overlay<B>>, now| machine.finish(now, ends.clone());
        let mut answered = self.writer.call(now, foresight, operation).await?;
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            for finished in &mut answered.value {
                if let Finished::Now { retry_at, .. } = finished {
                    *retry_at = shift.maybe(*retry_at);
                }
            }
        }
        Ok(answered.value)
    }

    async fn reap(&self, now: Timestamp, gone: Vec<WorkerId>) -> Result<Reaped> {
        let mut answered = self.call(now, move |machine, now| machine.reap(now, &gone)).await?;
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            answered.value.wake = shift.maybe(answered.value.wake);
        }
        Ok(answered.value)
    }

    async fn cancel(&self, now: Timestamp, filter: JobFilter, cascade: bool) -> Result<u64> {
        self.value(now, move |machine, now| machine.cancel(now, &filter, cascade)).await
    }

    async fn retry(&self, now: Timestamp, filter: JobFilter) -> Result<u64> {
        self.value(now, move |machine, now| machine.retry(now, &filter)).await
    }

    async fn set_group_paused(
        &self,
        now: Timestamp,
        group: GroupName,
        paused: bool,
    ) -> Result<bool> {
        let pause = move |machine: &mut Machine<Overlay<B>>, now| {
            machine.set_group_paused(now, group.clone(), paused)
        };
        self.value(now, pause).await
    }

    async fn upsert_queues(&self, now: Timestamp, queues: Vec<QueueSpec>) -> Result<()> {
        self.value(now, move |machine, _| machine.upsert_queues(queues.clone())).await
    }

    async fn upsert_services(&self, now: Timestamp, services: Vec<ServiceSpec>) -> Result<()> {
        self.value(now, move |machine, now| machine.upsert_services(now, services.clone())).await
    }

    async fn upsert_schedules(&self, now: Timestamp, schedules: Vec<ScheduleSpec>) -> Result<()> {
        self.value(now, move |machine, now| machine.upsert_schedules(now, schedules.clone())).await
    }

    async fn remove_schedule(&self, now: Timestamp, name: ScheduleName) -> Result<bool> {
        self.value(now, move |machine, _| machine.remove_schedule(&name)).await
    }

    async fn fire(&self, now: Timestamp) -> Result<Fired> {
        let mut answered = self.call(now, |machine, now| machine.fire(now)).await?;
        if !self.callers_clock {
            let shift = Shift { from: answered.now, to: now };
            answered.value.wake = shift.maybe(answered.value.wake);
        }
        Ok(answered.value)
    }

    async fn put_records(&self, now: Timestamp, records: Vec<Record>) -> Result<()> {
        self.value(now, move |machine, _| machine.put_records(&records)).await
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        self.reader.records(kind).await
    }

    async fn upsert_tasks(&self, now: Timestamp, tasks: Vec<TaskSpec>) -> Result<()> {
        self.value(now, move |machine, _| machine.upsert_tasks(&tasks)).await
    }

    async fn upsert_worker(&self, now: Timestamp, worker: WorkerSpec) -> Result<()> {
        self.value(now, move |machine, now| machine.upsert_worker(now, &worker)).await
    }

    async fn remove_worker(&self, now: Timestamp, worker: WorkerId) -> Result<()> {
        self.value(now, move |machine, _| machine.remove_worker(worker)).await
    }

    async fn gone_workers(&self) -> Result<Vec<WorkerId>> {
        // Whether a process on another machine is alive cannot be told for certain.
        Ok(Vec::new())
    }

    async fn append_logs(&self, now: Timestamp, chunks: Vec<LogChunk>) -> Result<()> {
        let foresight = Foresight::of_ids(chunks.iter().map(|chunk| chunk.job));
        let operation =
            move |machine: &mut Machine<Overlay<B>>, now| machine.append_logs(now, chunks.clone());
        self.writer.call(now, foresight, operation).await.map(|answered| answered.value)
    }

    async fn prune(&self, now: Timestamp, retention: Retention, dry_run: bool) -> Result<Pruned> {
        self.value(now, move |machine, now| machine.prune(now, &retention, dry_run)).await
    }

    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        self.reader.get(ids).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        self.reader.list(request).await
    }

    async fn stats(&self, now: Timestamp) -> Result<Stats> {
        let count = |machine: &mut Machine<Overlay<B>>, now| {
            machine.admit(now)?;
            machine.stats()
        };
        self.value(now, count).await
    }

    async fn why(&self, now: Timestamp, id: JobId) -> Result<Vec<Reason>> {
        self.value(now, move |machine, now| machine.why(now, id)).await
    }

    async fn groups(&self) -> Result<Vec<GroupInfo>> {
        self.value(Timestamp::ZERO, |machine, _| Ok(machine.groups())).await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.value(Timestamp::ZERO, |machine, _| Ok(machine.queues())).await
    }

    async fn services(&self, now: Timestamp) -> Result<Vec<ServiceInfo>> {
        self.value(now, |machine, now| Ok(machine.services(now))).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        self.value(Timestamp::ZERO, |machine, _| machine.tables().schedules()).await
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        self.reader.tasks().await
    }

    async fn refused(&self, limit: usize) -> Result<Vec<Refused>> {
        self.reader.refused(limit).await
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        self.reader.workers().await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        self.reader.events(after, limit).await
    }

    async fn last_event(&self) -> Result<u64> {
        self.reader.last_event().await
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        self.reader.logs(id, after).await
    }

    async fn relatives(&self, id: JobId) -> Result<(Vec<JobId>, Vec<JobId>)> {
        self.reader.relatives(id).await?.ok_or(StoreError::NotFound(id))
    }

    async fn changed(&self, since: u64) -> u64 {
        self.reader.listen(self.writer.news());
        let mut version = self.writer.news().version();
        match version.wait_for(|version| *version > since).await {
            Ok(version) => *version,
            Err(_) => since,
        }
    }

    fn durability(&self) -> &'static str {
        self.reader.durability()
    }

    fn trouble(&self) -> Option<String> {
        self.writer.trouble()
    }

    async fn particulars(&self) -> Result<Particulars> {
        self.reader.particulars().await
    }

    async fn hand_over(&self, now: Timestamp, after: Option<Seq>, limit: usize) -> Result<Moved> {
        self.value(now, move |machine, now| machine.hand_over(now, after, limit)).await
    }

    async fn take_over(&self, now: Timestamp, moved: Moved) -> Result<u64> {
        let foresight = Foresight::of_ids(moved.jobs.iter().map(|one| one.job.id()));
        let operation =
            move |machine: &mut Machine<Overlay<B>>, now| machine.take_over(now, &moved);
        self.writer.call(now, foresight, operation).await.map(|answered| answered.value)
    }

    async fn check(&self, now: Timestamp) -> Result<Vec<String>> {
        self.value(now, |machine, now| machine.check(now)).await
    }

    async fn close(&self) -> Result<()> {
        self.reader.close().await;
        let writer = self.writer.clone();
        let stopped = tokio::task::spawn_blocking(move || writer.stop()).await;
        stopped.map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}
