//! The connections that read: questions for people, which never wait for a turn.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use runcue_core::{Event, Job, JobId, Json, Seq, TaskSpec, Timestamp};
use runcue_store::overlay::{News, Questions, Reader};
use runcue_store::{
    ListRequest, LogChunk, Page, Particulars, Record, Result, StoreError, WorkerInfo,
};

use crate::backend::worker_id;
use crate::connection::{Link, Options};
use crate::find::{self, Lanes, Walk, held_per_worker, means, rows_of};
use crate::keys::{self, place};
use crate::persistence::Persistence;
use crate::value::{entry, field, item, items, number, parse, some, text};
use crate::watcher::{Ears, Watcher};
use crate::{questions, rows};

/// Connections at the most.
const SIZE: usize = 4;
/// Runs of events in one question.
const RUNS: &[u8] = b"100";

/// A few reading connections, opened when first needed.
struct Pool {
    options: Options,
    free: Mutex<(Vec<Link>, usize)>,
    returned: Condvar,
}

impl Pool {
    /// Asks a question on a free connection. One that was closed while it was idle is replaced once.
    fn ask<R>(&self, question: impl Fn(&mut Link) -> Result<R>) -> Result<R> {
        let (mut link, idle) = self.take()?;
        let mut answer = question(&mut link);
        if idle && matches!(answer, Err(StoreError::Unavailable(_))) {
            link = match self.options.connect() {
                Ok(link) => link,
                Err(error) => {
                    self.give_up();
                    return Err(error);
                }
            };
            answer = question(&mut link);
        }
        if matches!(answer, Err(StoreError::Unavailable(_))) {
            self.give_up();
        } else {
            self.lock().0.push(link);
            self.returned.notify_one();
        }
        answer
    }

