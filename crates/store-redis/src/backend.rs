//! The server as the overlay sees it: turns, questions and commits over one connection.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use runcue_core::{Job, LaneId, Seq, Timestamp, WorkerId};
use runcue_store::overlay::{
    Answers, Backend, Changed, CommitId, Committed, Find, Haste, Numbers, OnRead, Opening,
    PrunedEvents, Questions, Rank, ReadyQuestion, Timed, WriteSet,
};
use runcue_store::tables::InboxRow;
use runcue_store::{Result, StoreError, WorkerSpec};

use crate::commit::{self, Pruned};
use crate::connection::{Batch, Link, Options};
use crate::delta::{self, Deltas};
use crate::find::{self, Lanes, rows_of};
use crate::histories::{old_events, old_usage};
use crate::keys::{self, place, score};
use crate::migrate::SCHEMA;
use crate::reading::{Coming, Reading};
use crate::rows;
use crate::script::Script;
use crate::transaction::{Done, Transaction};
use crate::value::{item, items, number, pairs, parse, some, text};
use crate::watcher::Ears;
use crate::{check, migrate, pack, questions, whole};

/// How long a turn lasts at the most. Whoever is frozen in theirs holds the others up no longer than this.
pub const TURN: &str = "2000";
/// How many revisions behind is so far that everything is read.
const BEHIND: &str = "400";
/// How long a daemon waits to be told that the turn is free before it looks: at first, and at the most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(200));
/// A turn that is not free for this long is trouble.
const PATIENCE: Duration = Duration::from_secs(20);
/// A commit larger than this is carried out in parts, so that the server is not busy with it for long.
const LARGE: usize = 512 * 1024;
/// More new jobs than this are looked for first, in a round trip more, so that they can be written by plain commands.
const MANY: usize = 100;
/// The size of a part.
const PART: usize = 128 * 1024;

/// A server that holds a queue.
#[derive(Debug)]
pub struct RedisBackend {
    options: Options,
    link: Option<Link>,
    /// Names this daemon among all.
    daemon: String,
    /// The word that stands for this connection in its turns.
    word: String,
    /// Where this handle listens itself.
    ears: Arc<Ears>,
    connections: u64,
    lanes: Lanes,
    /// Whether the server lets us make commits that are transactions.
    transacts: bool,
    /// What is to be read with the next commit, and what is on its way since the last.
    to_read: Option<Reading>,
    coming: Option<Coming>,
    /// Which start of which server it was.
    server: Option<String>,
    /// Another server, or the same one started again, may have forgotten something and counted on from there:
    /// what is known of the queue is not to be relied on.
    distrust: bool,
}

impl RedisBackend {
    /// For a daemon; not connected yet.
    pub fn new(options: Options, instance: u128) -> Self {
        Self {
            options,
            link: None,
            daemon: format!("{instance:032x}"),
            word: String::new(),
            ears: Arc::default(),
            connections: 0,
            lanes: Lanes::new(),
            transacts: false,
            to_read: None,
            coming: None,
            server: None,
            distrust: false,
        }
    }

    /// What whoever listens for this handle keeps up to date.
    pub fn ears(&self) -> Arc<Ears> {
        Arc::clone(&self.ears)
    }

    /// Uses the connection; one that has failed is not used again.
    fn on<R>(&mut self, work: impl FnOnce(&mut Self, &mut Link) -> Result<R>) -> Result<R> {
        let Some(mut link) = self.link.take() else {
            let place = &self.options.place;
            return Err(StoreError::Unavailable(format!("{place} is not connected")));
        };
        let done = work(self, &mut link);
        if !matches!(done, Err(StoreError::Unavailable(_))) {
            self.link = Some(link);
        }
        done
    }

    fn newer(&self, found: &Value) -> StoreError {
        StoreError::Newer { place: self.options.place.clone(), found: number(found), known: SCHEMA }
    }

