//! Queries for people, on a snapshot: they never wait for the writer.

use std::collections::HashMap;

use runcue_core::{
    Event, Job, JobFilter, JobId, Json, Seq, StateWord, TaskSpec, Timestamp, WorkerId,
};
use runcue_store::{
    ListRequest, LogChunk, LogStream, Page, Record, ScheduleInfo, WorkerInfo, WorkerSpec,
};
use serde::{Deserialize, Serialize};

use crate::failure::unreadable;
use crate::keys;
use crate::rows::{self, HELD, Row, kind, parsed};
use crate::view::{Table, View};

/// Jobs by id, in the order asked.
pub fn get(view: View<'_>, ids: &[JobId]) -> heed::Result<Vec<Option<Job>>> {
    let one = |id: &JobId| match rows::seq_of(view, *id)? {
        Some(seq) => rows::job(view, seq),
        None => Ok(None),
    };
    ids.iter().map(one).collect()
}

/// A page of jobs, newest first.
pub fn list(view: View<'_>, request: &ListRequest) -> heed::Result<Page<Job>> {
    let before = request.before.unwrap_or(Seq(u64::MAX));
    let filter = &request.filter;
    let mut rows = Vec::new();
    // States that few jobs are in are found by their own index, all others by walking back from the newest.
    let rare = |state: &StateWord| !matches!(state, StateWord::Queued | StateWord::Completed);
    if !filter.states.is_empty() && filter.states.iter().all(rare) {
        let mut seqs = by_kind(view, filter)?;
        seqs.retain(|seq| *seq < before);
        seqs.sort_by(|a, b| b.cmp(a));
        for seq in seqs {
            rows.extend(rows::job(view, seq)?.filter(|job| filter.matches(job)));
            if rows.len() > request.limit {
                break;
            }
        }
    } else {
        for entry in view.before(Table::Job, &keys::number(before.0))? {
            let (key, bytes) = entry?;
            rows.extend(wanted(view, key, bytes, filter)?);
            if rows.len() > request.limit {
                break;
            }
        }
    }
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().map(|job: &Job| job.seq).filter(|_| more);
    Ok(Page { rows, next })
}

/// Jobs in states that few are in.
fn by_kind(view: View<'_>, filter: &JobFilter) -> heed::Result<Vec<Seq>> {
    let held = |word: StateWord| matches!(word, StateWord::Leased | StateWord::Running);
    let mut kinds: Vec<u8> =
        filter.states.iter().map(|word| if held(*word) { HELD } else { kind(*word) }).collect();
    kinds.dedup();
    let mut seqs = Vec::new();
    for kind in kinds {
        for entry in view.prefix(Table::Due, &[kind])? {
            seqs.extend(keys::number_at(entry?.0, 9).map(Seq));
        }
    }
    Ok(seqs)
}

/// A job of the table, if it is meant by a filter.
pub fn wanted(
    view: View<'_>,
    key: &[u8],
    bytes: &[u8],
    filter: &JobFilter,
) -> heed::Result<Option<Job>> {
    let row = Row::from_bytes(bytes)?;
    if !filter.states.is_empty() && !filter.states.contains(&row.word()?) {
        return Ok(None);
    }
    let seq = keys::number_at(key, 0).ok_or_else(|| unreadable("job", "its key is cut off"))?;
    let job = rows::whole(view, Seq(seq), &row)?;
    Ok(Some(job).filter(|job| filter.matches(job)))
}

/// Every record of a kind, by name.
pub fn records(view: View<'_>, kind: &str) -> heed::Result<Vec<Record>> {
    let mut found = Vec::new();
    for entry in view.prefix(Table::Record, Record::keys_of(kind).as_bytes())? {
        let (key, value) = entry?;
        let value = Json::trusted(String::from_utf8_lossy(value).into_owned());
        found.extend(Record::of(&String::from_utf8_lossy(key), value));
    }
    Ok(found)
}

/// Every task definition.
pub fn tasks(view: View<'_>) -> heed::Result<Vec<TaskSpec>> {
    view.all(Table::Task)?.map(|entry| parsed("task", entry?.1)).collect()
}

/// Every schedule.
pub fn schedules(view: View<'_>) -> heed::Result<Vec<ScheduleInfo>> {
    view.all(Table::Schedule)?.map(|entry| parsed("schedule", entry?.1)).collect()
}

/// A worker instance as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct KnownWorker {
    /// What it said of itself.
    pub spec: WorkerSpec,
    /// When it was first seen.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
}

