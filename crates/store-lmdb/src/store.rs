//! [`LmdbStore`]: the [`Store`] over one directory. Writes go to the writer, questions to a snapshot.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, TaskSpec, Timestamp, WorkerId,
};
use runcue_store::presence::{Presence, host};
use runcue_store::watcher::{Glance, Watcher};
use runcue_store::writer::Writer;
use runcue_store::{
    Candidates, ClaimRequest, Claimed, Extend, Extended, Finish, Finished, Fired, GroupInfo,
    ListRequest, LogChunk, Moved, Page, Particulars, Pruned, QueueInfo, Reaped, Record, Result,
    Retention, ScheduleInfo, ServiceInfo, Stats, Store, StoreError, SubmitBatch, Submitted,
    WorkerInfo, WorkerSpec,
};

use crate::connection::{Durability, Environment, Options};
use crate::reader;
use crate::tables::{LAST_EVENT, LmdbTables, REVISION, number};
use crate::view::View;

/// The environment says cheaply whether anybody has written.
struct MapGlance(Arc<Environment>);

impl Glance for MapGlance {
    fn mark(&mut self) -> Option<u64> {
        u64::try_from(self.0.last_transaction()).ok()
    }

    fn revision(&mut self) -> Option<u64> {
        self.0.ask(|view| number(view, REVISION)).ok()
    }
}

/// A queue in an LMDB directory.
pub struct LmdbStore {
    writer: Writer<LmdbTables>,
    watcher: Watcher,
    presence: Presence,
    environment: Arc<Environment>,
}

impl std::fmt::Debug for LmdbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.environment.options.path;
        f.debug_struct("LmdbStore").field("path", path).finish_non_exhaustive()
    }
}

impl LmdbStore {
    /// Opens a directory, making it if need be.
    pub fn open(options: &Options) -> Result<Self> {
        let environment = Environment::open(options)?;
        let writer = Writer::start(LmdbTables::new(environment.clone())).map_err(|error| {
            StoreError::Unavailable(format!("{}: no thread to write: {error}", options.place()))
        })?;
        let presence = Presence::beside(&options.path.join("data.mdb"));
        Ok(Self { writer, watcher: Watcher::default(), presence, environment })
    }

    /// Opens an address such as `lmdb:queue` or `lmdb:queue?durability=full&size=16GiB`.
    pub fn open_url(url: &str) -> Result<Self> {
        Self::open(&Options::parse(url)?)
    }

    /// Asks a snapshot, off the async threads: a long listing must not hold up others.
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(View<'_>) -> heed::Result<R> + Send + 'static,
    ) -> Result<R> {
        let environment = self.environment.clone();
        let asked = tokio::task::spawn_blocking(move || environment.ask(question)).await;
        asked.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    async fn known_workers(&self) -> Result<Vec<WorkerInfo>> {
        self.ask(reader::workers).await
    }
}

#[async_trait]
impl Store for LmdbStore {
    async fn submit(&self, now: Timestamp, batch: SubmitBatch) -> Result<Vec<Submitted>> {
        self.writer.call(now, move |machine| machine.submit(now, batch)).await
    }

    async fn claim(&self, now: Timestamp, request: ClaimRequest) -> Result<Claimed> {
        self.writer.call(now, move |machine| machine.claim(now, &request)).await
    }

    async fn candidates(
        &self,
        now: Timestamp,
        request: ClaimRequest,
        except: HashSet<Seq>,
    ) -> Result<Candidates> {
        self.writer.call(now, move |machine| machine.candidates(now, &request, &except)).await
    }

    async fn extend(&self, now: Timestamp, leases: Vec<Extend>) -> Result<Vec<Extended>> {
        self.writer.call(now, move |machine| machine.extend(now, &leases)).await
    }

    async fn finish(&self, now: Timestamp, ends: Vec<Finish>) -> Result<Vec<Finished>> {
        self.writer.call(now, move |machine| machine.finish(now, ends)).await
    }

    async fn reap(&self, now: Timestamp, gone: Vec<WorkerId>) -> Result<Reaped> {
        self.writer.call(now, move |machine| machine.reap(now, &gone)).await
    }

    async fn cancel(&self, now: Timestamp, filter: JobFilter, cascade: bool) -> Result<u64> {
        self.writer.call(now, move |machine| machine.cancel(now, &filter, cascade)).await
    }

    async fn retry(&self, now: Timestamp, filter: JobFilter) -> Result<u64> {
        self.writer.call(now, move |machine| machine.retry(now, &filter)).await
    }

    async fn set_group_paused(
        &self,
        now: Timestamp,
        group: GroupName,
        paused: bool,
    ) -> Result<bool> {
        self.writer.call(now, move |machine| machine.set_group_paused(now, group, paused)).await
    }

    async fn upsert_queues(&self, now: Timestamp, queues: Vec<QueueSpec>) -> Result<()> {
        self.writer.call(now, move |machine| machine.upsert_queues(queues)).await
    }

    async fn upsert_services(&self, now: Timestamp, services: Vec<ServiceSpec>) -> Result<()> {
        self.writer.call(now, move |machine| machine.upsert_services(now, services)).await
    }

    async fn put_records(&self, now: Timestamp, records: Vec<Record>) -> Result<()> {
        self.writer.call(now, move |machine| machine.put_records(&records)).await
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        let kind = kind.to_owned();
        self.ask(move |view| reader::records(view, &kind)).await
    }

    async fn upsert_tasks(&self, now: Timestamp, tasks: Vec<TaskSpec>) -> Result<()> {
        self.writer.call(now, move |machine| machine.upsert_tasks(&tasks)).await
    }