    /// Waits for the turn. Answers the reply of the script, and the questions' answers if there were any.
    fn take_turn(
        &mut self,
        link: &mut Link,
        known: u64,
        asked: &Questions,
        haste: Haste,
    ) -> Result<(Value, Answers)> {
        let begun = Instant::now();
        let mut pause = LOOKS.0;
        let schema = SCHEMA.to_string();
        let known = known.to_string();
        let haste = match haste {
            Haste::Little => "little",
            Haste::Much => "much",
            Haste::Again => "again",
        };
        let arguments = [&*schema, &self.word, TURN, &known, BEHIND, haste].map(str::as_bytes);
        let gate = format!("gate:{}", self.word);
        let reading = self.to_read.take();
        let mut waits = false;
        loop {
            let mut batch = Batch::default();
            if waits {
                // Whoever ends a turn tells the one who is next. What follows is then done at once.
                let seconds = format!("{:.3}", pause.as_secs_f64());
                link.queue(&mut batch, "BLPOP", &gate, &[seconds.as_bytes()]);
                pause = (pause * 2).min(LOOKS.1);
            }
            link.queue_script(&mut batch, Script::Begin, &arguments);
            let queued = questions::queue(link, &mut batch, &self.word, asked);
            let places = batch.len();
            reading.iter().for_each(|reading| reading.queue(link, &mut batch));
            let replies = link.all(&batch)?;
            let places = &replies[places..];
            let replies = &replies[usize::from(waits)..];
            let reply = replies.first().cloned().unwrap_or(Value::Nil);
            match text(item(&reply, 0)) {
                Some(b"ok") => {
                    let answers = questions::read(link, &queued, &replies[1..])?;
                    if let Some(reading) = reading {
                        let reading = reading.at(number(item(&reply, 1)));
                        self.coming = reading.go_on(link, places)?;
                    }
                    return Ok((reply, answers));
                }
                Some(b"newer") => return Err(self.newer(item(&reply, 1))),
                Some(b"pending") => apply(link)?,
                _ if begun.elapsed() > PATIENCE => {
                    let place = link.place();
                    return Err(StoreError::Unavailable(format!("others keep {place} busy")));
                }
                _ => waits = true,
            }
        }
    }

    fn changed(
        &mut self,
        link: &mut Link,
        told: &Value,
        now: Timestamp,
    ) -> Result<Option<Changed>> {
        if matches!(told, Value::Nil) {
            return Ok(None);
        }
        let mut deltas = Deltas::default();
        let mut complete = text(told).is_none();
        for one in items(told) {
            let bytes = some("changes", one).map_err(|why| link.unreadable(why))?;
            complete &= deltas.add(bytes, &mut self.lanes).map_err(|why| link.unreadable(why))?;
        }
        if !complete {
            return self.everything(link, now, Duration::ZERO).map(Some);
        }
        find::learn_lanes(link, &mut self.lanes, deltas.lanes())?;
        Ok(Some(deltas.changed(&self.lanes)))
    }

    fn everything(&mut self, link: &mut Link, now: Timestamp, memory: Duration) -> Result<Changed> {
        // Numbers of lanes are those of this queue, which another one may have been here before.
        self.lanes.clear();
        whole::read(link, &mut self.lanes, now, memory)
    }

