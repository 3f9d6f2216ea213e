//! What the machine asks of the server: turns, questions and commits. Runs on the writer's thread, which
//! drives the connection itself. What goes to the server together goes in one *flight*: the statements are
//! sent one after the other without waiting for answers.

mod beside;
mod commit;
mod flight;
mod job_parts;
mod lease_runs;
mod opening;
mod questions;
mod ready_runs;
mod search;
mod turns;

pub(crate) use commit::RECORD;
pub(crate) use turns::take_within;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use runcue_core::{Job, LaneId, Seq, Timestamp};
use runcue_store::overlay::{
    Answers, Backend, Changed, CommitId, Committed, Find, Haste, OnRead, Opening, PrunedEvents,
    Questions, Rank, ReadyQuestion, Timed, WriteSet,
};
use runcue_store::tables::InboxRow;
use runcue_store::{Result, StoreError, WorkerSpec};
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

use crate::connection::Options;
use crate::failure::{explain, is_of_another_schema, is_of_another_session, unreadable};
use crate::migrate;
use crate::rows::{signed, unsigned};
use beside::Beside;
use flight::{Flight, Landed, Text, Value};
use turns::Turn;

/// How the writer's statements run. Whoever is silent in its turn loses it. Rows are found by their keys, however
/// few or many the planner believes there are, so that one plan is right for ever and need not be made again.
const SETTINGS: [(&str, &str); 7] = [
    ("idle_in_transaction_session_timeout", "2000"),
    ("lock_timeout", "8000"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// The settings as statements of a transaction.
fn settings() -> String {
    SETTINGS.map(|(name, value)| format!("SET LOCAL {name} = {value}")).join("; ")
}

/// Whether the settings of a session came through to the server.
const ARE_SETTLED: &str = "SELECT current_setting('plan_cache_mode') = 'force_generic_plan' \
    AND current_setting('idle_in_transaction_session_timeout') = '2s'";

/// The writer's connection to a server.
pub struct PostgresBackend {
    options: Options,
    runtime: Runtime,
    client: Option<Client>,
    turn: Turn,
    /// What is read while a commit is under way.
    beside: Beside,
    /// Statements of this connection.
    texts: HashMap<&'static str, Text>,
    /// Begins a transaction. Behind a pooler each has to settle anew how its statements run.
    begin: String,
}

impl PostgresBackend {
    /// A backend that is not connected yet.
    pub fn new(options: Options) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            options,
            runtime,
            client: None,
            turn: Turn::default(),
            beside: Beside::default(),
            texts: HashMap::new(),
            begin: String::new(),
        })
    }

    /// What the server's settings mean for what is acknowledged.
    pub fn durability(&mut self) -> Result<&'static str> {
        let sql = "SELECT current_setting('fsync') = 'on', current_setting('synchronous_commit')";
        let rows = self.query(sql, &[])?;
        let (fsync, commit) = rows
            .first()
            .map_or((false, String::new()), |row| (row.get::<_, bool>(0), row.get::<_, String>(1)));
        Ok(match (fsync, commit.as_str()) {
            (false, _) => {
                "fsync off: survives a crash of the server's processes, not of its machine"
            }
            (true, "off") => {
                "synchronous_commit off: the last moments may be lost when the server crashes"
            }
            (true, "remote_apply" | "remote_write") => {
                "synchronous_commit remote: survives power loss, and on standbys where there are any"
            }
            (true, _) => "synchronous_commit on: survives power loss",
        })
    }

    /// A statement with values of these types, once for all on this connection.
    fn text(&mut self, sql: &'static str, types: &[Type]) -> Result<Text> {
        if let Some(text) = self.texts.get(sql) {
            return Ok(text.clone());
        }
        let full = self.options.sql(sql);
        let text = if self.options.pooler() {
            Text::Plain(full.into())
        } else {
            let prepared = self.run(0, async |client| client.prepare_typed(&full, types).await)?;
            Text::Prepared(prepared)
        };
        self.texts.insert(sql, text.clone());
        Ok(text)
    }

    /// Works on the connection until it is done or takes too long. The connection is dropped when nothing is
    /// known of it any more.
    fn run<R>(
        &mut self,
        rows: usize,
        work: impl AsyncFnOnce(&Client) -> std::result::Result<R, Error>,
    ) -> Result<R> {
        let Some(client) = &self.client else {
            return Err(StoreError::Unavailable(format!("{} is away", self.options.place())));
        };
        let limit = Options::reply_timeout(rows);
        let worked =
            self.runtime.block_on(async { tokio::time::timeout(limit, work(client)).await });
        match worked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if !self.options.pooler() && is_of_another_session(&error) => {
                self.options.found_pooler();
                self.drop_connection();
                let (place, why) = (self.options.place(), "a pooler is in between");
                Err(StoreError::Unavailable(format!("{place}: {why}")))
            }
            Ok(Err(error)) => {
                if error.as_db_error().is_none() || client.is_closed() {
                    self.drop_connection();
                } else if is_of_another_schema(&error) {
                    let judged = migrate::explain_misfit(&self.options, &error);
                    return Err(self.runtime.block_on(judged));
                }
                Err(explain(&self.options, &error))
            }
            Err(_) => {
                self.drop_connection();
                Err(StoreError::Unavailable(format!("{} does not answer", self.options.place())))
            }
        }
    }

    /// Whoever has lent the turn and does something else meanwhile does not want it back.
    fn renounce_lent(&mut self) {
        if self.turn.is_lent() {
            self.abandon();
        }
    }

    fn drop_connection(&mut self) {
        self.client = None;
        self.turn = Turn::default();
        self.beside.reset();
        self.texts.clear();
    }

    /// One statement, and its rows.
    fn query(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
        let text = self.text(sql, &types)?;
        self.run(0, async |client| text.query(client, values).await)
    }

    fn number(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        let rows = self.query(sql, values)?;
        Ok(rows.first().and_then(|row| row.get::<_, Option<i64>>(0)).map_or(0, unsigned))
    }

    fn unreadable(&self, why: String) -> StoreError {
        unreadable(&self.options, "a stored value", why)
    }
}