/// Every worker instance.
pub fn workers(view: View<'_>) -> heed::Result<Vec<WorkerInfo>> {
    let mut held: HashMap<WorkerId, u64> = HashMap::new();
    for entry in view.prefix(Table::Due, &[HELD])? {
        let (_, worker) = holder(entry?.1)?;
        *held.entry(worker).or_default() += 1;
    }
    let info = |entry: heed::Result<(&[u8], &[u8])>| {
        let known: KnownWorker = parsed("worker", entry?.1)?;
        let held = held.get(&known.spec.id).copied().unwrap_or(0);
        let KnownWorker { spec, started_at, seen_at } = known;
        Ok(WorkerInfo { spec, started_at, seen_at, held })
    };
    view.all(Table::Worker)?.map(info).collect()
}

/// The lane and the worker of a held job, as they stand beside its instant.
pub fn holder(bytes: &[u8]) -> heed::Result<(u64, WorkerId)> {
    let lane = keys::number_at(bytes, 0);
    let worker = bytes.get(8..24).and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
    let both = lane.zip(worker).ok_or_else(|| unreadable("holder", "it is cut off"));
    both.map(|(lane, worker)| (lane, WorkerId::from_u128(worker)))
}

/// Events after a number.
pub fn events(view: View<'_>, after: u64, limit: usize) -> heed::Result<Vec<Event>> {
    let mut found: Vec<Event> = Vec::new();
    for entry in view.from(Table::Event, &keys::number(after.saturating_add(1)))? {
        if found.len() >= limit {
            break;
        }
        let (_, bytes) = entry?;
        let (first, at) = event_head(bytes)?;
        let mut run: Vec<Event> = parsed("events", &bytes[16..])?;
        for (seq, event) in (first..).zip(&mut run) {
            event.seq = seq;
            event.at = if event.at == Timestamp::ZERO { at } else { event.at };
        }
        found.extend(run.into_iter().filter(|event| event.seq > after));
    }
    found.truncate(limit);
    Ok(found)
}

/// The first number of a run of events, and its instant.
pub fn event_head(bytes: &[u8]) -> heed::Result<(u64, Timestamp)> {
    let head = keys::number_at(bytes, 0).zip(keys::instant_at(bytes, 8));
    head.ok_or_else(|| unreadable("events", "their head is cut off"))
}

/// A piece of output as it is stored: its job and its number are its key.
#[derive(Debug, Serialize, Deserialize)]
pub struct Chunk {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The claim it was written under.
    pub token: runcue_core::Token,
    /// The stream.
    pub stream: LogStream,
    /// When it was kept.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// A job's kept output after a chunk.
pub fn logs(view: View<'_>, id: JobId, after: u64) -> heed::Result<Vec<LogChunk>> {
    let Some(seq) = rows::seq_of(view, id)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in view.prefix(Table::Log, &keys::number(seq.0))? {
        let (key, bytes) = entry?;
        let n = keys::number_at(key, 8).unwrap_or(0);
        if n > after {
            let body = bytes.get(8..).unwrap_or_default();
            let Chunk { attempt, token, stream, at, text } = parsed("log", body)?;
            found.push(LogChunk { n, job: id, attempt, token, stream, at, text });
        }
    }
    Ok(found)
}

/// The ids from one to another, in their order.
pub fn ids_between(
    view: View<'_>,
    first: JobId,
    last: JobId,
    limit: usize,
) -> heed::Result<Vec<JobId>> {
    let mut found = Vec::new();
    for entry in view.from(Table::Id, &first.as_u128().to_be_bytes())?.take(limit) {
        let bits = <[u8; 16]>::try_from(entry?.0).map_err(|_| unreadable("id", "not 16 bytes"))?;
        let id = JobId::from_u128(u128::from_be_bytes(bits));
        if id > last {
            break;
        }
        found.push(id);
    }
    Ok(found)
}

/// The jobs on the other end of a job's ties.
pub fn ties(view: View<'_>, table: Table, seq: Seq) -> heed::Result<Vec<Seq>> {
    let other = |entry: heed::Result<(&[u8], &[u8])>| {
        let seq = keys::number_at(entry?.0, 8);
        seq.map(Seq).ok_or_else(|| unreadable("tie", "it is cut off"))
    };
    view.prefix(table, &keys::number(seq.0))?.map(other).collect()
}

/// Prerequisites and dependents of a job.
pub type Relatives = (Vec<JobId>, Vec<JobId>);

/// The prerequisites and dependents of a job, nothing if there is no such job.
pub fn relatives(view: View<'_>, id: JobId) -> heed::Result<Option<Relatives>> {
    let Some(seq) = rows::seq_of(view, id)? else { return Ok(None) };
    let names = |table: Table| -> heed::Result<Vec<JobId>> {
        let mut names = Vec::new();
        for seq in ties(view, table, seq)? {
            names.extend(rows::job(view, seq)?.map(|job| job.id()));
        }
        Ok(names)
    };
    Ok(Some((names(Table::Tied)?, names(Table::Tie)?)))
}