    fn write(
        &mut self,
        link: &mut Link,
        writes: &WriteSet,
        read: &mut OnRead<'_>,
    ) -> Result<Committed> {
        let reading = self.to_read.take();
        let pruned = self.look_up_pruned(link, writes)?;
        let unreadable = |link: &Link, why| link.unreadable(why);
        let changes = commit::changes(writes, &pruned).map_err(|why| unreadable(link, why))?;
        let ids = commit::new_ids(writes);
        let id = commit_id(writes.id.unwrap_or(CommitId(0)));
        let large = changes.bytes() > LARGE;
        // If the revision is still the same when it is written, so are the ids that are there.
        let many = ids.len() > MANY && self.transacts;
        if large || many {
            let known = known_ids(link, &ids)?;
            if !known.is_empty() {
                return Ok(Committed::Known(known));
            }
        }
        if large {
            self.stage(link, writes.in_turn, &id, changes.parts(PART))?;
        }
        let numbers = rows::numbers(&writes.numbers).map_err(|why| unreadable(link, why))?;
        let delta = delta::of(writes).map_err(|why| unreadable(link, why))?;
        let (news, ears) = (writes.message(), self.ears.count());
        let word = self.turn_word(writes.in_turn).to_owned();
        if self.transacts && !large {
            let lasts = writes.keeps_turn.then_some(TURN);
            let transaction = Transaction {
                daemon: &self.daemon,
                id: &id,
                follows: writes.follows,
                numbers: &numbers,
                delta: &delta,
                ids: if many { &[] } else { &ids },
                changes: &changes,
                turn: writes.in_turn.then_some((&word, lasts)),
                news: news.as_deref().map(|news| (news, ears)),
                reading: reading.as_ref(),
            };
            let coming = self.coming.take();
            return match transaction.send(link, |link| tell(link, coming, read))? {
                Done::Written { now, kept, hurry, line, read } => {
                    if let Some(reading) = reading {
                        self.coming = reading.go_on(link, &read)?;
                    }
                    let now = clock(item(&now, 0), item(&now, 1));
                    Ok(Committed::Done { now, kept, hurry, line })
                }
                Done::Refused(why) => self.refused(&why),
            };
        }
        tell(link, self.coming.take(), read)?;
        let mut packed_ids = Vec::new();
        pack::texts(&mut packed_ids, if large { &[] } else { &ids[..] });
        let body = if large { pack::Changes::default().packed() } else { changes.packed() };
        let (schema, follows) = (SCHEMA.to_string(), writes.follows.to_string());
        let flag = |on: bool| if on { "1" } else { "0" };
        let [behind, first] = ears;
        let mut batch = Batch::default();
        // The server writes first to whoever it had something for last. Its answer to this has to wait, and so those who
        // hear of the commit go before the one who made it.
        batch.add(&[b"TIME"]);
        link.queue_script(
            &mut batch,
            Script::Commit,
            &[
                schema.as_bytes(),
                follows.as_bytes(),
                word.as_bytes(),
                self.daemon.as_bytes(),
                id.as_bytes(),
                numbers.as_bytes(),
                delta.as_bytes(),
                news.as_deref().unwrap_or_default().as_bytes(),
                flag(large).as_bytes(),
                &packed_ids,
                &body,
                if writes.keeps_turn { TURN } else { "" }.as_bytes(),
                behind.as_bytes(),
                first.as_bytes(),
            ],
        );
        let written = batch.len();
        let reading = reading.filter(|_| !large);
        reading.iter().for_each(|reading| reading.queue(link, &mut batch));
        let mut replies = link.all(&batch)?;
        let places = replies.split_off(written);
        let reply = &replies[1];
        let answer = match text(item(reply, 0)) {
            Some(b"done") => {
                if large {
                    apply(link)?;
                }
                if let Some(reading) = reading {
                    self.coming = reading.go_on(link, &places)?;
                }
                let now = clock(item(&replies[0], 0), item(&replies[0], 1));
                let is_so = |place: usize| text(item(reply, place)) == Some(b"1");
                let (kept, hurry) = (is_so(1), is_so(2));
                let line = parse(item(reply, 3)).filter(|_| kept);
                return Ok(Committed::Done { now, kept, hurry, line });
            }
            _ => self.refused(reply)?,
        };
        if large {
            link.command("UNLINK", &format!("staged:{id}"), &[])?;
        }
        Ok(answer)
    }

