//! The rows of the environment, as the machine asks for them.

mod jobs;
mod scheduling;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use runcue_core::board::Head;
use runcue_core::map::Map;
use runcue_core::{
    Event, Job, JobFilter, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, State, StateWord,
    TaskSpec, Timestamp, WorkerId,
};
use runcue_store::tables::{
    Changes, Counters, Due, EVENTS_PER_ROW, LOG_BYTES, ServiceRow, Tables, UsageRow, event_run,
};
use runcue_store::{GroupInfo, LogChunk, QueueInfo, Record, Result, ScheduleInfo, WorkerSpec};
use serde::Serialize;

use crate::connection::{Environment, Inside};
use crate::failure::unreadable;
use crate::keys;
use crate::reader::{self, Chunk, KnownWorker};
use crate::rows::{self, text};
use crate::transaction::Open;
use crate::view::{Table, View};

/// The databases, the open transaction, and what is remembered between transactions.
pub struct LmdbTables {
    pub(crate) environment: Arc<Environment>,
    pub(crate) open: Option<Open>,
    /// Its right to be there; after it, so that it is dropped later.
    pub(crate) inside: Option<Inside>,
    /// Transactions begun.
    pub(crate) begun: u32,
    /// Lanes do not change once they are made.
    pub(crate) lanes: HashMap<u64, Arc<LaneKey>>,
    /// The revision this transaction will become.
    stamp: u64,
    /// The latest entry of the usage log that the machine knows of.
    usage_seen: u64,
}

impl LmdbTables {
    pub fn new(environment: Arc<Environment>) -> Self {
        Self {
            environment,
            open: None,
            inside: None,
            begun: 0,
            lanes: HashMap::new(),
            stamp: 0,
            usage_seen: 0,
        }
    }

    /// A look at the databases within the transaction.
    pub(crate) fn look<R>(&self, look: impl FnOnce(View<'_>) -> heed::Result<R>) -> Result<R> {
        let txn = self.open.as_ref().and_then(|open| open.borrow_dependent().0.as_ref());
        let found = match txn {
            Some(txn) => look(View { tables: &self.environment.tables, txn }),
            None => Err(no_transaction()),
        };
        found.map_err(|error| self.environment.explain(&error))
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let db = self.environment.tables[table as usize];
        let Some(open) = &mut self.open else {
            return Err(self.environment.explain(&no_transaction()));
        };
        let done = open.with_dependent_mut(|_, slot| match &mut slot.0 {
            Some(txn) => db.put(txn, key, value),
            None => Err(no_transaction()),
        });
        done.map_err(|error| self.environment.explain(&error))
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        let db = self.environment.tables[table as usize];
        let Some(open) = &mut self.open else {
            return Err(self.environment.explain(&no_transaction()));
        };
        let done = open.with_dependent_mut(|_, slot| match &mut slot.0 {
            Some(txn) => db.delete(txn, key),
            None => Err(no_transaction()),
        });
        done.map_err(|error| self.environment.explain(&error))
    }

    /// Deletes every entry whose key begins with something.
    fn remove_prefix(&mut self, table: Table, prefix: &[u8]) -> Result<()> {
        let keys = self.look(|view| {
            view.prefix(table, prefix)?
                .map(|entry| Ok(entry?.0.to_vec()))
                .collect::<heed::Result<Vec<_>>>()
        })?;
        for key in keys {
            self.remove(table, &key)?;
        }
        Ok(())
    }

    fn json<T: Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<Vec<u8>> {
        text(what, value).map_err(|error| self.environment.explain(&error))
    }

    /// A stamped value: others must look at it again.
    fn put_stamped<T: Serialize>(&mut self, table: Table, key: &[u8], value: &T) -> Result<()> {
        let mut bytes = keys::number(self.stamp).to_vec();
        bytes.extend(self.json(table.name(), value)?);
        self.put(table, key, &bytes)
    }

    /// Counts one up in the numbers, and answers it.
    fn next_number(&mut self, name: &[u8]) -> Result<u64> {
        let last = self.look(|view| number(view, name))?;
        self.put(Table::Meta, name, &keys::number(last + 1))?;
        Ok(last + 1)
    }

    /// Every entry of a list that is found by the hash of a text.
    fn listed(&self, table: Table, name: &str) -> Result<Vec<(String, u64)>> {
        self.look(|view| match view.get(table, &keys::hash(name))? {
            Some(bytes) => rows::parsed(table.name(), bytes),
            None => Ok(Vec::new()),
        })
    }

    fn put_list(&mut self, table: Table, name: &str, list: &[(String, u64)]) -> Result<()> {
        if list.is_empty() {
            return self.remove(table, &keys::hash(name)).map(drop);
        }
        let bytes = self.json(table.name(), list)?;
        self.put(table, &keys::hash(name), &bytes)
    }
}

/// A number of the meta table; zero before the first.
pub fn number(view: View<'_>, name: &[u8]) -> heed::Result<u64> {
    let found = view.get(Table::Meta, name)?;
    Ok(found.and_then(|bytes| keys::number_at(bytes, 0)).unwrap_or(0))
}

/// The name of the number of the latest committed change.
pub const REVISION: &[u8] = b"revision";
/// The name of the number of the latest event.
pub const LAST_EVENT: &[u8] = b"event";

fn no_transaction() -> heed::Error {
    heed::Error::Io(std::io::Error::other("no transaction is open"))
}

impl Tables for LmdbTables {
    fn revision(&mut self) -> Result<u64> {
        // The first transaction of all is the second revision: zero means that nothing is known.
        let revision = self.look(|view| number(view, REVISION))?.max(1);
        self.stamp = revision + 1;
        Ok(revision)
    }

