//! The rows of the file, as the machine asks for them. Every statement is prepared once and kept.

mod groups;
mod inbox;
mod insert;
mod jobs;
mod pending;
mod ready;
mod scheduling;

use runcue_core::board::Head;
use runcue_core::map::Map;
use runcue_core::{
    Event, Job, JobFilter, JobId, LaneId, LaneKey, QueueName, ScheduleName, Seq, State, StateWord,
    TaskSpec, Timestamp, WorkerId,
};
use runcue_store::event_run::EventRun;
use runcue_store::tables::{
    Changes, Counters, Due, EVENTS_PER_ROW, InboxRow, LOG_BYTES, ServiceRow, Tables, UsageRow,
};
use runcue_store::{
    GroupInfo, LogChunk, QueueInfo, Record, Result, ScheduleInfo, StoreError, WorkerSpec,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::failure::explain;
use crate::rows::{blob, signed, text, unsigned};
use crate::specs::Specs;
use crate::tables::groups::GroupLog;
use crate::tables::pending::Pending;

/// No transaction has as many entries in the log of service use; its revision is the rest of their numbers.
const USAGE_ROWS: i64 = 1 << 20;

/// The writing connection and what it remembers between transactions.
pub struct SqliteTables {
    connection: Connection,
    place: String,
    /// The revision this transaction will become.
    stamp: i64,
    /// The latest entry of the usage log that the machine knows of.
    usage_seen: i64,
    /// Entries of that log in this transaction.
    usage_noted: i64,
    /// Changes of jobs that are written together, before anything else is asked or written.
    pending: RefCell<Pending>,
    /// The text of the latest spec that was read or written.
    specs: RefCell<Specs>,
    /// Places of claimed jobs that are still there, by lane.
    left: RefCell<Map<i64, usize>>,
    /// Changes of groups that are not in their rows yet.
    group_log: GroupLog,
    /// There may be jobs in the inbox that this transaction has not looked at.
    inbox_waits: bool,
}

impl SqliteTables {
    pub fn new(connection: Connection, place: String) -> Self {
        Self {
            connection,
            place,
            stamp: 0,
            usage_seen: 0,
            usage_noted: 0,
            pending: RefCell::default(),
            specs: RefCell::default(),
            left: RefCell::default(),
            group_log: GroupLog::default(),
            inbox_waits: false,
        }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Says what an error means.
    pub fn explain(&self, error: &rusqlite::Error) -> StoreError {
        explain(&self.place, error)
    }

    fn run(&self, sql: &str, values: impl Params) -> Result<usize> {
        self.settle()?;
        self.run_now(sql, values)
    }

    /// Runs a statement that has nothing to do with the changes that are pending.
    fn run_now(&self, sql: &str, values: impl Params) -> Result<usize> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|e| self.explain(&e))?;
        statement.execute(values).map_err(|e| self.explain(&e))
    }

    fn rows<R>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<R>,
    ) -> Result<Vec<R>> {
        self.settle()?;
        let all = || -> rusqlite::Result<Vec<R>> {
            self.connection.prepare_cached(sql)?.query_map(values, read)?.collect()
        };
        all().map_err(|e| self.explain(&e))
    }

    fn row<R>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<R>,
    ) -> Result<Option<R>> {
        self.settle()?;
        let one = || self.connection.prepare_cached(sql)?.query_row(values, read).optional();
        one().map_err(|e| self.explain(&e))
    }

    fn seqs(&self, sql: &str, values: impl Params) -> Result<Vec<Seq>> {
        self.rows(sql, values, |row| row.get(0).map(|seq| Seq(unsigned(seq))))
    }

    fn instant(&self, sql: &str) -> Result<Option<Timestamp>> {
        let found = self.row(sql, [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(found.flatten().map(Timestamp::from_micros))
    }

    fn text<T: serde::Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<String> {
        text(what, value).map_err(|e| self.explain(&e))
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Tables for SqliteTables {
    const NEIGHBOURS: bool = true;

    fn revision(&mut self) -> Result<u64> {
        // What a transaction that was rolled back left behind.
        self.pending.borrow_mut().clear();
        // The inbox is looked at on the way: a look of its own would cost every claim a statement.
        let sql = "SELECT revision, EXISTS (SELECT 1 FROM inbox) FROM meta";
        let found = self.row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        let (revision, inbox_waits) = found.unwrap_or((1, false));
        self.inbox_waits = inbox_waits;
        self.usage_noted = 0;
        self.stamp = revision + 1;
        Ok(unsigned(revision))
    }

    fn changes(&mut self, since: u64, now: Timestamp) -> Result<Changes> {
        self.read_changes(signed(since), now)
    }

    fn seal(&mut self, counters: &Counters) -> Result<u64> {
        self.run(
            "UPDATE meta SET revision = ?1, seq = ?2, served = ?3, event = ?4, delayed = ?5, blocked = ?6, \
             last_served_group = ?7",
            params![
                self.stamp,
                signed(counters.seq.0),
                signed(counters.served.0),
                signed(counters.event),
                signed(counters.delayed),
                signed(counters.blocked),
                counters.last_served_group.as_ref().map(runcue_core::GroupName::as_str),
            ],
        )?;
        let revision = unsigned(self.stamp);
        self.stamp += 1;
        Ok(revision)
    }

    fn known(&mut self, ids: &[JobId], _sure: bool) -> Result<Map<JobId, Seq>> {
        self.find_known(ids)
    }

    fn insert(&mut self, jobs: &[Job]) -> Result<()> {
        self.insert_jobs(jobs)
    }

    fn seq_of(&mut self, id: JobId) -> Result<Option<Seq>> {
        let id = blob(id.as_u128());
        let found = self.row("SELECT seq FROM job WHERE id = ?1", [&id[..]], |row| row.get(0))?;
        Ok(found.map(|seq| Seq(unsigned(seq))))
    }

    fn job(&mut self, seq: Seq) -> Result<Option<Job>> {
        self.load_job(seq)
    }

    fn save(&mut self, job: &Job, before: &State) -> Result<()> {
        self.save_job(job, before)
    }

    fn save_progress(&mut self, job: &Job) -> Result<()> {
        self.run("UPDATE job SET has_outcome = 1 WHERE seq = ?1", [signed(job.seq.0)])?;
        self.save_outcome(job)
    }

    fn delete(&mut self, job: &Job) -> Result<()> {
        let seq = signed(job.seq.0);
        for sql in [
            "DELETE FROM job WHERE seq = ?1",
            "DELETE FROM body WHERE seq = ?1",
            "DELETE FROM outcome WHERE seq = ?1",
            "DELETE FROM log WHERE seq = ?1",
            "DELETE FROM tie WHERE prerequisite = ?1",
            "DELETE FROM tie WHERE dependent = ?1",
        ] {
            self.run(sql, [seq])?;
        }
        if job.spec.idempotency_key.is_some() {
            self.drop_key(job.seq)?;
        }
        Ok(())
    }

    fn key_holder(&mut self, key: &str) -> Result<Option<Seq>> {
        let found =
            self.row("SELECT seq FROM idempotency WHERE key = ?1", [key], |row| row.get(0))?;
        Ok(found.map(|seq| Seq(unsigned(seq))))
    }

    fn drop_key(&mut self, seq: Seq) -> Result<()> {
        self.run("DELETE FROM idempotency WHERE seq = ?1", [signed(seq.0)]).map(drop)
    }

    fn tie(&mut self, prerequisite: Seq, dependent: Seq) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO tie (prerequisite, dependent) VALUES (?1, ?2)";
        self.run(sql, [signed(prerequisite.0), signed(dependent.0)])?;
        let sql = "UPDATE job SET has_dependents = 1 WHERE seq = ?1 AND has_dependents = 0";
        self.run(sql, [signed(prerequisite.0)]).map(drop)
    }

    fn dependents(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        self.seqs(
            "SELECT dependent FROM tie WHERE prerequisite = ?1 ORDER BY dependent",
            [signed(seq.0)],
        )
    }

    fn prerequisites(&mut self, seq: Seq) -> Result<Vec<Seq>> {
        self.seqs(
            "SELECT prerequisite FROM tie WHERE dependent = ?1 ORDER BY prerequisite",
            [signed(seq.0)],
        )
    }

    fn ready(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        limit: usize,
    ) -> Result<Vec<Head>> {
        self.ready_heads(lane, max_priority, limit)
    }

    fn ready_jobs(&mut self, lane: LaneId, limit: usize) -> Result<Vec<Job>> {
        self.load_ready(lane, limit)
    }

    fn ready_from(&mut self, seq: Seq, limit: usize) -> Result<Vec<Job>> {
        self.load_ready_from(seq, limit)
    }

    fn ahead(&mut self, job: &Job) -> Result<u64> {
        let sql = "SELECT count(*) FROM ready JOIN job USING (seq) WHERE ready.lane = ?1 AND job.stage = 0 \
                   AND (ready.priority > ?2 OR (ready.priority = ?2 AND ready.seq < ?3))";
        let values = params![signed(job.lane.0), job.spec.priority, signed(job.seq.0)];
        Ok(unsigned(self.row(sql, values, |row| row.get(0))?.unwrap_or(0)))
    }

    fn due(&mut self, what: Due, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        let values = [now.as_micros(), limit_of(limit)];
        match what {
            Due::Delayed => self.seqs(
                "SELECT seq FROM job WHERE stage = 1 AND due <= ?1 ORDER BY due, seq LIMIT ?2",
                values,
            ),
            Due::Lapsed => self.seqs(
                "SELECT seq FROM job WHERE stage IN (3, 4) AND due <= ?1 ORDER BY due, seq LIMIT ?2",
                values,
            ),
        }
    }

    fn next_due(&mut self, what: Due) -> Result<Option<Timestamp>> {
        match what {
            Due::Delayed => self.instant("SELECT min(due) FROM job WHERE stage = 1 AND due IS NOT NULL"),
            Due::Lapsed => self.instant(
                "SELECT min(due) FROM (SELECT min(due) AS due FROM job WHERE stage = 3 AND due IS NOT NULL \
                 UNION ALL SELECT min(due) FROM job WHERE stage = 4 AND due IS NOT NULL)",
            ),
        }
    }

    fn overdue(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Seq>> {
        let sql = "SELECT seq FROM job WHERE deadline <= ?1 ORDER BY deadline, seq LIMIT ?2";
        self.seqs(sql, [now.as_micros(), limit_of(limit)])
    }

    fn next_deadline(&mut self) -> Result<Option<Timestamp>> {
        self.instant("SELECT min(deadline) FROM job WHERE deadline IS NOT NULL")
    }

    fn held_by(&mut self, worker: WorkerId) -> Result<Vec<Seq>> {
        let worker = blob(worker.as_u128());
        let sql = "SELECT seq FROM job WHERE stage IN (3, 4) AND due IS NOT NULL AND worker = ?1 ORDER BY seq";
        self.seqs(sql, [&worker[..]])
    }

    fn oldest_queued(&mut self, queue: &QueueName, limit: usize) -> Result<Vec<Seq>> {
        let sql = "SELECT job.seq FROM job JOIN lane USING (lane) \
                   WHERE job.stage <= 2 AND lane.queue = ?1 ORDER BY job.seq LIMIT ?2";
        self.seqs(sql, params![queue.as_str(), limit_of(limit)])
    }

    fn matching(
        &mut self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        self.find_matching(filter, after, limit)
    }

    fn stale(
        &mut self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        self.find_stale(state, ended_before, keep, limit)
    }

    fn lane(&mut self, key: &LaneKey, canonical: &str) -> Result<LaneId> {
        let found =
            self.row("SELECT lane FROM lane WHERE key = ?1", [canonical], |row| row.get(0))?;
        if let Some(lane) = found {
            return Ok(LaneId(unsigned(lane)));
        }
        let group = key.group.as_ref().map_or("", runcue_core::GroupName::as_str);
        let sql = "INSERT INTO lane (key, queue, grp, task, stamp) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.run(
            sql,
            params![canonical, key.queue.as_str(), group, key.task.as_str(), self.stamp],
        )?;
        Ok(LaneId(unsigned(self.connection.last_insert_rowid())))
    }

    fn lane_key(&mut self, lane: LaneId) -> Result<Option<LaneKey>> {
        let sql = "SELECT key FROM lane WHERE lane = ?1";
        self.row(sql, [signed(lane.0)], |row| {
            crate::rows::parsed("lane", row.get_ref(0)?.as_str()?)
        })
    }

    fn touch_lane(&mut self, lane: LaneId) -> Result<()> {
        self.run("UPDATE lane SET stamp = ?2 WHERE lane = ?1", [signed(lane.0), self.stamp])
            .map(drop)
    }

    fn prune_lanes(&mut self, limit: usize) -> Result<bool> {
        self.delete_lanes(limit)
    }

    fn put_groups(&mut self, groups: &[&GroupInfo]) -> Result<()> {
        self.log_groups(groups)
    }

    fn put_queue(&mut self, queue: &QueueInfo) -> Result<()> {
        self.write_queue(queue)
    }

    fn put_service(&mut self, service: &ServiceRow) -> Result<()> {
        self.write_service(service)
    }

    fn put_record(&mut self, record: &Record) -> Result<()> {
        let key = record.key();
        match &record.value {
            Some(value) => self.run(
                "INSERT OR REPLACE INTO record (key, body) VALUES (?1, ?2)",
                [key.as_str(), value.as_str()],
            ),
            None => self.run("DELETE FROM record WHERE key = ?1", [key.as_str()]),
        }
        .map(drop)
    }

    fn put_task(&mut self, task: &TaskSpec) -> Result<()> {
        let spec = self.text("task", task)?;
        self.run(
            "INSERT OR REPLACE INTO task (name, spec) VALUES (?1, ?2)",
            [task.name.as_str(), &spec],
        )
        .map(drop)
    }

    fn put_worker(&mut self, worker: &WorkerSpec, now: Timestamp) -> Result<()> {
        let (id, spec) = (blob(worker.id.as_u128()), self.text("worker", worker)?);
        let sql = "INSERT INTO worker (id, spec, host, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?4) \
                   ON CONFLICT (id) DO UPDATE SET spec = ?2, host = ?3, seen_at = ?4";
        self.run(sql, params![&id[..], spec, worker.host, now.as_micros()]).map(drop)
    }

    fn drop_worker(&mut self, worker: WorkerId) -> Result<()> {
        self.run("DELETE FROM worker WHERE id = ?1", [&blob(worker.as_u128())[..]]).map(drop)
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        let sql = "SELECT spec FROM worker WHERE seen_at >= ?1";
        self.rows(sql, [since.as_micros()], |row| {
            crate::rows::parsed("worker", row.get_ref(0)?.as_str()?)
        })
    }

    fn seen_worker(&mut self, worker: WorkerId, now: Timestamp) -> Result<()> {
        let sql = "UPDATE worker SET seen_at = ?2 WHERE id = ?1";
        self.run(sql, params![&blob(worker.as_u128())[..], now.as_micros()]).map(drop)
    }

    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()> {
        let body = self.text("schedule", schedule)?;
        let next = schedule.next_at.map(Timestamp::as_micros);
        let sql = "INSERT OR REPLACE INTO schedule (name, next_at, body) VALUES (?1, ?2, ?3)";
        self.run(sql, params![schedule.spec.name.as_str(), next, body]).map(drop)
    }

    fn drop_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        Ok(self.run("DELETE FROM schedule WHERE name = ?1", [name.as_str()])? > 0)
    }

    fn schedule(&mut self, name: &ScheduleName) -> Result<Option<ScheduleInfo>> {
        let sql = "SELECT body FROM schedule WHERE name = ?1";
        self.row(sql, [name.as_str()], |row| {
            crate::rows::parsed("schedule", row.get_ref(0)?.as_str()?)
        })
    }

    fn schedules(&mut self) -> Result<Vec<ScheduleInfo>> {
        crate::reader::schedules(&self.connection).map_err(|e| self.explain(&e))
    }

    fn due_schedules(&mut self, now: Timestamp) -> Result<Vec<ScheduleInfo>> {
        let sql = "SELECT body FROM schedule WHERE next_at <= ?1 ORDER BY next_at, name";
        self.rows(sql, [now.as_micros()], |row| {
            crate::rows::parsed("schedule", row.get_ref(0)?.as_str()?)
        })
    }

    fn next_firing(&mut self) -> Result<Option<Timestamp>> {
        self.instant("SELECT min(next_at) FROM schedule WHERE next_at IS NOT NULL")
    }

    fn note_usage(&mut self, rows: &[UsageRow]) -> Result<()> {
        type Used<'a> = (&'a str, Option<&'a str>, i64);
        let mut runs: BTreeMap<Timestamp, Vec<Used<'_>>> = BTreeMap::new();
        for row in rows {
            let key = row.key.as_ref().map(runcue_core::Key::as_str);
            runs.entry(row.at).or_default().push((row.service.as_str(), key, row.units));
        }
        for (at, run) in runs {
            let body = self.text("usage", &run)?;
            let id = self.stamp * USAGE_ROWS + self.usage_noted;
            self.usage_noted += 1;
            let sql = "INSERT INTO usage_run (id, at, body) VALUES (?1, ?2, ?3)";
            self.run(sql, params![id, at.as_micros(), body])?;
            self.usage_seen = id;
        }
        Ok(())
    }

    fn prune_usage(&mut self, before: Timestamp, dry_run: bool) -> Result<u64> {
        let before = before.as_micros();
        let sql = "SELECT coalesce(sum(json_array_length(body)), 0) FROM usage_run WHERE at < ?1";
        let count = unsigned(self.row(sql, [before], |row| row.get(0))?.unwrap_or(0));
        if !dry_run && count > 0 {
            self.run("DELETE FROM usage_run WHERE at < ?1", [before])?;
        }
        Ok(count)
    }

    fn append_events(&mut self, events: &[Event]) -> Result<()> {
        for run in events.chunks(EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (seqs, at) = ((signed(first.seq), signed(last.seq)), last.at.as_micros());
            let EventRun { shared, each } = EventRun::write(run, last.at);
            let sql =
                "INSERT INTO event (last, first, at, shared, body) VALUES (?1, ?2, ?3, ?4, ?5)";
            self.run(sql, params![seqs.1, seqs.0, at, shared, each])?;
        }
        Ok(())
    }

    fn prune_events(&mut self, before: Timestamp, keep: u64, dry_run: bool) -> Result<u64> {
        let newest = self
            .row("SELECT max(last) FROM event", [], |row| row.get::<_, Option<i64>>(0))?
            .flatten();
        if !dry_run {
            // Kept as long as events are: there is no other word of them.
            self.run("DELETE FROM refused WHERE at < ?1", [before.as_micros()])?;
        }
        let Some(newest) = newest else { return Ok(0) };
        // Rows are whole transactions; only those that are out of date as a whole go.
        let values = [before.as_micros(), newest.saturating_sub(signed(keep))];
        let sql =
            "SELECT coalesce(sum(last - first + 1), 0) FROM event WHERE at < ?1 OR last <= ?2";
        let count = unsigned(self.row(sql, values, |row| row.get(0))?.unwrap_or(0));
        if !dry_run && count > 0 {
            self.run("DELETE FROM event WHERE at < ?1 OR last <= ?2", values)?;
        }
        Ok(count)
    }

    fn append_log(&mut self, seq: Seq, chunk: &LogChunk) -> Result<()> {
        let stream = self.text("stream", &chunk.stream)?;
        let sql = "INSERT INTO log (seq, attempt, token, stream, at, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (seq, token) = (signed(seq.0), signed(chunk.token.0));
        self.run(
            sql,
            params![seq, chunk.attempt, token, stream, chunk.at.as_micros(), chunk.text],
        )?;
        let sql = "DELETE FROM log WHERE seq = ?1 AND n < (SELECT max(n) FROM log WHERE seq = ?1) AND n IN \
                   (SELECT n FROM (SELECT n, sum(length(text)) OVER (ORDER BY n DESC) AS kept FROM log \
                   WHERE seq = ?1) WHERE kept > ?2)";
        self.run(sql, [seq, limit_of(LOG_BYTES)]).map(drop)
    }

    fn inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>> {
        self.read_inbox(after, limit)
    }

    fn clear_inbox(&mut self, n: u64, refused: Option<&str>) -> Result<()> {
        self.take_from_inbox(n, refused)
    }

    fn check(&mut self) -> Result<Vec<String>> {
        self.find_contradictions()
    }
}