    fn stage(&self, link: &mut Link, in_turn: bool, id: &str, parts: Vec<Vec<u8>>) -> Result<()> {
        for some in parts.chunks(4) {
            let head = [self.turn_word(in_turn).as_bytes(), TURN.as_bytes(), id.as_bytes()];
            let words: Vec<&[u8]> =
                head.into_iter().chain(some.iter().map(Vec::as_slice)).collect();
            link.script(Script::Stage, &words)?;
        }
        Ok(())
    }

    /// Why nothing was written.
    fn refused(&self, why: &Value) -> Result<Committed> {
        match text(item(why, 0)) {
            Some(b"known") => {
                Ok(Committed::Known(items(why)[1..].iter().filter_map(job_id).collect()))
            }
            Some(b"newer") => Err(self.newer(item(why, 1))),
            _ => Ok(Committed::Behind),
        }
    }

    fn turn_word(&self, in_turn: bool) -> &str {
        if in_turn { &self.word } else { "" }
    }

    /// Streams are pruned by the ids of their entries, which are looked up before.
    fn look_up_pruned(&mut self, link: &mut Link, writes: &WriteSet) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        if let Some(before) = writes.prune_usage {
            pruned.usage = old_usage(link, before)?.0;
        }
        if let Some(what) = writes.prune_events {
            pruned.events_from = old_events(link, what)?.0;
        }
        Ok(pruned)
    }
}

/// Decodes what is on its way since the last commit, and tells it.
fn tell(link: &mut Link, coming: Option<Coming>, read: &mut OnRead<'_>) -> Result<()> {
    if let Some(coming) = coming {
        read(coming.read(link)?);
    }
    Ok(())
}

/// Carries a large commit out to its end, whoever made it.
fn apply(link: &mut Link) -> Result<()> {
    loop {
        let left: u64 = number(&link.script(Script::Apply, &[])?);
        if left == 0 {
            return Ok(());
        }
    }
}

/// Of these ids, the ones that are there.
fn known_ids(link: &mut Link, ids: &[[u8; 16]]) -> Result<Vec<runcue_core::JobId>> {
    let mut batch = Batch::default();
    for chunk in ids.chunks(1000) {
        let words: Vec<&[u8]> = chunk.iter().map(|id| &id[..]).collect();
        link.queue(&mut batch, "HMGET", "id", &words);
    }
    let replies = link.all(&batch)?;
    let found = ids.iter().zip(replies.iter().flat_map(items));
    let there = found.filter(|(_, place)| text(place).is_some());
    Ok(there.map(|(id, _)| runcue_core::JobId::from_u128(u128::from_be_bytes(*id))).collect())
}

fn commit_id(id: CommitId) -> String {
    format!("{:032x}", id.0)
}

fn job_id(value: &Value) -> Option<runcue_core::JobId> {
    let bytes: [u8; 16] = text(value)?.try_into().ok()?;
    Some(runcue_core::JobId::from_u128(u128::from_be_bytes(bytes)))
}

