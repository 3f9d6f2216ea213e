//! [`SqliteStore`]: the [`Store`] over one file. Writes go to the writer, questions to the readers.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, TaskSpec, Timestamp, WorkerId,
};
use runcue_store::machine::Machine;
use runcue_store::presence::{Presence, host};
use runcue_store::watcher::{Glance, Watcher};
use runcue_store::writer::Writer;
use runcue_store::{
    Candidates, ClaimRequest, Claimed, Extend, Extended, Finish, Finished, Fired, GroupInfo,
    ListRequest, LogChunk, Moved, Page, Particulars, Pruned, QueueInfo, Reaped, Record, Refused,
    Result, Retention, ScheduleInfo, ServiceInfo, Stats, Store, StoreError, SubmitBatch, Submitted,
    WorkerInfo, WorkerSpec,
};
use rusqlite::Connection;

use crate::connection::{self, Durability, Options};
use crate::failure::explain_io;
use crate::migrate;
use crate::reader::{self, Readers};
use crate::tables::SqliteTables;

/// SQLite says cheaply whether another connection has written.
struct FileGlance(Connection);

impl FileGlance {
    fn number(&self, sql: &str) -> Option<u64> {
        let mut statement = self.0.prepare_cached(sql).ok()?;
        let number: i64 = statement.query_row([], |row| row.get(0)).ok()?;
        u64::try_from(number).ok()
    }
}

impl Glance for FileGlance {
    fn mark(&mut self) -> Option<u64> {
        self.number("PRAGMA data_version")
    }

    fn revision(&mut self) -> Option<u64> {
        self.number("SELECT revision FROM meta")
    }

    fn inbox(&mut self) -> bool {
        self.number("SELECT EXISTS (SELECT 1 FROM inbox)") == Some(1)
    }
}

/// A queue in a SQLite file.
pub struct SqliteStore {
    options: Options,
    writer: Writer<SqliteTables>,
    readers: Arc<Readers>,
    watcher: Watcher,
    presence: Presence,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.options.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens a file, making it and its directory if need be.
    pub fn open(options: Options) -> Result<Self> {
        let connection = connection::writer(&options)?;
        Self::over(connection, options)
    }

    /// Opens a file that may have no more than so many pages, as if the disk had no more space.
    pub fn open_bounded(options: Options, pages: i64) -> Result<Self> {
        let connection = connection::writer(&options)?;
        let bound = connection.pragma_update(None, "max_page_count", pages);
        bound.map_err(|error| crate::failure::explain(&options.place(), &error))?;
        Self::over(connection, options)
    }

    fn over(mut connection: Connection, options: Options) -> Result<Self> {
        let place = options.place();
        migrate::migrate(&mut connection, &place)?;
        let writer =
            Writer::start(SqliteTables::new(connection, place.clone())).map_err(|error| {
                StoreError::Unavailable(format!("{place}: no thread to write: {error}"))
            })?;
        Ok(Self {
            writer,
            readers: Arc::new(Readers::new(options.clone())),
            watcher: Watcher::default(),
            presence: Presence::beside(&options.path),
            options,
        })
    }

    /// Opens an address such as `sqlite:queue.db` or `sqlite:queue.db?durability=full`.
    pub fn open_url(url: &str) -> Result<Self> {
        Self::open(Options::parse(url)?)
    }

    /// Asks on a reading connection, off the async threads: a long listing must not hold up others.
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R> {
        let readers = self.readers.clone();
        let asked = tokio::task::spawn_blocking(move || readers.ask(question)).await;
        asked.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    async fn known_workers(&self) -> Result<Vec<WorkerInfo>> {
        self.ask(reader::workers).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn submit(&self, now: Timestamp, batch: SubmitBatch) -> Result<Vec<Submitted>> {
        self.writer.call(now, move |machine| machine.submit(now, batch)).await
    }

    async fn claim(&self, now: Timestamp, request: ClaimRequest) -> Result<Claimed> {
        let claim = move |machine: &mut Machine<SqliteTables>| {
            machine.admit(now)?;
            machine.claim(now, &request)
        };
        self.writer.call(now, claim).await
    }

    async fn candidates(
        &self,
        now: Timestamp,
        request: ClaimRequest,
        except: HashSet<Seq>,
    ) -> Result<Candidates> {
        let look = move |machine: &mut Machine<SqliteTables>| {
            machine.admit(now)?;
            machine.candidates(now, &request, &except)
        };
        self.writer.call(now, look).await
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
        self.ask(move |connection| reader::records(connection, &kind)).await
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
            self.presence.announce(&worker).map_err(|error| {
                let what = format!("the lock of worker {} beside it", worker.name);
                explain_io(&self.options.place(), &what, &error)
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
        self.ask(move |connection| reader::get(connection, &ids)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        self.ask(move |connection| reader::list(connection, &request)).await
    }

    async fn ids_between(&self, first: JobId, last: JobId, limit: usize) -> Result<Vec<JobId>> {
        self.ask(move |connection| reader::ids_between(connection, first, last, limit)).await
    }

    async fn stats(&self, now: Timestamp) -> Result<Stats> {
        let count = move |machine: &mut Machine<SqliteTables>| {
            machine.admit(now)?;
            machine.stats()
        };
        self.writer.call(now, count).await
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

    async fn refused(&self, limit: usize) -> Result<Vec<Refused>> {
        self.ask(move |connection| reader::refused(connection, limit)).await
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
        self.ask(move |connection| reader::events(connection, after, limit)).await
    }

    async fn last_event(&self) -> Result<u64> {
        self.ask(reader::last_event).await
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        self.ask(move |connection| reader::logs(connection, id, after)).await
    }

    async fn relatives(&self, id: JobId) -> Result<(Vec<JobId>, Vec<JobId>)> {
        let found = self.ask(move |connection| reader::relatives(connection, id)).await?;
        found.ok_or(StoreError::NotFound(id))
    }

    async fn changed(&self, since: u64) -> u64 {
        let glance = || connection::reader(&self.options).ok().map(FileGlance);
        self.watcher.ensure(glance, &self.writer.revision, &self.writer.version);
        let mut receiver = self.writer.version.subscribe();
        match receiver.wait_for(|version| *version > since).await {
            Ok(version) => *version,
            Err(_) => since,
        }
    }

    fn durability(&self) -> &'static str {
        match self.options.durability {
            Durability::Normal => "normal: survives a process crash",
            Durability::Full => "full: survives power loss",
        }
    }

    async fn particulars(&self) -> Result<Particulars> {
        let server = Some(format!("SQLite {}", rusqlite::version()));
        Ok(Particulars { server, schema: Some(migrate::SCHEMA), ..Particulars::default() })
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
        self.readers.close();
        self.writer.stop();
        Ok(())
    }
}
