//! Writing a turn: rows by column, one array each, in one flight with the end of the transaction.

use std::sync::LazyLock;

use runcue_core::{Event, GroupName, JobId, Key, Timestamp};
use runcue_store::event_run::{EventRun, runs_of_a_kind};
use runcue_store::overlay::{Backend, Committed, JobWrite, Timed, WriteSet};
use runcue_store::tables::EVENTS_PER_ROW;
use runcue_store::{Result, StoreError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::PostgresBackend;
use super::flight::{Flight, Value, column};
use super::job_parts::{JobPart, job_parts};
use super::opening::{DROPPED, GROUP, HELD, QUEUE, SCHEDULE, SERVICE, ServiceBody};
use super::turns::{After, HURRY, KEEP_BOTH, KEEP_TURN, Turn};
use crate::failure::{is_behind, is_known_id};
use crate::rows::{id_of, rank_of, signed, small, text};

const FOLLOW: &str = "SELECT runcue.follow($1)";
/// Quotes what is told.
const TOLD: &str = "$told$";
/// How many values the two functions take.
const JOBS: usize = 66;
const TURN: usize = 55;

/// A call of one of the functions that write, whose values begin with a number.
fn call(function: &str, first: usize, count: usize) -> String {
    let values: Vec<String> = (first..first + count).map(|n| format!("${n}")).collect();
    format!("runcue.{function}({})", values.join(", "))
}

static WRITE_JOBS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}", call("write_jobs", 1, JOBS)));
static WRITE_TURN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}", call("write_turn", 1, TURN)));
/// Both in one message, because each has its price; the jobs go first.
static WRITE_BOTH: LazyLock<String> = LazyLock::new(|| {
    let (jobs, turn) = (call("write_jobs", 1, JOBS), call("write_turn", JOBS + 1, TURN));
    format!("SELECT {turn} FROM {jobs} AS written")
});

/// A whole commit as one message, which is a transaction by itself, for whoever is not in a turn. Its own values come
/// first: the revision it follows, a channel and what is told there, if anything, and a word by which it is recognised.
const OWN: usize = 4;

fn whole(write: &str) -> String {
    format!(
        "SELECT CASE WHEN runcue.follow($1) > 0 THEN ({write}) END, \
         CASE WHEN $3 <> '' THEN pg_notify($2, $3) END WHERE $4 <> ''"
    )
}

static WHOLE_TURN: LazyLock<String> =
    LazyLock::new(|| whole(&format!("SELECT {}", call("write_turn", OWN + 1, TURN))));
static WHOLE_BOTH: LazyLock<String> = LazyLock::new(|| {
    let (jobs, turn) =
        (call("write_jobs", OWN + 1, JOBS), call("write_turn", OWN + JOBS + 1, TURN));
    whole(&format!("SELECT {turn} FROM {jobs} AS written"))
});

/// How a statement of a commit went.
enum Wrote {
    /// When, whether somebody with little to do waits, and how many with much, if that was asked.
    Done(i64, bool, Option<i64>),
    Behind,
    Known,
}

impl PostgresBackend {
    /// What a turn will be written with, before it is taken: nobody is to wait while statements are parsed.
    pub(super) fn prepare_commits(&mut self) -> Result<()> {
        if self.options.pooler() || self.texts.contains_key(KEEP_TURN) {
            return Ok(());
        }
        let (jobs, rest) = (JobPart::default(), Rest::of(&WriteSet::default()));
        let both = jobs.values().into_iter().chain(rest.values());
        let types: Vec<Type> = both.map(|(_, of)| of).collect();
        self.text(&WRITE_BOTH, &types)?;
        self.text(KEEP_BOTH, &[])?;
        self.text(HURRY, &[])?;
        self.text(KEEP_TURN, &[]).map(drop)
    }

