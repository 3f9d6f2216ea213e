//! The connections that read: questions of people, which never wait for a turn. One thread drives them all,
//! so that they do not depend on the runtime of whoever asked first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use runcue_core::{Event, Job, JobFilter, JobId, Json, Seq, StateWord, TaskSpec, Timestamp, Token};
use runcue_store::event_run::read_event_run;
use runcue_store::overlay::{News, Reader};
use runcue_store::{
    ListRequest, LogChunk, Page, Particulars, Record, Refused, Result, StoreError, WorkerInfo,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use crate::backend::RECORD;
use crate::connection::Options;
use crate::failure::{explain, is_of_another_schema, is_of_another_session, unreadable};
use crate::migrate;
use crate::rows::{self, Misread, id_of, parsed, signed, stages, unsigned};
use crate::watcher;

/// Connections at the most.
const SIZE: usize = 4;

/// The reading connections and the one that listens.
pub struct Readers {
    options: Options,
    durability: &'static str,
    runtime: Handle,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    slots: [tokio::sync::Mutex<Option<Arc<Asking>>>; SIZE],
    next: AtomicUsize,
    listening: Mutex<bool>,
}

/// A connection, and the statements that it has parsed.
struct Asking {
    client: Client,
    known: Mutex<HashMap<&'static str, Statement>>,
}

impl Asking {
    /// Runs a statement. One that is asked again and again has a name, and is parsed once.
    async fn query(
        &self,
        name: Option<&'static str>,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let Some(name) = name else { return self.client.query_typed(sql, values).await };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
                let statement = self.client.prepare_typed(sql, &types).await?;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.entry(name).or_insert(statement).clone()
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.client.query(&statement, &values).await
    }
}

impl Readers {
    /// Starts the thread that drives connections; they are opened when first needed.
    pub fn start(options: Options, durability: &'static str) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(false);
        let thread = std::thread::Builder::new().name("runcue-reader".into()).spawn(move || {
            let _ = runtime.block_on(stopped.wait_for(|stopped| *stopped));
            runtime.shutdown_background();
        })?;
        Ok(Self {
            options,
            durability,
            runtime: handle,
            stop,
            thread: Mutex::new(Some(thread)),
            slots: Default::default(),
            next: AtomicUsize::new(0),
            listening: Mutex::new(false),
        })
    }

    /// A connection. Several questions may be under way on one.
    async fn client(&self) -> Result<Arc<Asking>> {
        let n = self.next.fetch_add(1, Ordering::Relaxed) % SIZE;
        let mut slot = self.slots[n].lock().await;
        if let Some(client) = slot.as_ref().filter(|asking| !asking.client.is_closed()) {
            return Ok(client.clone());
        }
        if *self.stop.borrow() {
            return Err(StoreError::Closed);
        }
        let options = self.options.clone();
        let opened = self.runtime.spawn(async move {
            let (client, connection) = options.connect().await?;
            tokio::spawn(connection);
            Ok::<_, StoreError>(Arc::new(Asking { client, known: Mutex::default() }))
        });
        let client = opened.await.map_err(|_| StoreError::Closed)??;
        *slot = Some(client.clone());
        Ok(client)
    }

    async fn query(&self, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        self.ask(None, sql, values).await
    }

    /// A statement that is asked again and again.
    async fn query_again(
        &self,
        sql: &'static str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        // Behind a pooler the next question may go to another session, which has not parsed it.
        self.ask(Some(sql).filter(|_| !self.options.pooler()), sql, values).await
    }

    async fn ask(
        &self,
        name: Option<&'static str>,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = self.options.sql(sql);
        let asking = self.client().await?;
        let answer = match asking.query(name, &sql, values).await {
            // A question changes nothing, so it may be asked again when the connection has gone.
            Err(error) if asking.client.is_closed() && error.as_db_error().is_none() => {
                self.client().await?.query(name, &sql, values).await
            }
            // What was parsed was parsed elsewhere.
            Err(error) if name.is_some() && is_of_another_session(&error) => {
                self.options.found_pooler();
                asking.query(None, &sql, values).await
            }
            answer => answer,
        };
        match answer {
            Err(error) if is_of_another_schema(&error) => {
                Err(migrate::explain_by(&self.options, &asking.client, &error).await)
            }
            answer => answer.map_err(|error| explain(&self.options, &error)),
        }
    }

    fn read<T>(
        &self,
        rows: &[Row],
        read: impl Fn(&Row) -> std::result::Result<T, Misread>,
    ) -> Result<Vec<T>> {
        let all: std::result::Result<Vec<T>, Misread> = rows.iter().map(read).collect();
        all.map_err(|why| unreadable(&self.options, "a stored value", why))
    }

    fn end(&self) {
        self.stop.send_replace(true);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A value of a filter.
enum Given {
    Text(String),
    Ids(Vec<Uuid>),
}

/// Which way a list of jobs goes: up from a place, or down.
#[derive(Clone, Copy)]
pub enum Way {
    Up,
    Down,
}

impl Way {
    /// What is beyond the place `$1`, and in which order.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Up => ("> $1", ""),
            Self::Down => ("< $1", " DESC"),
        }
    }
}

/// A filter as SQL over the states of jobs (`state`) and `lane`.
pub struct Clause {
    /// Tables that hold the states, but for jobs in runs of ready ones.
    sources: Vec<String>,
    waiting: bool,
    /// What is asked of states and of lanes.
    states: String,
    lanes: String,
    given: Vec<Given>,
    first: usize,
}

impl Clause {
    /// A filter whose values begin with this number.
    pub fn of(filter: &JobFilter, first: usize) -> Self {
        let any = |of: fn(StateWord) -> bool| filter.states.iter().copied().any(of);
        let held = any(|state| matches!(state, StateWord::Leased | StateWord::Running));
        let tables = [
            (any(|state| !state.is_final()), "live"),
            (held, "leased"),
            (any(StateWord::is_final), "done"),
        ];
        let tables = tables.into_iter().filter(|(wanted, _)| *wanted);
        let mut clause = Self {
            sources: tables
                .map(|(_, table)| format!("SELECT seq, lane, stage FROM runcue.{table}"))
                .collect(),
            waiting: any(|state| state == StateWord::Queued),
            states: String::new(),
            lanes: String::new(),
            given: Vec::new(),
            first,
        };
        if !filter.states.is_empty() {
            let numbers = filter.states.iter().flat_map(|state| stages(*state)).map(i16::to_string);
            let list = numbers.collect::<Vec<_>>().join(", ");
            clause.states = format!(" AND state.stage IN ({list})");
        }
        clause.text("lane.queue =", filter.queue.as_ref().map(ToString::to_string));
        clause.text("lane.grp =", filter.group.as_ref().map(ToString::to_string));
        clause.text("lane.task =", filter.task.as_ref().map(ToString::to_string));
        clause.text("lane.key::json ->> 'project' =", filter.project.clone());
        clause.text("lane.key::jsonb -> 'labels' ?", filter.label.clone());
        if !filter.ids.is_empty() {
            // Each of them is found by its key, in whatever state it is.
            let number = clause.first + clause.given.len();
            clause.sources = vec![format!(
                "SELECT job.seq, job.lane, coalesce(live.stage, done.stage, held.stage, 0::smallint) AS stage \
                 FROM runcue.job {{states}} WHERE job.id = ANY (${number})"
            )];
            clause.waiting = false;
            clause.given.push(Given::Ids(filter.ids.iter().map(|id| id_of(*id)).collect()));
        }
        clause
    }

    fn text(&mut self, sql: &str, value: Option<String>) {
        if let Some(value) = value {
            let number = self.first + self.given.len();
            self.lanes.push_str(&format!(" AND {sql} ${number}"));
            self.given.push(Given::Text(value));
        }
    }

    /// A statement that answers the places of jobs from the place `$1` on, which is left out, `$2` of them at the most.
    pub fn seqs(&self, way: Way) -> String {
        let Self { states, lanes, .. } = self;
        let (beyond, order) = way.words();
        let mut sources = self.sources.clone();
        sources.extend(self.waiting.then(|| self.runs(way)));
        let source = match &sources[..] {
            [] => "runcue.job AS state".to_owned(),
            sources => format!("({}) AS state", sources.join(" UNION ALL ")),
        };
        format!(
            "SELECT state.seq FROM {source} JOIN runcue.lane ON lane.lane = state.lane \
             WHERE state.seq {beyond}{states}{lanes} ORDER BY state.seq{order} LIMIT $2"
        )
    }

    /// Jobs in runs of ready ones, few more of them than can be wanted: as soon as the runs that come first hold `$2` jobs, none
    /// beyond those is.
    fn runs(&self, way: Way) -> String {
        let (beyond, order) = way.words();
        let (edge, jobs, runs) = match way {
            // Of a run that begins before the place its last job is sure to be wanted.
            Way::Up => (
                "run.last",
                "CASE WHEN run.first > $1 THEN cardinality(run.seqs) - run.taken ELSE 1 END",
                "run.last > $1 AND run.first <= coalesce(bound.edge, 9223372036854775807)",
            ),
            Way::Down => (
                "min(run.first) OVER (ORDER BY run.last DESC)",
                "cardinality(run.seqs) - run.taken",
                "run.first < $1 AND run.last >= coalesce(bound.edge, 0)",
            ),
        };
        let lanes = &self.lanes;
        format!(
            "SELECT one.seq, run.lane, 0::smallint FROM (SELECT (SELECT counted.edge FROM \
             (SELECT run.last, {edge} AS edge, sum({jobs}) OVER (ORDER BY run.last{order}) AS jobs \
             FROM runcue.ready_run AS run JOIN runcue.lane ON lane.lane = run.lane WHERE run.last {beyond}{lanes}) AS counted \
             WHERE counted.jobs >= $2 ORDER BY counted.last{order} LIMIT 1) AS edge) AS bound \
             JOIN runcue.ready_run AS run ON {runs} \
             CROSS JOIN LATERAL unnest(run.seqs[run.taken + 1 :]) AS one (seq)"
        )
    }

    /// The values, to follow the statement's own.
    pub fn values(&self) -> impl Iterator<Item = (&(dyn ToSql + Sync), Type)> {
        self.given.iter().map(|given| match given {
            Given::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
            Given::Ids(ids) => (ids as &(dyn ToSql + Sync), Type::UUID_ARRAY),
        })
    }
}

#[async_trait]
impl Reader for Readers {
    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        if let [id] = ids[..] {
            let sql = "SELECT {job} FROM runcue.job {states} WHERE job.id = $1";
            let rows = self.query_again(sql, &[(&id_of(id), Type::UUID)]).await?;
            return Ok(vec![self.read(&rows, rows::job)?.pop()]);
        }
        let wanted: Vec<Uuid> = ids.iter().map(|id| id_of(*id)).collect();
        let sql = "SELECT {job} FROM unnest($1::uuid[]) AS wanted (id) JOIN runcue.job ON job.id = wanted.id {states}";
        let rows = self.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
        let jobs = self.read(&rows, rows::job)?;
        let mut found: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id(), job)).collect();
        let mut answers = Vec::with_capacity(ids.len());
        for (n, id) in ids.iter().enumerate() {
            let again = ids[n + 1..].len() < 64 && ids[n + 1..].contains(id);
            answers.push(if again { found.get(id).cloned() } else { found.remove(id) });
        }
        Ok(answers)
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        let before = request.before.map_or(i64::MAX, |seq| signed(seq.0));
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX - 1) + 1;
        let clause = Clause::of(&request.filter, 3);
        let found = clause.seqs(Way::Down);
        let sql = format!(
            "SELECT {{job}} FROM ({found}) AS found JOIN runcue.job ON job.seq = found.seq {{states}} \
             ORDER BY job.seq DESC"
        );
        let mut values: Vec<(&(dyn ToSql + Sync), Type)> =
            vec![(&before, Type::INT8), (&limit, Type::INT8)];
        values.extend(clause.values());
        let rows = self.query(&sql, &values).await?;
        let mut jobs = self.read(&rows, rows::job)?;
        let more = jobs.len() > request.limit;
        jobs.truncate(request.limit);
        let next: Option<Seq> = jobs.last().map(|job| job.seq).filter(|_| more);
        Ok(Page { rows: jobs, next })
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        let first = format!("{RECORD}{}", Record::keys_of(kind));
        let sql = "SELECT name, spec FROM runcue.task WHERE starts_with(name, $1) AND spec <> 'null' ORDER BY name";
        let rows = self.query(sql, &[(&first, Type::TEXT)]).await?;
        let read = |row: &Row| {
            let key: &str = row.get(0);
            let value = Json::trusted(row.get::<_, &str>(1));
            Record::of(key.strip_prefix(RECORD).unwrap_or(key), value)
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        let sql = "SELECT spec FROM runcue.task WHERE NOT starts_with(name, $1) ORDER BY name";
        let rows = self.query(sql, &[(&RECORD, Type::TEXT)]).await?;
        self.read(&rows, |row| parsed("task", row.get(0)))
    }

    async fn refused(&self, limit: usize) -> Result<Vec<Refused>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "SELECT n, body, why FROM runcue.refused ORDER BY n DESC LIMIT $1";
        let rows = self.query(sql, &[(&limit, Type::INT8)]).await?;
        self.read(&rows, |row| {
            Ok(Refused { n: unsigned(row.get(0)), body: row.get(1), why: row.get(2) })
        })
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        let sql = "SELECT spec, started_at, seen_at, \
                   (SELECT count(*) FROM runcue.live WHERE live.stage > 2 AND live.worker = worker.id) \
                   + (SELECT count(*) FROM runcue.leased WHERE leased.worker = worker.id) \
                   FROM runcue.worker ORDER BY id";
        let rows = self.query(sql, &[]).await?;
        self.read(&rows, |row| {
            Ok(WorkerInfo {
                spec: parsed("worker", row.get(0))?,
                started_at: Timestamp::from_micros(row.get(1)),
                seen_at: Timestamp::from_micros(row.get(2)),
                held: unsigned(row.get(3)),
            })
        })
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        let mut found: Vec<Event> = Vec::new();
        let mut from = after;
        while found.len() < limit {
            let sql = "SELECT first, at, shared, body FROM runcue.event WHERE last > $1 ORDER BY last LIMIT 64";
            let rows = self.query_again(sql, &[(&signed(from), Type::INT8)]).await?;
            for run in self.read(&rows, read_run)? {
                from = run.last().map_or(from, |event| event.seq);
                found.extend(run.into_iter().filter(|event| event.seq > after));
            }
            if rows.len() < 64 {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn last_event(&self) -> Result<u64> {
        let sql = "SELECT event FROM runcue.turn ORDER BY revision DESC LIMIT 1";
        let rows = self.query_again(sql, &[]).await?;
        Ok(rows.first().map_or(0, |row| unsigned(row.get(0))))
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        let sql = "SELECT n, attempt, token, stream, at, text FROM runcue.log \
                   WHERE seq = (SELECT seq FROM runcue.job WHERE job.id = $1) AND n > $2 ORDER BY n";
        let values: &[(&(dyn ToSql + Sync), Type)] =
            &[(&id_of(id), Type::UUID), (&signed(after), Type::INT8)];
        let rows = self.query(sql, values).await?;
        self.read(&rows, |row| {
            Ok(LogChunk {
                n: unsigned(row.get(0)),
                job: id,
                attempt: u32::try_from(row.get::<_, i32>(1)).unwrap_or(0),
                token: Token(unsigned(row.get(2))),
                stream: parsed("stream", row.get(3))?,
                at: Timestamp::from_micros(row.get(4)),
                text: row.get(5),
            })
        })
    }

    async fn relatives(&self, id: JobId) -> Result<Option<(Vec<JobId>, Vec<JobId>)>> {
        let sql = "SELECT 0, id, seq FROM runcue.job WHERE job.id = $1 UNION ALL \
                   SELECT 1, before.id, before.seq FROM runcue.job JOIN runcue.tie ON tie.dependent = job.seq \
                   JOIN runcue.job AS before ON before.seq = tie.prerequisite WHERE job.id = $1 UNION ALL \
                   SELECT 2, behind.id, behind.seq FROM runcue.job JOIN runcue.tie ON tie.prerequisite = job.seq \
                   JOIN runcue.job AS behind ON behind.seq = tie.dependent WHERE job.id = $1 ORDER BY 1, 3";
        let rows = self.query(sql, &[(&id_of(id), Type::UUID)]).await?;
        let of = |kind: i32| -> Vec<JobId> {
            let those = rows.iter().filter(|row| row.get::<_, i32>(0) == kind);
            those.map(|row| JobId::from_u128(row.get::<_, Uuid>(1).as_u128())).collect()
        };
        Ok((!of(0).is_empty()).then(|| (of(1), of(2))))
    }

    async fn particulars(&self) -> Result<Particulars> {
        let sql = "SELECT current_setting('server_version'), \
                   (SELECT max(version) FROM runcue.schema_version), runcue.now_micros()";
        let rows = self.query(sql, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Particulars::default()) };
        let schema: Option<i32> = row.get(1);
        Ok(Particulars {
            server: Some(format!("PostgreSQL {}", row.get::<_, String>(0))),
            schema: schema.and_then(|version| u32::try_from(version).ok()),
            now: Some(Timestamp::from_micros(row.get(2))),
        })
    }

    fn listen(&self, news: &News) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *listening, true) {
            let watch = watcher::watch(self.options.clone(), news.clone(), self.stop.subscribe());
            self.runtime.spawn(watch);
        }
    }

    fn durability(&self) -> &'static str {
        self.durability
    }

    async fn close(&self) {
        self.end();
    }
}

/// A run of events from its row.
fn read_run(row: &Row) -> std::result::Result<Vec<Event>, Misread> {
    let (first, at) = (unsigned(row.get(0)), Timestamp::from_micros(row.get(1)));
    read_event_run(first, at, row.get(2), row.get(3)).map_err(|error| format!("events: {error}"))
}