impl Backend for PostgresBackend {
    fn connect(&mut self) -> Result<()> {
        self.drop_connection();
        let options = self.options.clone();
        let limit = Options::reply_timeout(0);
        let (client, alone) = self.runtime.block_on(async {
            let prepared = tokio::time::timeout(limit, connect(&options));
            prepared.await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable(format!("{} does not answer", options.place())))
            })
        })?;
        self.client = Some(client);
        if !alone {
            self.options.found_pooler();
        }
        self.begin = match self.options.pooler() {
            true => format!("BEGIN; {}", settings()),
            false => "BEGIN".to_owned(),
        };
        Ok(())
    }

    fn begin(
        &mut self,
        known: u64,
        now: Option<Timestamp>,
        questions: &Questions,
        haste: Haste,
    ) -> Result<Opening> {
        self.open_turn(known, now, questions, haste)
    }

    fn look(&mut self) -> Result<(u64, Timestamp)> {
        let rows = self.query("SELECT max(revision), runcue.now_micros() FROM runcue.turn", &[])?;
        let row = rows.first().ok_or_else(|| self.unreadable("no turn".to_owned()))?;
        let revision: Option<i64> = row.get(0);
        Ok((revision.map_or(0, unsigned), Timestamp::from_micros(row.get(1))))
    }

    fn ask(&mut self, questions: &Questions) -> Result<Answers> {
        self.answer(questions)
    }

    fn secret(&mut self) -> Result<Option<Vec<u8>>> {
        let read = "SELECT secret FROM runcue.secret";
        let make = "INSERT INTO runcue.secret (secret) VALUES ($1) ON CONFLICT DO NOTHING";
        let fresh = crate::store::random()?.to_be_bytes().to_vec();
        let mut found = self.query(read, &[]);
        if matches!(&found, Ok(rows) if rows.is_empty()) {
            let made = self.query(make, &[(&fresh, Type::BYTEA)]);
            found = made.and_then(|_| self.query(read, &[]));
        }
        match found {
            Ok(rows) => Ok(rows.first().map(|row| row.get(0))),
            Err(away @ StoreError::Unavailable(_)) => Err(away),
            // Whoever may use the tables and does not own them tells nothing, and believes nothing.
            Err(_) => Ok(None),
        }
    }

    fn begins_behind(&self) -> bool {
        true
    }

    fn reads_beside(&self) -> bool {
        self.beside.is_ready()
    }

    fn begin_reading(&mut self, question: &ReadyQuestion, known: u64) {
        self.beside.begin(&self.runtime, &self.options, question, known);
    }

    fn end_reading(&mut self) -> Option<Vec<Job>> {
        self.beside.end(&self.runtime)
    }

    fn whole(&mut self, now: Timestamp, memory: Duration) -> Result<Changed> {
        self.read_whole(now, memory)
    }

    fn timed(
        &mut self,
        list: Timed,
        from: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Seq)>> {
        self.list_by_instant(list, from, limit)
    }

    fn find(&mut self, what: &Find<'_>) -> Result<Vec<Seq>> {
        self.search(what)
    }

    fn ahead(&mut self, lane: LaneId, place: Rank) -> Result<u64> {
        self.count_ahead(lane, place)
    }

    fn idle_lanes(
        &mut self,
        going: &BTreeMap<LaneId, u64>,
        limit: usize,
    ) -> Result<Vec<(LaneId, String)>> {
        let sql = "SELECT lane.lane, lane.key FROM runcue.lane \
            LEFT JOIN (SELECT lane, count(*) AS jobs FROM runcue.job GROUP BY lane) AS used USING (lane) \
            LEFT JOIN unnest($1::bigint[], $2::bigint[]) AS going (lane, jobs) USING (lane) \
            WHERE coalesce(used.jobs, 0) = coalesce(going.jobs, 0) LIMIT $3";
        let lanes: Vec<i64> = going.keys().map(|lane| signed(lane.0)).collect();
        let counts: Vec<i64> = going.values().copied().map(signed).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values: [Value<'_>; 3] =
            [(&lanes, Type::INT8_ARRAY), (&counts, Type::INT8_ARRAY), (&limit, Type::INT8)];
        let rows = self.query(sql, &values)?;
        Ok(rows.iter().map(|row| (LaneId(unsigned(row.get(0))), row.get(1))).collect())
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        let sql = "SELECT spec FROM runcue.worker WHERE seen_at >= $1";
        let rows = self.query(sql, &[(&since.as_micros(), Type::INT8)])?;
        let read = |row: &Row| crate::rows::parsed("worker", row.get(0));
        rows.iter().map(read).collect::<std::result::Result<_, _>>().map_err(|e| self.unreadable(e))
    }

    fn count_usage(&mut self, before: Timestamp) -> Result<u64> {
        let sql = "SELECT sum(uses)::bigint FROM runcue.usage_run WHERE at < $1";
        self.number(sql, &[(&before.as_micros(), Type::INT8)])
    }

    fn count_events(&mut self, what: PrunedEvents) -> Result<u64> {
        let sql =
            "SELECT sum(last - first + 1)::bigint FROM runcue.event WHERE at < $1 OR last <= $2";
        let (before, through) = (what.before.as_micros(), signed(what.through));
        self.number(sql, &[(&before, Type::INT8), (&through, Type::INT8)])
    }

    fn inbox(&mut self, after: u64, limit: usize) -> Result<Vec<InboxRow>> {
        // Within a turn nobody else takes rows in; whoever looks at one in a transaction holds up nobody.
        let sql = "SELECT n, body FROM runcue.inbox WHERE n > $2 ORDER BY n LIMIT $1 FOR UPDATE SKIP LOCKED";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.query(sql, &[(&limit, Type::INT8), (&signed(after), Type::INT8)])?;
        let read = |row: &Row| InboxRow { n: unsigned(row.get(0)), body: row.get(1) };
        Ok(rows.iter().map(read).collect())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        self.find_contradictions()
    }

    fn commit_and_tell(&mut self, writes: &WriteSet, read: &mut OnRead<'_>) -> Result<Committed> {
        let committed = self.write(writes);
        // What is read goes on while the commit is waited for, and is mostly there by then. Nobody waits for it here.
        if self.beside.is_done() {
            read(self.beside.end(&self.runtime));
        }
        committed
    }

    fn abandon(&mut self) {
        let turn = std::mem::take(&mut self.turn);
        if let Some(end) = turn.abandoned() {
            let end = self.options.sql(&end);
            // If it cannot be said, the server ends the turn with the connection.
            if self.run(0, async |client| client.batch_execute(&end).await).is_err() {
                self.drop_connection();
            }
        }
    }

    fn settle(&mut self, commit: CommitId, follows: u64) -> Result<bool> {
        let (id, follows) = (Uuid::from_u128(commit.0), signed(follows));
        let sql = "SELECT runcue.settle($1, $2)";
        let rows = self.query(sql, &[(&id, Type::UUID), (&follows, Type::INT8)])?;
        match rows.first().map(|row| row.get::<_, i32>(0)) {
            Some(1) => Ok(true),
            Some(0) => Ok(false),
            _ => Err(StoreError::ReadOnly {
                place: self.options.place(),
                why: "the reply to a change was lost too long ago to tell whether it went through"
                    .to_owned(),
            }),
        }
    }
}

/// A connection to a server whose schema is in order, and whether its session is ours alone and settled for good. The
/// settings of a session that a pooler lends would be others' too.
async fn connect(options: &Options) -> Result<(Client, bool)> {
    let connected = match options.pooler() {
        true => None,
        false => options.connect_with(&SETTINGS).await?,
    };
    let asked = connected.is_some();
    let (mut client, connection) = match connected {
        Some(connected) => connected,
        None => options.connect().await?,
    };
    tokio::spawn(connection);
    migrate::prepare(options, &mut client).await?;
    let fail = |error: Error| explain(options, &error);
    let settled = asked && {
        let rows = client.query_typed(ARE_SETTLED, &[]).await.map_err(fail)?;
        rows.first().is_some_and(|row| row.get(0))
    };
    Ok((client, settled))
}

/// Lets a flight land; every answer is good, or the first real error counts.
async fn landed(flight: Flight<'_>) -> std::result::Result<Landed, Error> {
    flight.land().await
}