    pub(super) fn write(&mut self, writes: &WriteSet) -> Result<Committed> {
        let parts = job_parts(writes, self.options.together);
        if !writes.in_turn {
            self.renounce_lent();
        }
        if !writes.in_turn && !self.turn.held && !self.options.pooler() && parts.len() < 2 {
            return self.write_whole(writes, parts.first());
        }
        let follows = signed(writes.follows);
        let told = writes.tells.as_ref().and(writes.message()).filter(|told| !told.contains(TOLD));
        let mut rest = Rest::of(writes);
        rest.news &= told.is_none();
        let of = |values: Vec<Value<'_>>| -> Vec<Type> {
            values.into_iter().map(|(_, of)| of).collect()
        };
        let follow = self.text(FOLLOW, &[Type::INT8])?;
        let (most, last) = match &parts[..] {
            [most @ .., last] => (most, Some(last)),
            [] => (&[][..], None),
        };
        let jobs = match most {
            [] => None,
            _ => Some(self.text(&WRITE_JOBS, &of(JobPart::default().values()))?),
        };
        let mut values = last.map(JobPart::values).unwrap_or_default();
        values.extend(rest.values());
        let turn = if last.is_some() { &WRITE_BOTH } else { &WRITE_TURN };
        let turn = self.text(turn, &of(values.clone()))?;
        let rows = writes.jobs.len() + writes.events.len();
        let turn_held = self.turn;
        let in_turn = turn_held.held;
        if writes.in_turn && !in_turn {
            self.renounce_lent();
            return Ok(Committed::Behind);
        }
        // Behind a pooler the next transaction may run on another connection.
        let keep = writes.keeps_turn && in_turn && !self.options.pooler();
        let after = match (keep, writes.lends_turn && turn_held.gate_lasting) {
            (true, _) => After::Kept,
            (false, true) => After::Lent,
            (false, false) => After::Ends,
        };
        let (end, next) = turn_held.commit(after);
        let hold = turn_held.keep().filter(|_| keep).map(|sql| self.text(sql, &[])).transpose()?;
        let hurry = keep.then(|| self.text(HURRY, &[])).transpose()?;
        self.turn = Turn::default();
        let (begin, end) = (self.begin.clone(), self.options.sql(&end));
        let channel = self.options.channel().replace('"', "\"\"");
        let notify = told.map(|told| format!("NOTIFY \"{channel}\", {TOLD}{told}{TOLD}"));
        let wrote = self.run(rows, async |client| {
            let mut flight = Flight::new(client);
            // In a turn nobody else has written; outside of one that is to be seen before much is sent.
            if !in_turn {
                flight.plain(&begin);
                flight.ask(&follow, vec![(&follows, Type::INT8)]);
            }
            if let Some(jobs) = &jobs {
                most.iter().for_each(|part| flight.ask(jobs, part.values()));
            }
            flight.ask(&turn, values);
            for asked in hold.iter().chain(&hurry) {
                flight.ask(asked, vec![]);
            }
            // Apart from the end, which also ends a transaction that has failed.
            if let Some(notify) = &notify {
                flight.plain(notify);
            }
            flight.plain(&end);
            match flight.land().await {
                Ok(mut landed) => {
                    let before = if in_turn { 0 } else { 2 } + most.len();
                    (0..before).for_each(|_| landed.skip());
                    let now = landed.next().first().map(|row| row.get(0));
                    let held = hold.iter().flat_map(|_| landed.next()).next();
                    let line: Option<i64> = held.and_then(|row| row.get(0));
                    let waits =
                        hurry.is_some() && landed.next().first().is_some_and(|row| row.get(0));
                    Ok(Wrote::Done(now.unwrap_or(0), waits, line))
                }
                Err(error) if is_behind(&error) => Ok(Wrote::Behind),
                Err(error) if is_known_id(&error) => Ok(Wrote::Known),
                Err(error) => Err(error),
            }
        });
        if let Ok(Wrote::Done(..)) = wrote {
            self.turn = next;
        } else if self.client.is_some() && (turn_held.gate_lasting || turn_held.lasting || keep) {
            // The next transaction may have begun, and the turn would outlast it.
            self.turn = Turn { held: true, lasting: true, gated: true, gate_lasting: true };
            self.abandon();
        }
        Ok(match wrote? {
            Wrote::Done(now, hurry, line) => {
                let line = line.and_then(|line| usize::try_from(line).ok());
                Committed::Done { now: Timestamp::from_micros(now), kept: keep, hurry, line }
            }
            Wrote::Behind => Committed::Behind,
            Wrote::Known => Committed::Known(self.known(writes)?),
        })
    }

    /// Writes without a turn, in one message.
    fn write_whole(&mut self, writes: &WriteSet, jobs: Option<&JobPart>) -> Result<Committed> {
        let follows = signed(writes.follows);
        let told = writes.tells.as_ref().and(writes.message()).unwrap_or_default();
        let mut rest = Rest::of(writes);
        rest.news &= told.is_empty();
        let (channel, word) = (self.options.channel(), "write_turn");
        let own: [Value<'_>; OWN] = [
            (&follows, Type::INT8),
            (&channel, Type::TEXT),
            (&told, Type::TEXT),
            (&word, Type::TEXT),
        ];
        let mut values = own.to_vec();
        values.extend(jobs.map(JobPart::values).unwrap_or_default());
        values.extend(rest.values());
        let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
        let text = self.text(if jobs.is_some() { &WHOLE_BOTH } else { &WHOLE_TURN }, &types)?;
        let rows = writes.jobs.len() + writes.events.len();
        let wrote = self.run(rows, async |client| match text.query(client, &values).await {
            Ok(rows) => {
                Ok(Wrote::Done(rows.first().and_then(|row| row.get(0)).unwrap_or(0), false, None))
            }
            Err(error) if is_behind(&error) => Ok(Wrote::Behind),
            Err(error) if is_known_id(&error) => Ok(Wrote::Known),
            Err(error) => Err(error),
        });
        Ok(match wrote? {
            Wrote::Done(now, hurry, _) => {
                Committed::Done { now: Timestamp::from_micros(now), kept: false, hurry, line: None }
            }
            Wrote::Behind => Committed::Behind,
            Wrote::Known => Committed::Known(self.known(writes)?),
        })
    }

    /// Which of the jobs to be inserted are there.
    fn known(&mut self, writes: &WriteSet) -> Result<Vec<JobId>> {
        let ids: Vec<Uuid> = writes
            .jobs
            .values()
            .filter_map(|write| match write {
                JobWrite::Insert(job) => Some(id_of(job.id())),
                _ => None,
            })
            .collect();
        let sql = "SELECT id FROM runcue.job WHERE id = ANY ($1)";
        let rows = self.query(sql, &[(&ids, Type::UUID_ARRAY)])?;
        if rows.is_empty() {
            let why = "jobs were there and are not".to_owned();
            return Err(StoreError::Unavailable(why));
        }
        Ok(rows.iter().map(|row| JobId::from_u128(row.get::<_, Uuid>(0).as_u128())).collect())
    }
}

