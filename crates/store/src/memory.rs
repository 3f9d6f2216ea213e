//! The memory store: the [`Machine`] over plain ordered maps. Nothing survives the process; everything
//! else holds as on every store. It is what the others are compared with.

mod tables;

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use runcue_core::why::Reason;
use runcue_core::{
    Event, GroupName, Job, JobFilter, JobId, QueueSpec, ScheduleName, ScheduleSpec, Seq,
    ServiceSpec, TaskSpec, Timestamp, WorkerId,
};
use tokio::sync::watch;

use crate::machine::Machine;
use crate::moving::Moved;
use crate::reply::{
    Candidates, Claimed, Extended, Finished, Fired, GroupInfo, LogChunk, Page, Pruned, QueueInfo,
    Reaped, Record, ScheduleInfo, ServiceInfo, Stats, Submitted, WorkerInfo,
};
use crate::request::{
    ClaimRequest, Extend, Finish, ListRequest, Retention, SubmitBatch, WorkerSpec,
};
use crate::tables::Tables;
use crate::{Result, Store, StoreError};
use tables::MemoryTables;

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    machine: Mutex<Machine<MemoryTables>>,
    version: watch::Sender<u64>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        let machine = Mutex::new(Machine::new(MemoryTables::default()));
        Self { machine, version: watch::Sender::new(1) }
    }

    /// Panics if the store's parts contradict each other. For tests.
    pub fn check_invariants(&self) {
        self.lock().check_invariants();
    }

    fn lock(&self) -> MutexGuard<'_, Machine<MemoryTables>> {
        // A panic in an operation cannot leave half a change behind that matters more than going on.
        self.machine.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write<R>(
        &self,
        now: Timestamp,
        operation: impl FnOnce(&mut Machine<MemoryTables>) -> Result<R>,
    ) -> Result<R> {
        let mut machine = self.lock();
        machine.begin(now)?;
        let answer = operation(&mut machine);
        let changed = machine.end()?;
        drop(machine);
        if changed {
            self.version.send_modify(|version| *version += 1);
        }
        answer
    }

    fn read<R>(&self, question: impl FnOnce(&mut MemoryTables) -> R) -> R {
        question(self.lock().tables())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn submit(&self, now: Timestamp, batch: SubmitBatch) -> Result<Vec<Submitted>> {
        self.write(now, |machine| machine.submit(now, batch))
    }

    async fn claim(&self, now: Timestamp, request: ClaimRequest) -> Result<Claimed> {
        self.write(now, |machine| machine.claim(now, &request))
    }

    async fn candidates(
        &self,
        now: Timestamp,
        request: ClaimRequest,
        except: HashSet<Seq>,
    ) -> Result<Candidates> {
        self.write(now, |machine| machine.candidates(now, &request, &except))
    }

    async fn extend(&self, now: Timestamp, leases: Vec<Extend>) -> Result<Vec<Extended>> {
        self.write(now, |machine| machine.extend(now, &leases))
    }

    async fn finish(&self, now: Timestamp, ends: Vec<Finish>) -> Result<Vec<Finished>> {
        self.write(now, |machine| machine.finish(now, ends))
    }

    async fn reap(&self, now: Timestamp, gone: Vec<WorkerId>) -> Result<Reaped> {
        self.write(now, |machine| machine.reap(now, &gone))
    }

    async fn cancel(&self, now: Timestamp, filter: JobFilter, cascade: bool) -> Result<u64> {
        self.write(now, |machine| machine.cancel(now, &filter, cascade))
    }

    async fn retry(&self, now: Timestamp, filter: JobFilter) -> Result<u64> {
        self.write(now, |machine| machine.retry(now, &filter))
    }

    async fn set_group_paused(
        &self,
        now: Timestamp,
        group: GroupName,
        paused: bool,
    ) -> Result<bool> {
        self.write(now, |machine| machine.set_group_paused(now, group, paused))
    }

    async fn upsert_queues(&self, now: Timestamp, queues: Vec<QueueSpec>) -> Result<()> {
        self.write(now, |machine| machine.upsert_queues(queues))
    }

    async fn upsert_services(&self, now: Timestamp, services: Vec<ServiceSpec>) -> Result<()> {
        self.write(now, |machine| machine.upsert_services(now, services))
    }

    async fn put_records(&self, now: Timestamp, records: Vec<Record>) -> Result<()> {
        self.write(now, |machine| machine.put_records(&records))
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        Ok(self.read(|tables| tables.records(kind)))
    }

    async fn upsert_tasks(&self, now: Timestamp, tasks: Vec<TaskSpec>) -> Result<()> {
        self.write(now, |machine| machine.upsert_tasks(&tasks))
    }

    async fn upsert_schedules(&self, now: Timestamp, schedules: Vec<ScheduleSpec>) -> Result<()> {
        self.write(now, |machine| machine.upsert_schedules(now, schedules))
    }

    async fn remove_schedule(&self, now: Timestamp, name: ScheduleName) -> Result<bool> {
        self.write(now, |machine| machine.remove_schedule(&name))
    }

    async fn fire(&self, now: Timestamp) -> Result<Fired> {
        self.write(now, |machine| machine.fire(now))
    }

    async fn upsert_worker(&self, now: Timestamp, worker: WorkerSpec) -> Result<()> {
        self.write(now, |machine| machine.upsert_worker(now, &worker))
    }

    async fn remove_worker(&self, now: Timestamp, worker: WorkerId) -> Result<()> {
        self.write(now, |machine| machine.remove_worker(worker))
    }

    async fn gone_workers(&self) -> Result<Vec<WorkerId>> {
        // Whoever shares this memory is alive.
        Ok(Vec::new())
    }

    async fn append_logs(&self, now: Timestamp, chunks: Vec<LogChunk>) -> Result<()> {
        self.write(now, |machine| machine.append_logs(now, chunks))
    }

    async fn prune(&self, now: Timestamp, retention: Retention, dry_run: bool) -> Result<Pruned> {
        self.write(now, |machine| machine.prune(now, &retention, dry_run))
    }

    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        Ok(self.read(|tables| ids.iter().map(|id| tables.get(*id)).collect()))
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        Ok(self.read(|tables| tables.list(&request)))
    }

    async fn stats(&self, now: Timestamp) -> Result<Stats> {
        self.write(now, Machine::stats)
    }

    async fn why(&self, now: Timestamp, id: JobId) -> Result<Vec<Reason>> {
        self.write(now, |machine| machine.why(now, id))
    }

    async fn groups(&self) -> Result<Vec<GroupInfo>> {
        Ok(self.lock().groups())
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        Ok(self.lock().queues())
    }

    async fn services(&self, now: Timestamp) -> Result<Vec<ServiceInfo>> {
        Ok(self.lock().services(now))
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        Ok(self.read(|tables| tables.tasks()))
    }

    async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        self.read(Tables::schedules)
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        Ok(self.read(|tables| tables.workers()))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        Ok(self.read(|tables| tables.events(after, limit)))
    }

    async fn last_event(&self) -> Result<u64> {
        Ok(self.lock().last_event())
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        Ok(self.read(|tables| tables.logs(id, after)))
    }

    async fn relatives(&self, id: JobId) -> Result<(Vec<JobId>, Vec<JobId>)> {
        self.read(|tables| tables.relatives(id)).ok_or(StoreError::NotFound(id))
    }

    async fn changed(&self, since: u64) -> u64 {
        let mut receiver = self.version.subscribe();
        match receiver.wait_for(|version| *version > since).await {
            Ok(version) => *version,
            Err(_) => since,
        }
    }

    fn durability(&self) -> &'static str {
        "memory: lost with the process"
    }

    async fn hand_over(&self, now: Timestamp, after: Option<Seq>, limit: usize) -> Result<Moved> {
        self.write(now, |machine| machine.hand_over(now, after, limit))
    }

    async fn take_over(&self, now: Timestamp, moved: Moved) -> Result<u64> {
        self.write(now, |machine| machine.take_over(now, &moved))
    }

    async fn check(&self, now: Timestamp) -> Result<Vec<String>> {
        self.write(now, |machine| machine.check(now))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