    fn changes(&mut self, since: u64, now: Timestamp) -> Result<Changes> {
        self.read_changes(since, now)
    }

    fn seal(&mut self, counters: &Counters) -> Result<u64> {
        let revision = self.stamp;
        self.put(Table::Meta, REVISION, &keys::number(revision))?;
        self.write_counters(counters)?;
        self.stamp += 1;
        Ok(revision)
    }

    fn known(&mut self, ids: &[JobId], _sure: bool) -> Result<Map<JobId, Seq>> {
        self.look(|view| {
            let mut known = Map::default();
            for id in ids {
                known.extend(rows::seq_of(view, *id)?.map(|seq| (*id, seq)));
            }
            Ok(known)
        })
    }

    fn insert(&mut self, jobs: &[Job]) -> Result<()> {
        jobs.iter().try_for_each(|job| self.insert_job(job))
    }

    fn seq_of(&mut self, id: JobId) -> Result<Option<Seq>> {
        self.look(|view| rows::seq_of(view, id))
    }

    fn job(&mut self, seq: Seq) -> Result<Option<Job>> {
        self.look(|view| rows::job(view, seq))
    }

    fn save(&mut self, job: &Job, _before: &State) -> Result<()> {
        self.save_job(job)
    }

    fn save_progress(&mut self, job: &Job) -> Result<()> {
        self.save_job(job)
    }

    fn delete(&mut self, job: &Job) -> Result<()> {
        self.delete_job(job)
    }

    fn key_holder(&mut self, key: &str) -> Result<Option<Seq>> {
        let list = self.listed(Table::Idempotency, key)?;
        Ok(list.into_iter().find(|(own, _)| own == key).map(|(_, seq)| Seq(seq)))
    }

    fn drop_key(&mut self, seq: Seq) -> Result<()> {
        let job = self.look(|view| rows::job(view, seq))?;
        let Some(key) = job.and_then(|job| job.spec.idempotency_key.clone()) else { return Ok(()) };
        self.drop_key_of(&key, seq)
    }

    fn tie(&mut self, prerequisite: Seq, dependent: Seq) -> Result<()> {
        self.put(Table::Tie, &keys::pair(prerequisite.0, dependent.0), &[])?;
        self.put(Table::Tied, &keys::pair(dependent.0, prerequisite.0), &[])?;
        let row = self.look(|view| rows::row(view, prerequisite))?;
        if let Some(mut row) = row.filter(|row| !row.has_dependents) {
            row.has_dependents = true;
            self.put(Table::Job, &keys::number(prerequisite.0), &row.to_bytes())?;
        }
        Ok(())
    }

    fn dependents(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        self.look(|view| reader::ties(view, Table::Tie, seq))
    }

    fn prerequisites(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        self.look(|view| reader::ties(view, Table::Tied, seq))
    }