/// Everything else of a turn.
#[derive(Default)]
struct Rest {
    follows: i64,
    commit: Uuid,
    numbers: Vec<Option<i64>>,
    last_served_group: Option<String>,
    touched: (Vec<i64>, Vec<Option<i64>>, Vec<Option<i64>>),
    changed: Vec<i64>,
    board: (Vec<i16>, Vec<String>, Vec<String>),
    dropped_keys: Vec<i64>,
    dropped_lanes: Vec<i64>,
    dropped_groups: Vec<String>,
    keys: (Vec<Vec<u8>>, Vec<i64>),
    ties: (Vec<i64>, Vec<i64>),
    held: (Vec<i64>, Vec<i32>),
    lanes: LaneColumns,
    usage: (Vec<i64>, Vec<i32>, Vec<String>),
    prune_usage: Option<i64>,
    events: EventColumns,
    prune_events: (Option<i64>, Option<i64>),
    logs: LogColumns,
    tasks: (Vec<String>, Vec<String>),
    workers: (Vec<Uuid>, Vec<String>, Vec<i64>),
    dropped_workers: Vec<Uuid>,
    seen_workers: (Vec<Uuid>, Vec<i64>),
    admitted: Vec<i64>,
    refused: (Vec<i64>, Vec<String>),
    news: bool,
}