    async fn upsert_schedules(&self, now: Timestamp, schedules: Vec<ScheduleSpec>) -> Result<()> {
        self.writer.call(now, move |machine| machine.upsert_schedules(now, schedules)).await
    }

    async fn remove_schedule(&self, now: Timestamp, name: ScheduleName) -> Result<bool> {
        self.writer.call(now, move |machine| machine.remove_schedule(&name)).await
    }

    async fn fire(&self, now: Timestamp) -> Result<Fired> {
        self.writer.call(now, move |machine| machine.fire(now)).await
    }

    async fn upsert_worker(&self, now: Timestamp, worker: WorkerSpec) -> Result<()> {
        // The lock comes first: a worker that is known but holds none would be taken for gone.
        if worker.host == host() {
            self.presence.announce(&worker).map_err(|error| StoreError::ReadOnly {
                place: self.environment.options.place(),
                why: format!(
                    "the lock of worker {} beside it cannot be made: {error}",
                    worker.name
                ),
            })?;
        }
        self.writer.call(now, move |machine| machine.upsert_worker(now, &worker)).await
    }

    async fn remove_worker(&self, now: Timestamp, worker: WorkerId) -> Result<()> {
        let removed = self.writer.call(now, move |machine| machine.remove_worker(worker)).await;
        self.presence.leave(worker);
        removed
    }

    async fn gone_workers(&self) -> Result<Vec<WorkerId>> {
        let here = host();
        let workers = self.known_workers().await?;
        let of_this_machine = workers.into_iter().filter(|worker| worker.spec.host == here);
        Ok(of_this_machine
            .map(|worker| worker.spec.id)
            .filter(|id| self.presence.is_gone(*id))
            .collect())
    }

    fn presence(&self, worker: WorkerId) -> Option<std::fs::File> {
        self.presence.share(worker)
    }

    async fn append_logs(&self, now: Timestamp, chunks: Vec<LogChunk>) -> Result<()> {
        self.writer.call(now, move |machine| machine.append_logs(now, chunks)).await
    }

    async fn prune(&self, now: Timestamp, retention: Retention, dry_run: bool) -> Result<Pruned> {
        self.writer.call(now, move |machine| machine.prune(now, &retention, dry_run)).await
    }

    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        self.ask(move |view| reader::get(view, &ids)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        self.ask(move |view| reader::list(view, &request)).await
    }

    async fn ids_between(&self, first: JobId, last: JobId, limit: usize) -> Result<Vec<JobId>> {
        self.ask(move |view| reader::ids_between(view, first, last, limit)).await
    }

    async fn stats(&self, now: Timestamp) -> Result<Stats> {
        self.writer.call(now, |machine| machine.stats()).await
    }

    async fn why(&self, now: Timestamp, id: JobId) -> Result<Vec<Reason>> {
        self.writer.call(now, move |machine| machine.why(now, id)).await
    }

    async fn groups(&self) -> Result<Vec<GroupInfo>> {
        self.writer.call(Timestamp::ZERO, |machine| Ok(machine.groups())).await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.writer.call(Timestamp::ZERO, |machine| Ok(machine.queues())).await
    }

    async fn services(&self, now: Timestamp) -> Result<Vec<ServiceInfo>> {
        self.writer.call(now, move |machine| Ok(machine.services(now))).await
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        self.ask(reader::tasks).await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        self.ask(reader::schedules).await
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        self.known_workers().await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        self.ask(move |view| reader::events(view, after, limit)).await
    }

    async fn last_event(&self) -> Result<u64> {
        self.ask(|view| number(view, LAST_EVENT)).await
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        self.ask(move |view| reader::logs(view, id, after)).await
    }

    async fn relatives(&self, id: JobId) -> Result<(Vec<JobId>, Vec<JobId>)> {
        let found = self.ask(move |view| reader::relatives(view, id)).await?;
        found.ok_or(StoreError::NotFound(id))
    }

    async fn changed(&self, since: u64) -> u64 {
        let glance = || Some(MapGlance(self.environment.clone()));
        self.watcher.ensure(glance, &self.writer.revision, &self.writer.version);
        let mut receiver = self.writer.version.subscribe();
        match receiver.wait_for(|version| *version > since).await {
            Ok(version) => *version,
            Err(_) => since,
        }
    }

    fn durability(&self) -> &'static str {
        match self.environment.options.durability {
            Durability::Normal => {
                "normal: survives a process crash; power loss may undo the latest commit"
            }
            Durability::Full => "full: survives power loss",
        }
    }

    async fn particulars(&self) -> Result<Particulars> {
        let version = heed::lmdb_version();
        let server = Some(format!("LMDB {}.{}.{}", version.major, version.minor, version.patch));
        Ok(Particulars { server, schema: Some(crate::format::FORMAT), ..Particulars::default() })
    }

    async fn hand_over(&self, now: Timestamp, after: Option<Seq>, limit: usize) -> Result<Moved> {
        self.writer.call(now, move |machine| machine.hand_over(now, after, limit)).await
    }

    async fn take_over(&self, now: Timestamp, moved: Moved) -> Result<u64> {
        self.writer.call(now, move |machine| machine.take_over(now, &moved)).await
    }

    async fn check(&self, now: Timestamp) -> Result<Vec<String>> {
        self.writer.call(now, move |machine| machine.check(now)).await
    }

    async fn close(&self) -> Result<()> {
        self.watcher.stop();
        self.writer.stop();
        Ok(())
    }
}