    fn ready(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        self.look(|view| jobs::ready_heads(view, lane, max_priority, limit))
    }

    fn ready_jobs(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Job>> {
        self.look(|view| jobs::ready_jobs(view, lane, limit))
    }

    fn ahead(&mut self, job: &Job) -> Result<u64> {
        let own = keys::ready(job.lane, job.spec.priority, job.seq);
        self.look(|view| {
            let mut ahead = 0;
            for entry in view.prefix(Table::Ready, &keys::number(job.lane.0))? {
                if entry?.0 >= &own[..] {
                    break;
                }
                ahead += 1;
            }
            Ok(ahead)
        })
    }

    fn due(&mut self, what: Due, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        self.look(|view| jobs::due_until(view, jobs::kind_of(what), now, limit))
    }

    fn next_due(&mut self, what: Due) -> Result<Option<Timestamp>> {
        self.look(|view| {
            let first = view.prefix(Table::Due, &[jobs::kind_of(what)])?.next().transpose()?;
            Ok(first.and_then(|(key, _)| keys::instant_at(key, 1)))
        })
    }

    fn overdue(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        self.look(|view| {
            let mut seqs = Vec::new();
            for entry in view.all(Table::Deadline)?.take(limit) {
                let (key, _) = entry?;
                if keys::instant_at(key, 0).is_none_or(|at| at > now) {
                    break;
                }
                seqs.extend(keys::number_at(key, 8).map(Seq));
            }
            Ok(seqs)
        })
    }

    fn next_deadline(&mut self) -> Result<Option<Timestamp>> {
        self.look(|view| {
            let first = view.all(Table::Deadline)?.next().transpose()?;
            Ok(first.and_then(|(key, _)| keys::instant_at(key, 0)))
        })
    }

    fn held_by(&mut self, worker: WorkerId) -> Result<Vec<Seq>> {
        self.look(|view| {
            let mut seqs = Vec::new();
            for entry in view.prefix(Table::Due, &[rows::HELD])? {
                let (key, holder) = entry?;
                if reader::holder(holder)?.1 == worker {
                    seqs.extend(keys::number_at(key, 9).map(Seq));
                }
            }
            seqs.sort();
            Ok(seqs)
        })
    }

    fn oldest_queued(&mut self, queue: &QueueName, limit: usize) -> Result<Vec<Seq>> {
        let filter = JobFilter { queue: Some(queue.clone()), ..JobFilter::default() }
            .in_states([StateWord::Queued]);
        self.look(|view| jobs::matching(view, &filter, None, limit))
    }

    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        self.look(|view| jobs::matching(view, filter, after, limit))
    }

    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        self.look(|view| jobs::stale(view, state, ended_before, keep, limit))
    }

    fn lane(&mut self, key: &LaneKey, canonical: &str) -> Result<LaneId> {
        let mut list = self.listed(Table::LaneId, canonical)?;
        if let Some((_, lane)) = list.iter().find(|(form, _)| form == canonical) {
            return Ok(LaneId(*lane));
        }
        let lane = self.next_number(b"lane")?;
        self.put_stamped(Table::Lane, &keys::number(lane), key)?;
        self.put(Table::LaneStamp, &keys::pair(self.stamp, lane), &[])?;
        list.push((canonical.to_owned(), lane));
        self.put_list(Table::LaneId, canonical, &list)?;
        Ok(LaneId(lane))
    }

    fn lane_key(&mut self, lane: LaneId) -> Result<Option<LaneKey>> {
        Ok(self.known_lane(lane)?.map(|key| (*key).clone()))
    }

    fn touch_lane(&mut self, lane: LaneId) -> Result<()> {
        let key = keys::number(lane.0);
        let Some(mut bytes) =
            self.look(|view| Ok(view.get(Table::Lane, &key)?.map(<[u8]>::to_vec)))?
        else {
            return Ok(());
        };
        let before = keys::number_at(&bytes, 0).unwrap_or(0);
        if before == self.stamp {
            return Ok(());
        }
        self.remove(Table::LaneStamp, &keys::pair(before, lane.0))?;
        self.put(Table::LaneStamp, &keys::pair(self.stamp, lane.0), &[])?;
        bytes[..8].copy_from_slice(&keys::number(self.stamp));
        self.put(Table::Lane, &key, &bytes)
    }