#[derive(Default)]
struct LaneColumns {
    lane: Vec<i64>,
    key: Vec<String>,
    queue: Vec<String>,
    grp: Vec<String>,
    task: Vec<String>,
}

#[derive(Default)]
struct EventColumns {
    last: Vec<i64>,
    first: Vec<i64>,
    at: Vec<i64>,
    shared: Vec<String>,
    body: Vec<String>,
}

#[derive(Default)]
struct LogColumns {
    n: Vec<i64>,
    seq: Vec<i64>,
    attempt: Vec<i32>,
    token: Vec<i64>,
    stream: Vec<String>,
    at: Vec<i64>,
    text: Vec<String>,
}

impl Rest {
    fn of(writes: &WriteSet) -> Self {
        let worker = |id: &runcue_core::WorkerId| Uuid::from_u128(id.as_u128());
        let mut rest = Self {
            follows: signed(writes.follows),
            commit: Uuid::from_u128(writes.id.map_or(0, |id| id.0)),
            dropped_keys: writes.dropped_keys.iter().map(|seq| signed(seq.0)).collect(),
            dropped_lanes: writes.dropped_lanes.keys().map(|lane| signed(lane.0)).collect(),
            dropped_groups: writes
                .dropped_groups
                .iter()
                .map(|name| name.as_ref().map(GroupName::to_string).unwrap_or_default())
                .collect(),
            ties: writes.ties.iter().map(|(p, d)| (signed(p.0), signed(d.0))).unzip(),
            held: writes.held.iter().map(|(lane, jobs)| (signed(lane.0), small(*jobs))).unzip(),
            prune_usage: writes.prune_usage.map(Timestamp::as_micros),
            prune_events: writes
                .prune_events
                .map(|what| (what.before.as_micros(), signed(what.through)))
                .unzip(),
            tasks: definitions(writes),
            dropped_workers: writes.dropped_workers.iter().map(worker).collect(),
            seen_workers: writes
                .seen_workers
                .iter()
                .map(|(id, at)| (worker(id), at.as_micros()))
                .unzip(),
            admitted: writes.admitted.iter().copied().map(signed).collect(),
            refused: writes.refused.iter().map(|(n, why)| (signed(*n), clean(why))).unzip(),
            changed: writes
                .changed()
                .into_iter()
                .flat_map(|(from, to)| [signed(from.0), signed(to.0)])
                .collect(),
            news: writes.news,
            ..Self::default()
        };
        for (id, (spec, at)) in &writes.workers {
            rest.workers.0.push(worker(id));
            rest.workers.1.push(text(spec));
            rest.workers.2.push(at.as_micros());
        }
        rest.add_numbers(writes);
        rest.add_board(writes);
        rest.add_lanes(writes);
        rest.add_keys(writes);
        rest.add_usage(writes);
        rest.add_events(&writes.events);
        rest.add_logs(writes);
        rest
    }

    fn add_numbers(&mut self, writes: &WriteSet) {
        let (numbers, counters) = (&writes.numbers, &writes.numbers.counters);
        let earliest = |list| numbers.earliest.get(list).map(Timestamp::as_micros);
        self.numbers = vec![
            Some(signed(counters.seq.0)),
            Some(signed(counters.served.0)),
            Some(signed(counters.event)),
            Some(signed(counters.delayed)),
            Some(signed(counters.blocked)),
            Some(signed(numbers.lane)),
            Some(signed(numbers.log)),
            earliest(Timed::Delayed),
            earliest(Timed::Lapsing),
            earliest(Timed::Deadline),
        ];
        self.last_served_group = counters.last_served_group.as_ref().map(GroupName::to_string);
    }