/// The server's clock, as it tells it.
fn clock(seconds: &Value, micros: &Value) -> Timestamp {
    let (seconds, micros): (i64, i64) = (number(seconds), number(micros));
    Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

impl Backend for RedisBackend {
    fn connect(&mut self) -> Result<()> {
        self.link = None;
        (self.to_read, self.coming) = (None, None);
        let mut link = self.options.connect()?;
        let server = migrate::open(&mut link, &self.options)?;
        let another = self.server.as_ref().is_some_and(|known| *known != server);
        self.distrust |= another;
        self.server = Some(server);
        if !self.word.is_empty() {
            link.script(Script::Abandon, &[self.word.as_bytes()])?;
        }
        self.transacts = self.options.transactions && Transaction::is_allowed(&mut link)?;
        self.connections += 1;
        self.word = format!("{}.{}", self.daemon, self.connections);
        self.link = Some(link);
        Ok(())
    }

    fn begin(
        &mut self,
        known: u64,
        now: Option<Timestamp>,
        questions: &Questions,
        haste: Haste,
    ) -> Result<Opening> {
        let known = if self.distrust { 0 } else { known };
        self.on(|this, link| {
            let (reply, answers) = this.take_turn(link, known, questions, haste)?;
            let server_now = clock(item(&reply, 2), item(&reply, 3));
            let numbers: Numbers =
                rows::read_numbers(text(item(&reply, 4))).map_err(|why| link.unreadable(why))?;
            let changed = this.changed(link, item(&reply, 5), now.unwrap_or(server_now))?;
            this.distrust = false;
            Ok(Opening {
                revision: number(item(&reply, 1)),
                now: server_now,
                numbers,
                changed,
                answers,
            })
        })
    }

    fn look(&mut self) -> Result<(u64, Timestamp)> {
        self.on(|this, link| {
            let mut batch = Batch::default();
            link.queue(&mut batch, "HMGET", "meta", &[b"revision", b"pending"]);
            batch.add(&[b"TIME"]);
            let replies = link.all(&batch)?;
            let now = clock(item(&replies[1], 0), item(&replies[1], 1));
            // What is not carried out yet, and what may have been forgotten, is no revision to rely on.
            let unsettled = text(item(&replies[0], 1)).is_some() || this.distrust;
            let revision = parse(item(&replies[0], 0)).unwrap_or(1);
            Ok((if unsettled { u64::MAX } else { revision }, now))
        })
    }

    fn ask(&mut self, questions: &Questions) -> Result<Answers> {
        self.on(|_, link| questions::ask(link, questions))
    }

    fn begin_reading(&mut self, question: &ReadyQuestion, known: u64) {
        self.coming = None;
        self.to_read = Reading::of(question, known);
    }

    fn read_when_begun(&mut self, question: &ReadyQuestion) -> bool {
        self.coming = None;
        self.to_read = Reading::first(question);
        self.to_read.is_some()
    }

    fn end_reading(&mut self) -> Option<Vec<Job>> {
        self.to_read = None;
        let coming = self.coming.take()?;
        // A connection that is lost is noticed by whoever uses it next.
        self.on(|_, link| coming.read(link)).ok().flatten()
    }

    fn secret(&mut self) -> Result<Option<Vec<u8>>> {
        let fresh = format!("{:032x}", crate::store::random(&self.options)?);
        self.on(|_, link| {
            let mut found = link.command("HGET", "meta", &[b"secret"])?;
            if text(&found).is_none() {
                // A server that takes no writes has no secret, and nothing is told there.
                match link.command("HSETNX", "meta", &[b"secret", fresh.as_bytes()]) {
                    Err(away @ StoreError::Unavailable(_)) => return Err(away),
                    _ => found = link.command("HGET", "meta", &[b"secret"])?,
                }
            }
            Ok(text(&found).map(<[u8]>::to_vec))
        })
    }

    fn whole(&mut self, now: Timestamp, memory: Duration) -> Result<Changed> {
        self.on(|this, link| this.everything(link, now, memory))
    }

    fn timed(
        &mut self,
        list: Timed,
        from: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Seq)>> {
        let from = from.map_or("-inf".to_owned(), score);
        let limit = limit.to_string();
        let words: [&[u8]; 6] =
            [from.as_bytes(), b"+inf", b"WITHSCORES", b"LIMIT", b"0", limit.as_bytes()];
        self.on(|_, link| {
            let reply = link.command("ZRANGEBYSCORE", keys::timed(list), &words)?;
            let read = |(seq, at)| Some((keys::instant(text(at)?)?, keys::seq(text(seq)?)?));
            Ok(pairs(&reply).filter_map(read).collect())
        })
    }

    fn find(&mut self, what: &Find<'_>) -> Result<Vec<Seq>> {
        self.on(|this, link| find::find(link, &mut this.lanes, what))
    }

    fn ahead(&mut self, lane: LaneId, rank: Rank) -> Result<u64> {
        let key = keys::ready(lane);
        let above = format!("({}", -i64::from(rank.priority));
        self.on(|_, link| {
            let mut batch = Batch::default();
            link.queue(&mut batch, "ZRANK", &key, &[place(rank.seq).as_bytes()]);
            link.queue(&mut batch, "ZCOUNT", &key, &[b"-inf", above.as_bytes()]);
            let replies = link.all(&batch)?;
            Ok(match &replies[0] {
                Value::Nil => number(&replies[1]),
                rank => number(rank),
            })
        })
    }

    fn idle_lanes(
        &mut self,
        going: &BTreeMap<LaneId, u64>,
        limit: usize,
    ) -> Result<Vec<(LaneId, String)>> {
        self.on(|_, link| {
            let members: HashMap<Vec<u8>, Vec<u8>> =
                rows_of(link, "members")?.into_iter().collect();
            let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
            let mut idle = Vec::new();
            for (lane, canonical) in rows_of(link, "lane")? {
                let jobs = members.get(&lane).and_then(|count| number(count)).unwrap_or(0);
                let Some(lane) = number(&lane).map(LaneId) else { continue };
                if jobs == going.get(&lane).copied().unwrap_or(0) && idle.len() < limit {
                    idle.push((lane, String::from_utf8_lossy(&canonical).into_owned()));
                }
            }
            Ok(idle)
        })
    }

    fn live_workers(&mut self, since: Timestamp) -> Result<Vec<WorkerSpec>> {
        self.on(|_, link| {
            let seen: HashSet<Vec<u8>> = rows_of(link, "seen")?
                .into_iter()
                .filter(|(_, at)| keys::instant(at).is_some_and(|at| at >= since))
                .map(|(worker, _)| worker)
                .collect();
            let rows =
                rows_of(link, "worker")?.into_iter().filter(|(worker, _)| seen.contains(worker));
            let read = |(_, spec): (Vec<u8>, Vec<u8>)| {
                rows::parsed("worker", &spec).map_err(|why| link.unreadable(why))
            };
            rows.map(read).collect()
        })
    }

    fn count_usage(&mut self, before: Timestamp) -> Result<u64> {
        self.on(|_, link| Ok(old_usage(link, before)?.1))
    }

    fn count_events(&mut self, what: PrunedEvents) -> Result<u64> {
        self.on(|_, link| Ok(old_events(link, what)?.1))
    }

    fn inbox(&mut self, _after: u64, _limit: usize) -> Result<Vec<InboxRow>> {
        // There are no transactions of other programs here to put jobs down in.
        Ok(Vec::new())
    }

    fn check(&mut self) -> Result<Vec<String>> {
        self.on(|this, link| check::contradictions(link, &mut this.lanes))
    }

    fn commit_and_tell(&mut self, writes: &WriteSet, read: &mut OnRead<'_>) -> Result<Committed> {
        if self.distrust {
            return Ok(Committed::Behind);
        }
        self.on(|this, link| this.write(link, writes, read))
    }

    fn abandon(&mut self) {
        let word = self.word.clone();
        if self.link.is_some() {
            // If that fails the turn ends by itself, a little later.
            let _ = self.on(|_, link| link.script(Script::Abandon, &[word.as_bytes()]));
        }
    }

    fn settle(&mut self, commit: CommitId, follows: u64) -> Result<bool> {
        let (id, follows) = (commit_id(commit), follows.to_string());
        let words = [&*follows, &*self.word, &*self.daemon, &*id].map(str::to_owned);
        self.on(|_, link| {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let went_through = number::<u64>(&link.script(Script::Settle, &words)?) == 1;
            if went_through {
                apply(link)?;
            }
            Ok(went_through)
        })
    }
}

impl Drop for RedisBackend {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The worker of a field's name.
pub fn worker_id(name: &[u8]) -> Option<WorkerId> {
    std::str::from_utf8(name).ok()?.parse().ok()
}