    fn prune_lanes(&mut self, limit: usize) -> Result<bool> {
        self.delete_lanes(limit)
    }

    fn put_groups(&mut self, groups: &[&GroupInfo]) -> Result<()> {
        groups.iter().try_for_each(|group| {
            self.put_stamped(Table::Group, &keys::group(group.name.as_ref()), *group)
        })
    }

    fn put_queue(&mut self, queue: &QueueInfo) -> Result<()> {
        self.put_stamped(Table::Queue, queue.name.as_str().as_bytes(), queue)
    }

    fn put_service(&mut self, service: &ServiceRow) -> Result<()> {
        let stored = (&service.spec, &service.breaker, service.held_until);
        self.put_stamped(Table::Service, service.spec.name.as_str().as_bytes(), &stored)
    }

    fn put_record(&mut self, record: &Record) -> Result<()> {
        let key = record.key();
        match &record.value {
            Some(value) => self.put(Table::Record, key.as_bytes(), value.as_str().as_bytes()),
            None => self.remove(Table::Record, key.as_bytes()).map(drop),
        }
    }

    fn put_task(&mut self, task: &TaskSpec) -> Result<()> {
        let bytes = self.json("task", task)?;
        self.put(Table::Task, task.name.as_str().as_bytes(), &bytes)
    }

    fn put_worker(&mut self, worker: &WorkerSpec, now: Timestamp) -> Result<()> {
        let known = self.worker(worker.id)?;
        let started_at = known.map_or(now, |known| known.started_at);
        self.write_worker(&KnownWorker { spec: worker.clone(), started_at, seen_at: now })
    }

    fn drop_worker(&mut self, worker: WorkerId) -> Result<()> {
        self.remove(Table::Worker, &worker.as_u128().to_be_bytes()).map(drop)
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        self.look(|view| {
            let mut live = Vec::new();
            for entry in view.all(Table::Worker)? {
                let known: KnownWorker = rows::parsed("worker", entry?.1)?;
                live.extend((known.seen_at >= since).then_some(known.spec));
            }
            Ok(live)
        })
    }

    fn seen_worker(&mut self, worker: WorkerId, now: Timestamp) -> Result<()> {
        match self.worker(worker)? {
            Some(known) => self.write_worker(&KnownWorker { seen_at: now, ..known }),
            None => Ok(()),
        }
    }

    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()> {
        let name = &schedule.spec.name;
        self.drop_schedule(name)?;
        if let Some(at) = schedule.next_at {
            self.put(Table::Firing, &firing(at, name), &[])?;
        }
        let bytes = self.json("schedule", schedule)?;
        self.put(Table::Schedule, name.as_str().as_bytes(), &bytes)
    }