    fn add_board(&mut self, writes: &WriteSet) {
        let mut put = |kind, name: &str, body| {
            self.board.0.push(kind);
            self.board.1.push(name.to_owned());
            self.board.2.push(body);
        };
        for (name, group) in &writes.groups {
            put(GROUP, name.as_ref().map_or("", GroupName::as_str), text(group));
        }
        for (name, queue) in &writes.queues {
            put(QUEUE, name.as_str(), text(queue));
        }
        for (name, row) in &writes.services {
            let (spec, breaker) = (row.spec.clone(), row.breaker);
            let body = text(&ServiceBody { spec, breaker, held_until: row.held_until });
            put(SERVICE, name.as_str(), body);
        }
        for (name, schedule) in &writes.schedules {
            put(SCHEDULE, name.as_str(), schedule.as_ref().map(text).unwrap_or_default());
        }
        if !writes.dropped_lanes.is_empty() || !writes.dropped_groups.is_empty() {
            put(DROPPED, "", String::new());
        }
        if let Some(held) = &writes.all_held {
            let held: Vec<(u64, u32)> = held.iter().map(|(lane, jobs)| (lane.0, *jobs)).collect();
            put(HELD, "", text(&held));
        }
    }

    fn add_lanes(&mut self, writes: &WriteSet) {
        for (lane, from) in &writes.touched {
            self.touched.0.push(signed(lane.0));
            self.touched.1.push(from.map(|from| rank_of(from.priority)));
            self.touched.2.push(from.map(|from| signed(from.seq.0)));
        }
        for (lane, (key, canonical)) in &writes.lanes {
            self.lanes.lane.push(signed(lane.0));
            self.lanes.key.push(canonical.clone());
            self.lanes.queue.push(key.queue.to_string());
            self.lanes.grp.push(key.group.as_ref().map(GroupName::to_string).unwrap_or_default());
            self.lanes.task.push(key.task.to_string());
        }
    }

    /// A key that was given up again in the same turn is nobody's.
    fn add_keys(&mut self, writes: &WriteSet) {
        for (seq, write) in &writes.jobs {
            if let JobWrite::Insert(job) = write
                && let Some(key) = &job.spec.idempotency_key
                && !writes.dropped_keys.contains(seq)
            {
                self.keys.0.push(key.as_bytes().to_vec());
                self.keys.1.push(signed(seq.0));
            }
        }
    }

    fn add_usage(&mut self, writes: &WriteSet) {
        type Used<'a> = (&'a str, Option<&'a str>, i64);
        let mut runs: std::collections::BTreeMap<Timestamp, Vec<Used<'_>>> = Default::default();
        for row in &writes.usage {
            let key = row.key.as_ref().map(Key::as_str);
            runs.entry(row.at).or_default().push((row.service.as_str(), key, row.units));
        }
        for (at, run) in runs {
            self.usage.0.push(at.as_micros());
            self.usage.1.push(i32::try_from(run.len()).unwrap_or(i32::MAX));
            self.usage.2.push(text(&run));
        }
    }

    fn add_events(&mut self, events: &[Event]) {
        for run in runs_of_a_kind(events, EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let EventRun { shared, each } = EventRun::write(run, last.at);
            self.events.last.push(signed(last.seq));
            self.events.first.push(signed(first.seq));
            self.events.at.push(last.at.as_micros());
            self.events.shared.push(shared);
            self.events.body.push(each);
        }
    }

    fn add_logs(&mut self, writes: &WriteSet) {
        for (seq, chunk) in &writes.logs {
            let logs = &mut self.logs;
            logs.n.push(signed(chunk.n));
            logs.seq.push(signed(seq.0));
            logs.attempt.push(small(chunk.attempt));
            logs.token.push(signed(chunk.token.0));
            logs.stream.push(text(&chunk.stream));
            logs.at.push(chunk.at.as_micros());
            logs.text.push(clean(&chunk.text));
        }
    }

