//! The connections that read: queries for people, which never wait for the writer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use runcue_core::{Event, Job, JobFilter, JobId, Json, StateWord, TaskSpec, Timestamp, Token};
use runcue_store::event_run::read_event_run;
use runcue_store::stage::stages;
use runcue_store::{
    ListRequest, LogChunk, Page, Record, Refused, Result, ScheduleInfo, StoreError, WorkerInfo,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::connection::{self, Options};
use crate::failure::{explain, unreadable};
use crate::rows::{self, COLUMNS, FROM, blob, id_bits, parsed, signed, unsigned};
use crate::specs::Specs;

/// Connections at the most.
const SIZE: usize = 4;

/// A few reading connections, opened when first needed.
pub struct Readers {
    options: Options,
    free: Mutex<(Vec<Connection>, usize)>,
    returned: Condvar,
}

impl Readers {
    pub fn new(options: Options) -> Self {
        Self { options, free: Mutex::new((Vec::new(), 0)), returned: Condvar::new() }
    }

    /// Asks a question on a free connection.
    pub fn ask<R>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R> {
        let connection = self.take()?;
        let answer = question(&connection);
        self.lock().0.push(connection);
        self.returned.notify_one();
        answer.map_err(|error| explain(&self.options.place(), &error))
    }

    /// Closes what is open.
    pub fn close(&self) {
        let mut free = self.lock();
        let closed = free.0.drain(..).count();
        free.1 -= closed;
    }

    fn take(&self) -> Result<Connection> {
        let mut free = self.lock();
        loop {
            if let Some(connection) = free.0.pop() {
                return Ok(connection);
            }
            if free.1 < SIZE {
                free.1 += 1;
                drop(free);
                return connection::reader(&self.options)
                    .inspect_err(|_: &StoreError| self.lock().1 -= 1);
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Connection>, usize)> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A filter as SQL over `job` and `lane`.
pub struct Clause {
    /// Begins with AND, or is empty.
    pub sql: String,
    /// The values of its question marks.
    pub values: Vec<Value>,
}

impl Clause {
    pub fn of(filter: &JobFilter) -> Self {
        let mut clause = Self { sql: String::new(), values: Vec::new() };
        if !filter.states.is_empty() {
            let numbers = filter.states.iter().flat_map(|state| stages(*state)).map(u8::to_string);
            let list = numbers.collect::<Vec<_>>().join(", ");
            clause.sql.push_str(&format!(" AND job.stage IN ({list})"));
        }
        let texts = [
            ("lane.queue = ?", filter.queue.as_ref().map(|name| name.as_str())),
            ("lane.grp = ?", filter.group.as_ref().map(|name| name.as_str())),
            ("lane.task = ?", filter.task.as_ref().map(|name| name.as_str())),
            ("lane.key ->> 'project' = ?", filter.project.as_deref()),
            (
                "EXISTS (SELECT 1 FROM json_each(lane.key, '$.labels') AS label WHERE label.value = ?)",
                filter.label.as_deref(),
            ),
        ];
        for (sql, value) in texts {
            if let Some(value) = value {
                clause.sql.push_str(" AND ");
                clause.sql.push_str(sql);
                clause.values.push(value.to_owned().into());
            }
        }
        if !filter.ids.is_empty() {
            let marks = vec!["?"; filter.ids.len()].join(", ");
            clause.sql.push_str(&format!(" AND job.id IN ({marks})"));
            clause
                .values
                .extend(filter.ids.iter().map(|id| Value::Blob(blob(id.as_u128()).to_vec())));
        }
        clause
    }
}

/// Jobs by id, in the order asked.
pub fn get(connection: &Connection, ids: &[JobId]) -> rusqlite::Result<Vec<Option<Job>>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM {FROM} WHERE job.id = ?1"))?;
    let mut specs = Specs::default();
    let one = |id: &JobId| {
        statement.query_row([&blob(id.as_u128())[..]], |row| rows::job(row, &mut specs)).optional()
    };
    ids.iter().map(one).collect()
}

/// The ids from one to another, in their order.
pub fn ids_between(
    connection: &Connection,
    first: JobId,
    last: JobId,
    limit: usize,
) -> rusqlite::Result<Vec<JobId>> {
    let sql = "SELECT id FROM job WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3";
    let (first, last) = (blob(first.as_u128()), blob(last.as_u128()));
    let values = params![&first[..], &last[..], i64::try_from(limit).unwrap_or(i64::MAX)];
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| id_bits(row.get_ref(0)?.as_blob()?).map(JobId::from_u128);
    statement.query_map(values, read)?.collect()
}

/// A page of jobs, newest first.
pub fn list(connection: &Connection, request: &ListRequest) -> rusqlite::Result<Page<Job>> {
    let clause = Clause::of(&request.filter);
    // States that few jobs are in are found by their own index, all others by walking back from the newest.
    let rare = |state: &StateWord| !matches!(state, StateWord::Queued | StateWord::Completed);
    let by_state = !request.filter.states.is_empty() && request.filter.states.iter().all(rare);
    let (hint, bound) =
        if by_state { ("INDEXED BY job_due", "AND job.due IS NOT NULL") } else { ("", "") };
    let sql = format!(
        "SELECT {COLUMNS} FROM job {hint} JOIN lane USING (lane) JOIN body ON body.seq = job.seq \
         LEFT JOIN outcome ON outcome.seq = job.seq WHERE job.seq < ? {bound} {} ORDER BY job.seq DESC LIMIT ?",
        clause.sql
    );
    let before = request.before.map_or(i64::MAX, |seq| signed(seq.0));
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX - 1);
    let mut values = vec![Value::from(before)];
    values.extend(clause.values);
    values.push((limit + 1).into());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut specs = Specs::default();
    let mut found: Vec<Job> = statement
        .query_map(params_from_iter(values), |row| rows::job(row, &mut specs))?
        .collect::<rusqlite::Result<_>>()?;
    let more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = found.last().map(|job| job.seq).filter(|_| more);
    Ok(Page { rows: found, next })
}

/// Every record of a kind, by name.
pub fn records(connection: &Connection, kind: &str) -> rusqlite::Result<Vec<Record>> {
    let first = Record::keys_of(kind);
    let sql = "SELECT key, body FROM record WHERE key >= ?1 AND substr(key, 1, length(?1)) = ?1 ORDER BY key";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([&first], |row| {
        let value = Json::trusted(row.get_ref(1)?.as_str()?);
        Ok(Record::of(row.get_ref(0)?.as_str()?, value))
    })?;
    rows.filter_map(rusqlite::Result::transpose).collect()
}

/// Every task definition.
pub fn tasks(connection: &Connection) -> rusqlite::Result<Vec<TaskSpec>> {
    let mut statement = connection.prepare_cached("SELECT spec FROM task ORDER BY name")?;
    statement.query_map([], |row| parsed("task", row.get_ref(0)?.as_str()?))?.collect()
}

/// Every schedule.
pub fn schedules(connection: &Connection) -> rusqlite::Result<Vec<ScheduleInfo>> {
    let mut statement = connection.prepare_cached("SELECT body FROM schedule ORDER BY name")?;
    statement.query_map([], |row| parsed("schedule", row.get_ref(0)?.as_str()?))?.collect()
}

/// Every worker instance.
pub fn workers(connection: &Connection) -> rusqlite::Result<Vec<WorkerInfo>> {
    let sql = "SELECT spec, started_at, seen_at, (SELECT count(*) FROM job WHERE stage IN (3, 4) AND due IS NOT NULL \
               AND job.worker = worker.id) FROM worker ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(WorkerInfo {
            spec: parsed("worker", row.get_ref(0)?.as_str()?)?,
            started_at: Timestamp::from_micros(row.get(1)?),
            seen_at: Timestamp::from_micros(row.get(2)?),
            held: unsigned(row.get(3)?),
        })
    };
    statement.query_map([], read)?.collect()
}