    /// A connection, and whether it was opened before.
    fn take(&self) -> Result<(Link, bool)> {
        let mut free = self.lock();
        loop {
            if let Some(link) = free.0.pop() {
                return Ok((link, true));
            }
            if free.1 < SIZE {
                free.1 += 1;
                drop(free);
                let link = self.options.connect().inspect_err(|_| self.give_up())?;
                return Ok((link, false));
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_up(&self) {
        self.lock().1 -= 1;
        self.returned.notify_one();
    }

    fn close(&self) {
        let mut free = self.lock();
        let closed = free.0.drain(..).count();
        free.1 -= closed;
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Link>, usize)> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers questions beside the turns.
pub struct RedisReader {
    pool: Arc<Pool>,
    watcher: Arc<Watcher>,
    persistence: Persistence,
}

impl RedisReader {
    /// Opens nothing yet.
    pub fn new(options: Options, persistence: Persistence, ears: Arc<Ears>) -> Self {
        let watcher = Arc::new(Watcher::new(options.clone(), ears));
        let pool = Pool { options, free: Mutex::new((Vec::new(), 0)), returned: Condvar::new() };
        Self { pool: Arc::new(pool), watcher, persistence }
    }

    /// Asks off the async threads: a long listing must not hold up others.
    async fn ask<R: Send + 'static>(
        &self,
        question: impl Fn(&mut Link) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let pool = self.pool.clone();
        let asked = tokio::task::spawn_blocking(move || pool.ask(question)).await;
        asked.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

#[async_trait]
impl Reader for RedisReader {
    async fn get(&self, ids: Vec<JobId>) -> Result<Vec<Option<Job>>> {
        self.ask(move |link| {
            let asked = Questions { ids: ids.clone(), ..Questions::default() };
            let jobs = questions::ask(link, &asked)?.jobs;
            let find = |id: &JobId| jobs.iter().find(|job| job.id() == *id).cloned();
            if ids.len() < 8 {
                return Ok(ids.iter().map(find).collect());
            }
            let by_id: std::collections::HashMap<JobId, &Job> =
                jobs.iter().map(|job| (job.id(), job)).collect();
            Ok(ids.iter().map(|id| by_id.get(id).copied().cloned()).collect())
        })
        .await
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Job>> {
        self.ask(move |link| list(link, &request)).await
    }

    async fn records(&self, kind: &str) -> Result<Vec<Record>> {
        let first = Record::keys_of(kind);
        self.ask(move |link| {
            let mut found = rows_of(link, "record")?;
            found.sort();
            let read = |(key, row): (Vec<u8>, Vec<u8>)| {
                let value = Json::trusted(String::from_utf8_lossy(&row).into_owned());
                Record::of(&String::from_utf8_lossy(&key), value)
            };
            let of_kind = found.into_iter().filter(|(key, _)| key.starts_with(first.as_bytes()));
            Ok(of_kind.filter_map(read).collect())
        })
        .await
    }

    async fn tasks(&self) -> Result<Vec<TaskSpec>> {
        self.ask(|link| {
            let mut found = rows_of(link, "task")?;
            found.sort();
            let read = |(_, row): (Vec<u8>, Vec<u8>)| {
                rows::parsed("task", &row).map_err(|why| link.unreadable(why))
            };
            found.into_iter().map(read).collect()
        })
        .await
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>> {
        self.ask(workers).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>> {
        self.ask(move |link| events(link, after, limit)).await
    }

    async fn last_event(&self) -> Result<u64> {
        self.ask(|link| {
            let stored = link.command("HGET", "meta", &[b"numbers"])?;
            let numbers = rows::read_numbers(text(&stored)).map_err(|why| link.unreadable(why))?;
            Ok(numbers.counters.event)
        })
        .await
    }

    async fn logs(&self, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
        self.ask(move |link| logs(link, id, after)).await
    }

    async fn relatives(&self, id: JobId) -> Result<Option<(Vec<JobId>, Vec<JobId>)>> {
        self.ask(move |link| relatives(link, id)).await
    }

    async fn particulars(&self) -> Result<Particulars> {
        self.ask(|link| {
            let info = link.plain(&[b"INFO", b"server"])?;
            let info = String::from_utf8_lossy(text(&info).unwrap_or_default()).into_owned();
            let version = field(&info, "redis_version");
            let schema = link.command("HGET", "meta", &[b"schema"])?;
            let time = link.plain(&[b"TIME"])?;
            let (seconds, micros): (i64, i64) = (number(item(&time, 0)), number(item(&time, 1)));
            Ok(Particulars {
                server: version.map(|version| format!("Redis {version}")),
                schema: parse(&schema),
                now: Some(Timestamp::from_micros(seconds * 1_000_000 + micros)),
            })
        })
        .await
    }

    fn listen(&self, news: &News) {
        self.watcher.ensure(news);
    }

    fn durability(&self) -> &'static str {
        self.persistence.durability()
    }

    async fn close(&self) {
        let (pool, watcher) = (self.pool.clone(), self.watcher.clone());
        let closed = tokio::task::spawn_blocking(move || {
            watcher.stop();
            pool.close();
        });
        let _ = closed.await;
    }
}

/// The place of a job.
fn seq_of(link: &mut Link, id: JobId) -> Result<Option<Seq>> {
    let reply = link.command("HGET", "id", &[&id.as_u128().to_be_bytes()])?;
    Ok(text(&reply).and_then(keys::seq))
}

fn list(link: &mut Link, request: &ListRequest) -> Result<Page<Job>> {
    let filter = &request.filter;
    // Not kept for the next listing: by then the numbers may be those of a queue that was begun anew.
    let lanes = &mut Lanes::new();
    let mut wanted: Vec<Seq> = Vec::new();
    if filter.ids.is_empty() {
        let mut walk = Walk::back(link, &filter.states, request.before)?;
        while wanted.len() <= request.limit {
            let Some(places) = walk.next(link)? else { break };
            let seen = find::glances(link, &places)?;
            find::learn_lanes(link, lanes, seen.iter().map(|(_, glance)| glance.lane))?;
            let chosen = seen.iter().filter(|(_, glance)| means(filter, glance, lanes));
            wanted.extend(chosen.map(|(seq, _)| *seq));
        }
        wanted.truncate(request.limit.saturating_add(1));
    }
    let asked = Questions {
        ids: filter.ids.iter().copied().collect(),
        seqs: wanted,
        ..Questions::default()
    };
    let mut found = questions::ask(link, &asked)?.jobs;
    found.retain(|job| filter.matches(job) && request.before.is_none_or(|before| job.seq < before));
    found.sort_by_key(|job| std::cmp::Reverse(job.seq));
    found.dedup_by_key(|job| job.seq);
    let more = found.len() > request.limit;
    found.truncate(request.limit);
    let next = found.last().map(|job| job.seq).filter(|_| more);
    Ok(Page { rows: found, next })
}

fn workers(link: &mut Link) -> Result<Vec<WorkerInfo>> {
    let held = held_per_worker(link)?;
    let instants =
        |rows: Vec<(Vec<u8>, Vec<u8>)>| -> std::collections::HashMap<Vec<u8>, Timestamp> {
            rows.into_iter().filter_map(|(name, at)| Some((name, keys::instant(&at)?))).collect()
        };
    let (started, seen) = (instants(rows_of(link, "started")?), instants(rows_of(link, "seen")?));
    let mut found = Vec::new();
    for (name, row) in rows_of(link, "worker")? {
        let id = worker_id(&name);
        found.push(WorkerInfo {
            spec: rows::parsed("worker", &row).map_err(|why| link.unreadable(why))?,
            started_at: started.get(&name).copied().unwrap_or_default(),
            seen_at: seen.get(&name).copied().unwrap_or_default(),
            held: id.and_then(|id| held.get(&id).copied()).unwrap_or(0),
        });
    }
    found.sort_by_key(|worker| worker.spec.id);
    Ok(found)
}

fn events(link: &mut Link, after: u64, limit: usize) -> Result<Vec<Event>> {
    let mut found: Vec<Event> = Vec::new();
    let mut begin = format!("({after}").into_bytes();
    while found.len() < limit {
        let reply = link.command("XRANGE", "event", &[&begin, b"+", b"COUNT", RUNS])?;
        if items(&reply).is_empty() {
            break;
        }
        for value in items(&reply) {
            let Some((last, id, values)) = entry(value) else { continue };
            begin = [b"(", id].concat();
            let first = values.first().map_or(last, |first| number(first));
            let at = Timestamp::from_micros(values.get(1).and_then(|at| parse(at)).unwrap_or(0));
            let body = values.get(2).copied().unwrap_or(&redis::Value::Nil);
            let shared = values.get(3).and_then(|shared| text(shared));
            let run = some("events", body).and_then(|body| rows::events(first, at, body, shared));
            let run = run.map_err(|why| link.unreadable(why))?;
            found.extend(run.into_iter().filter(|event| event.seq > after));
            if found.len() >= limit {
                break;
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn logs(link: &mut Link, id: JobId, after: u64) -> Result<Vec<LogChunk>> {
    let Some(seq) = seq_of(link, id)? else { return Ok(Vec::new()) };
    let begin = format!("({after}");
    let reply =
        link.command("XRANGE", &format!("log:{}", place(seq)), &[begin.as_bytes(), b"+"])?;
    let mut found = Vec::new();
    for value in items(&reply) {
        let Some((_, _, values)) = entry(value) else { continue };
        let row = values.get(1).copied().unwrap_or(&redis::Value::Nil);
        let chunk = some("log", row).and_then(|row| rows::parsed("log", row));
        found.push(chunk.map_err(|why| link.unreadable(why))?);
    }
    Ok(found)
}

fn relatives(link: &mut Link, id: JobId) -> Result<Option<(Vec<JobId>, Vec<JobId>)>> {
    let Some(seq) = seq_of(link, id)? else { return Ok(None) };
    let asked =
        Questions { dependents: vec![seq], prerequisites: vec![seq], ..Questions::default() };
    let mut answers = questions::ask(link, &asked)?;
    answers.jobs.sort_by_key(|job| job.seq);
    let named = |others: Vec<Seq>| {
        let jobs = answers.jobs.iter().filter(|job| others.contains(&job.seq));
        jobs.map(Job::id).collect::<Vec<JobId>>()
    };
    let before =
        answers.ties.iter().filter(|(_, behind)| *behind == seq).map(|(before, _)| *before);
    let behind =
        answers.ties.iter().filter(|(before, _)| *before == seq).map(|(_, behind)| *behind);
    Ok(Some((named(before.collect()), named(behind.collect()))))
}