    fn values(&self) -> Vec<Value<'_>> {
        vec![
            (&self.follows, Type::INT8),
            (&self.commit, Type::UUID),
            (&self.numbers, Type::INT8_ARRAY),
            (&self.last_served_group, Type::TEXT),
            column(&self.touched.0, Type::INT8_ARRAY),
            column(&self.touched.1, Type::INT8_ARRAY),
            column(&self.touched.2, Type::INT8_ARRAY),
            column(&self.changed, Type::INT8_ARRAY),
            column(&self.board.0, Type::INT2_ARRAY),
            column(&self.board.1, Type::TEXT_ARRAY),
            column(&self.board.2, Type::TEXT_ARRAY),
            column(&self.dropped_keys, Type::INT8_ARRAY),
            column(&self.dropped_lanes, Type::INT8_ARRAY),
            column(&self.dropped_groups, Type::TEXT_ARRAY),
            column(&self.keys.0, Type::BYTEA_ARRAY),
            column(&self.keys.1, Type::INT8_ARRAY),
            column(&self.ties.0, Type::INT8_ARRAY),
            column(&self.ties.1, Type::INT8_ARRAY),
            column(&self.held.0, Type::INT8_ARRAY),
            column(&self.held.1, Type::INT4_ARRAY),
            column(&self.lanes.lane, Type::INT8_ARRAY),
            column(&self.lanes.key, Type::TEXT_ARRAY),
            column(&self.lanes.queue, Type::TEXT_ARRAY),
            column(&self.lanes.grp, Type::TEXT_ARRAY),
            column(&self.lanes.task, Type::TEXT_ARRAY),
            column(&self.usage.0, Type::INT8_ARRAY),
            column(&self.usage.1, Type::INT4_ARRAY),
            column(&self.usage.2, Type::TEXT_ARRAY),
            (&self.prune_usage, Type::INT8),
            column(&self.events.last, Type::INT8_ARRAY),
            column(&self.events.first, Type::INT8_ARRAY),
            column(&self.events.at, Type::INT8_ARRAY),
            column(&self.events.shared, Type::TEXT_ARRAY),
            column(&self.events.body, Type::TEXT_ARRAY),
            (&self.prune_events.0, Type::INT8),
            (&self.prune_events.1, Type::INT8),
            column(&self.logs.n, Type::INT8_ARRAY),
            column(&self.logs.seq, Type::INT8_ARRAY),
            column(&self.logs.attempt, Type::INT4_ARRAY),
            column(&self.logs.token, Type::INT8_ARRAY),
            column(&self.logs.stream, Type::TEXT_ARRAY),
            column(&self.logs.at, Type::INT8_ARRAY),
            column(&self.logs.text, Type::TEXT_ARRAY),
            column(&self.tasks.0, Type::TEXT_ARRAY),
            column(&self.tasks.1, Type::TEXT_ARRAY),
            column(&self.workers.0, Type::UUID_ARRAY),
            column(&self.workers.1, Type::TEXT_ARRAY),
            column(&self.workers.2, Type::INT8_ARRAY),
            column(&self.dropped_workers, Type::UUID_ARRAY),
            column(&self.seen_workers.0, Type::UUID_ARRAY),
            column(&self.seen_workers.1, Type::INT8_ARRAY),
            column(&self.admitted, Type::INT8_ARRAY),
            column(&self.refused.0, Type::INT8_ARRAY),
            column(&self.refused.1, Type::TEXT_ARRAY),
            (&self.news, Type::BOOL),
        ]
    }
}

/// Text that PostgreSQL takes: it has no place for a zero byte.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

/// What the names of records begin with in the table of definitions; no task's name holds such a character.
pub(crate) const RECORD: &str = "\u{1}";

/// Task definitions and records of fronts, as names and JSON. A record that goes is `null` from then on.
fn definitions(writes: &WriteSet) -> (Vec<String>, Vec<String>) {
    let tasks = writes.tasks.iter().map(|(name, task)| (name.to_string(), text(task)));
    let records = writes.records.iter().map(|(key, value)| {
        let body = value.as_ref().map_or("null", |value| value.as_str());
        (format!("{RECORD}{key}"), body.to_owned())
    });
    tasks.chain(records).unzip()
}