/// Events after a number.
pub fn events(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Event>> {
    let sql = "SELECT first, at, shared, body FROM event WHERE last > ?1 ORDER BY last";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([signed(after)])?;
    let mut found: Vec<Event> = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        let (first, at) = (unsigned(row.get(0)?), Timestamp::from_micros(row.get(1)?));
        let (shared, each) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
        let run = read_event_run(first, at, shared, each).map_err(|e| unreadable("events", e))?;
        found.extend(run.into_iter().filter(|event| event.seq > after));
    }
    found.truncate(limit);
    Ok(found)
}

/// The number of the latest event.
pub fn last_event(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT event FROM meta")?
        .query_row([], |row| row.get(0).map(unsigned))
}

/// Jobs from applications that were refused, latest first.
pub fn refused(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Refused>> {
    let sql = "SELECT n, body, why FROM refused ORDER BY n DESC LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Refused { n: unsigned(row.get(0)?), body: row.get(1)?, why: row.get(2)? })
    };
    statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], read)?.collect()
}

/// A job's kept output after a chunk.
pub fn logs(connection: &Connection, id: JobId, after: u64) -> rusqlite::Result<Vec<LogChunk>> {
    let sql = "SELECT n, attempt, token, stream, at, text FROM log \
               WHERE seq = (SELECT seq FROM job WHERE id = ?1) AND n > ?2 ORDER BY n";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(LogChunk {
            n: unsigned(row.get(0)?),
            job: id,
            attempt: row.get(1)?,
            token: Token(unsigned(row.get(2)?)),
            stream: parsed("stream", row.get_ref(3)?.as_str()?)?,
            at: Timestamp::from_micros(row.get(4)?),
            text: row.get(5)?,
        })
    };
    statement.query_map(params![&blob(id.as_u128())[..], signed(after)], read)?.collect()
}

/// The prerequisites and dependents of a job, nothing if there is no such job.
pub fn relatives(
    connection: &Connection,
    id: JobId,
) -> rusqlite::Result<Option<(Vec<JobId>, Vec<JobId>)>> {
    let id = blob(id.as_u128());
    let seq: Option<i64> = connection
        .prepare_cached("SELECT seq FROM job WHERE id = ?1")?
        .query_row([&id[..]], |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(None) };
    let names = |sql: &str| -> rusqlite::Result<Vec<JobId>> {
        let mut statement = connection.prepare_cached(sql)?;
        let read =
            |row: &rusqlite::Row<'_>| Ok(JobId::from_u128(id_bits(row.get_ref(0)?.as_blob()?)?));
        statement.query_map([seq], read)?.collect()
    };
    let before = names(
        "SELECT job.id FROM tie JOIN job ON job.seq = tie.prerequisite WHERE tie.dependent = ?1 ORDER BY job.seq",
    )?;
    let behind = names(
        "SELECT job.id FROM tie JOIN job ON job.seq = tie.dependent WHERE tie.prerequisite = ?1 ORDER BY job.seq",
    )?;
    Ok(Some((before, behind)))
}