    fn drop_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        let Some(known) = self.schedule(name)? else { return Ok(false) };
        if let Some(at) = known.next_at {
            self.remove(Table::Firing, &firing(at, name))?;
        }
        self.remove(Table::Schedule, name.as_str().as_bytes())
    }

    fn schedule(&mut self, name: &ScheduleName) -> Result<Option<ScheduleInfo>> {
        self.look(|view| {
            let found = view.get(Table::Schedule, name.as_str().as_bytes())?;
            found.map(|bytes| rows::parsed("schedule", bytes)).transpose()
        })
    }

    fn schedules(&mut self) -> Result<Vec<ScheduleInfo>> {
        self.look(reader::schedules)
    }

    fn due_schedules(&mut self, now: Timestamp) -> Result<Vec<ScheduleInfo>> {
        self.look(|view| {
            let mut due = Vec::new();
            for entry in view.all(Table::Firing)? {
                let (key, _) = entry?;
                if keys::instant_at(key, 0).is_none_or(|at| at > now) {
                    break;
                }
                let found = view.get(Table::Schedule, &key[8..])?;
                let missing = || unreadable("schedule", "one that fires is missing");
                due.push(rows::parsed("schedule", found.ok_or_else(missing)?)?);
            }
            Ok(due)
        })
    }

    fn next_firing(&mut self) -> Result<Option<Timestamp>> {
        self.look(|view| {
            let first = view.all(Table::Firing)?.next().transpose()?;
            Ok(first.and_then(|(key, _)| keys::instant_at(key, 0)))
        })
    }

    fn note_usage(&mut self, rows: &[UsageRow]) -> Result<()> {
        type Used<'a> = (&'a str, Option<&'a str>, i64);
        let mut runs: BTreeMap<Timestamp, Vec<Used<'_>>> = BTreeMap::new();
        for row in rows {
            let key = row.key.as_ref().map(runcue_core::Key::as_str);
            runs.entry(row.at).or_default().push((row.service.as_str(), key, row.units));
        }
        for (at, run) in runs {
            let mut bytes = keys::instant(at).to_vec();
            bytes.extend(keys::number(run.len() as u64));
            bytes.extend(self.json("usage", &run)?);
            self.usage_seen = self.next_number(b"usage")?;
            self.put(Table::Usage, &keys::number(self.usage_seen), &bytes)?;
        }
        Ok(())
    }

    fn prune_usage(&mut self, before: Timestamp, dry_run: bool) -> Result<u64> {
        let (mut count, mut gone) = (0, Vec::new());
        self.look(|view| {
            for entry in view.all(Table::Usage)? {
                let (key, bytes) = entry?;
                if keys::instant_at(bytes, 0).is_some_and(|at| at < before) {
                    count += keys::number_at(bytes, 8).unwrap_or(0);
                    gone.push(key.to_vec());
                }
            }
            Ok(())
        })?;
        if !dry_run {
            for key in gone {
                self.remove(Table::Usage, &key)?;
            }
        }
        Ok(count)
    }

    fn append_events(&mut self, events: &[Event]) -> Result<()> {
        for run in events.chunks(EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let mut bytes = keys::number(first.seq).to_vec();
            bytes.extend(keys::instant(last.at));
            bytes.extend(event_run(run, last.at).into_bytes());
            self.put(Table::Event, &keys::number(last.seq), &bytes)?;
        }
        Ok(())
    }

    fn prune_events(&mut self, before: Timestamp, keep: u64, dry_run: bool) -> Result<u64> {
        let (mut count, mut gone) = (0, Vec::new());
        self.look(|view| {
            let newest = view.last(Table::Event)?.and_then(|(key, _)| keys::number_at(key, 0));
            let over = newest.unwrap_or(0).saturating_sub(keep);
            // Rows are whole transactions; only those that are out of date as a whole go.
            for entry in view.all(Table::Event)? {
                let (key, bytes) = entry?;
                let (first, at) = reader::event_head(bytes)?;
                let last = keys::number_at(key, 0).unwrap_or(first);
                if at >= before && last > over {
                    break;
                }
                count += last - first + 1;
                gone.push(key.to_vec());
            }
            Ok(())
        })?;
        if !dry_run {
            for key in gone {
                self.remove(Table::Event, &key)?;
            }
        }
        Ok(count)
    }

    fn append_log(&mut self, seq: Seq, chunk: &LogChunk) -> Result<()> {
        let stored = Chunk {
            attempt: chunk.attempt,
            token: chunk.token,
            stream: chunk.stream,
            at: chunk.at,
            text: chunk.text.clone(),
        };
        let mut bytes = keys::number(chunk.text.len() as u64).to_vec();
        bytes.extend(self.json("log", &stored)?);
        let n = self.next_number(b"log")?;
        self.put(Table::Log, &keys::pair(seq.0, n), &bytes)?;
        let gone = self.look(|view| {
            let sizes = view.prefix(Table::Log, &keys::number(seq.0))?.map(|entry| {
                let (key, bytes) = entry?;
                Ok((key.to_vec(), keys::number_at(bytes, 0).unwrap_or(0)))
            });
            let sizes: Vec<(Vec<u8>, u64)> = sizes.collect::<heed::Result<_>>()?;
            let mut kept: u64 = sizes.iter().map(|(_, size)| size).sum();
            let mut gone = Vec::new();
            for (key, size) in &sizes[..sizes.len().saturating_sub(1)] {
                if kept <= LOG_BYTES as u64 {
                    break;
                }
                kept -= size;
                gone.push(key.clone());
            }
            Ok(gone)
        })?;
        for key in gone {
            self.remove(Table::Log, &key)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        self.find_contradictions()
    }
}

fn firing(at: Timestamp, name: &ScheduleName) -> Vec<u8> {
    [&keys::instant(at)[..], name.as_str().as_bytes()].concat()
}
