//! Jobs that are looked for by more than a key. Lists that are short are read whole; else jobs are walked
//! through in their order, page by page, each a question that the server answers quickly.

use std::collections::{BTreeSet, HashMap};

use redis::Value;
use runcue_core::{JobFilter, LaneId, LaneKey, QueueName, Seq, StateWord, Timestamp, WorkerId};
use runcue_store::Result;
use runcue_store::overlay::Find;

use crate::commit::first_of;
use crate::connection::{Batch, Link};
use crate::keys::{self, PAGE, place};
use crate::life::{self, Glance};
use crate::rows;
use crate::value::{items, number, pairs, parse, text};

/// A list of finished jobs longer than this is not read whole.
const SHORT: u64 = 100_000;
/// Jobs looked at in one question.
const LOOK: usize = 1000;

/// What is known of lanes. They never change.
pub type Lanes = HashMap<LaneId, LaneKey>;

/// Looks for jobs.
pub fn find(link: &mut Link, lanes: &mut Lanes, what: &Find<'_>) -> Result<Vec<Seq>> {
    match what {
        Find::HeldBy(worker) => held_by(link, *worker),
        Find::OldestQueued { queue, limit } => oldest_queued(link, lanes, queue, *limit),
        Find::Matching { filter, after, limit } => matching(link, lanes, filter, *after, *limit),
        Find::Stale { state, ended_before, keep, limit } => {
            stale(link, *state, *ended_before, *keep, *limit)
        }
    }
}

fn held_by(link: &mut Link, worker: WorkerId) -> Result<Vec<Seq>> {
    let held = held(link)?;
    let mut found = Vec::new();
    for (seq, glance) in glances(link, &held)? {
        if glance.worker == Some(worker) {
            found.push(seq);
        }
    }
    found.sort();
    Ok(found)
}

/// Leased and running jobs.
fn held(link: &mut Link) -> Result<Vec<Seq>> {
    let reply = link.command("ZRANGE", "lapsing", &[b"0", b"-1"])?;
    Ok(seqs(&reply))
}

/// How many jobs each worker holds.
pub fn held_per_worker(link: &mut Link) -> Result<HashMap<WorkerId, u64>> {
    let held = held(link)?;
    let mut counts = HashMap::new();
    for (_, glance) in glances(link, &held)? {
        if let Some(worker) = glance.worker {
            *counts.entry(worker).or_default() += 1;
        }
    }
    Ok(counts)
}

fn oldest_queued(
    link: &mut Link,
    lanes: &mut Lanes,
    queue: &QueueName,
    limit: usize,
) -> Result<Vec<Seq>> {
    let filter = JobFilter { queue: Some(queue.clone()), ..JobFilter::default() };
    matching(link, lanes, &filter.in_states([StateWord::Queued]), None, limit)
}

fn matching(
    link: &mut Link,
    lanes: &mut Lanes,
    filter: &JobFilter,
    after: Option<Seq>,
    limit: usize,
) -> Result<Vec<Seq>> {
    if !filter.ids.is_empty() {
        return matching_ids(link, filter, after, limit);
    }
    let mut walk = Walk::forward(link, &filter.states, after)?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(places) = walk.next(link)? else { break };
        let seen = glances(link, &places)?;
        learn_lanes(link, lanes, seen.iter().map(|(_, glance)| glance.lane))?;
        let means = |glance: &Glance| means(filter, glance, lanes);
        found.extend(seen.iter().filter(|(_, glance)| means(glance)).map(|(seq, _)| *seq));
    }
    found.truncate(limit);
    Ok(found)
}

fn matching_ids(
    link: &mut Link,
    filter: &JobFilter,
    after: Option<Seq>,
    limit: usize,
) -> Result<Vec<Seq>> {
    let questions = runcue_store::overlay::Questions {
        ids: filter.ids.iter().copied().collect(),
        ..Default::default()
    };
    let jobs = crate::questions::ask(link, &questions)?.jobs;
    let later = |seq: Seq| after.is_none_or(|after| seq > after);
    let chosen = jobs.iter().filter(|job| later(job.seq) && filter.matches(job));
    let found: BTreeSet<Seq> = chosen.map(|job| job.seq).collect();
    Ok(found.into_iter().take(limit).collect())
}

/// Whether a filter means a job, as far as its state and its lane tell; ids are another matter.
pub fn means(filter: &JobFilter, glance: &Glance, lanes: &Lanes) -> bool {
    let Some(lane) = lanes.get(&glance.lane) else { return false };
    (filter.states.is_empty() || filter.states.contains(&glance.state))
        && filter.queue.as_ref().is_none_or(|queue| *queue == lane.queue)
        && filter.group.as_ref().is_none_or(|group| Some(group) == lane.group.as_ref())
        && filter.task.as_ref().is_none_or(|task| *task == lane.task)
        && filter.project.as_ref().is_none_or(|project| Some(project) == lane.project.as_ref())
        && filter.label.as_ref().is_none_or(|label| lane.labels.contains(label))
}

/// The places of finished jobs that are not kept any longer.
fn stale(
    link: &mut Link,
    state: StateWord,
    ended_before: Timestamp,
    keep: u64,
    limit: usize,
) -> Result<Vec<Seq>> {
    let key = keys::ended(state);
    let mut batch = Batch::default();
    link.queue(&mut batch, "ZCARD", &key, &[]);
    let before = format!("({}", keys::score(ended_before));
    link.queue(&mut batch, "ZCOUNT", &key, &[b"-inf", before.as_bytes()]);
    let replies = link.all(&batch)?;
    let (total, old): (u64, u64) = (number(&replies[0]), number(&replies[1]));
    let gone = old.max(total.saturating_sub(keep)).min(limit as u64);
    if gone == 0 {
        return Ok(Vec::new());
    }
    let last = (gone - 1).to_string();
    Ok(seqs(&link.command("ZRANGE", &key, &[b"0", last.as_bytes()])?))
}

/// The little that a search needs of jobs; those that are gone are left out.
pub fn glances(link: &mut Link, places: &[Seq]) -> Result<Vec<(Seq, Glance)>> {
    let mut batch = Batch::default();
    for chunk in places.chunks(LOOK) {
        let texts: Vec<String> = chunk.iter().map(|seq| place(*seq)).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        link.queue(&mut batch, "HMGET", "life", &words);
    }
    let replies = link.all(&batch)?;
    let mut found = Vec::with_capacity(places.len());
    for (seq, life) in places.iter().zip(replies.iter().flat_map(items)) {
        if let Some(life) = text(life) {
            found.push((*seq, life::glance(life).map_err(|why| link.unreadable(why))?));
        }
    }
    Ok(found)
}

/// Makes the lanes known that are not.
pub fn learn_lanes(
    link: &mut Link,
    lanes: &mut Lanes,
    wanted: impl Iterator<Item = LaneId>,
) -> Result<()> {
    let missing: BTreeSet<LaneId> = wanted.filter(|lane| !lanes.contains_key(lane)).collect();
    let missing: Vec<LaneId> = missing.into_iter().collect();
    let mut batch = Batch::default();
    for chunk in missing.chunks(LOOK) {
        let texts: Vec<String> = chunk.iter().map(|lane| lane.0.to_string()).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        link.queue(&mut batch, "HMGET", "lane", &words);
    }
    let replies = link.all(&batch)?;
    for (lane, key) in missing.iter().zip(replies.iter().flat_map(items)) {
        if let Some(key) = text(key) {
            lanes.insert(*lane, rows::parsed("lane", key).map_err(|why| link.unreadable(why))?);
        }
    }
    Ok(())
}

/// Places from a reply.
pub fn seqs(reply: &Value) -> Vec<Seq> {
    items(reply).iter().filter_map(|value| keys::seq(text(value)?)).collect()
}

/// A walk through jobs in the order of their places, in portions.
#[derive(Debug)]
pub enum Walk {
    /// Through places that are known.
    Known(std::vec::IntoIter<Seq>),
    /// Through pages that have jobs.
    Pages {
        /// The pages to come.
        pages: std::vec::IntoIter<u64>,
        /// Newest first.
        back: bool,
        /// Only places between these, neither included.
        between: (Option<Seq>, Option<Seq>),
    },
}

impl Walk {
    /// From the oldest on, after a place, through jobs that may be in one of some states.
    pub fn forward(
        link: &mut Link,
        states: &BTreeSet<StateWord>,
        after: Option<Seq>,
    ) -> Result<Self> {
        Self::begin(link, states, (after, None), false)
    }

    /// From the newest back, before a place.
    pub fn back(
        link: &mut Link,
        states: &BTreeSet<StateWord>,
        before: Option<Seq>,
    ) -> Result<Self> {
        Self::begin(link, states, (None, before), true)
    }

    fn begin(
        link: &mut Link,
        states: &BTreeSet<StateWord>,
        between: (Option<Seq>, Option<Seq>),
        back: bool,
    ) -> Result<Self> {
        let inside = |seq: Seq| {
            between.0.is_none_or(|after| seq > after) && between.1.is_none_or(|before| seq < before)
        };
        if let Some(mut known) = few(link, states)? {
            known.retain(|seq| inside(*seq));
            known.sort();
            if back {
                known.reverse();
            }
            return Ok(Self::Known(known.into_iter()));
        }
        let reply = link.command("HKEYS", "page", &[])?;
        let mut pages: Vec<u64> = items(&reply).iter().filter_map(parse).collect();
        pages.retain(|page| {
            between.0.is_none_or(|after| first_of(page + 1) > after)
                && between.1.is_none_or(|before| first_of(*page) < before)
        });
        pages.sort_unstable();
        if back {
            pages.reverse();
        }
        Ok(Self::Pages { pages: pages.into_iter(), back, between })
    }

    /// The next places, of which some may have no job.
    pub fn next(&mut self, _: &mut Link) -> Result<Option<Vec<Seq>>> {
        Ok(match self {
            Self::Known(places) => {
                let portion: Vec<Seq> = places.take(LOOK).collect();
                Some(portion).filter(|portion| !portion.is_empty())
            }
            Self::Pages { pages, back, between } => pages.next().map(|page| {
                let first = first_of(page).0;
                let all = (first..first + PAGE).map(Seq).filter(|seq| {
                    between.0.is_none_or(|after| *seq > after)
                        && between.1.is_none_or(|before| *seq < before)
                });
                let mut all: Vec<Seq> = all.collect();
                if *back {
                    all.reverse();
                }
                all
            }),
        })
    }
}

/// The jobs in some states, if these are states that few jobs are in.
fn few(link: &mut Link, states: &BTreeSet<StateWord>) -> Result<Option<Vec<Seq>>> {
    let rare = |state: &StateWord| !matches!(state, StateWord::Queued | StateWord::Completed);
    if states.is_empty() || !states.iter().all(rare) {
        return Ok(None);
    }
    let set = |state: &StateWord| match state {
        StateWord::Leased | StateWord::Running => "lapsing".to_owned(),
        ended => keys::ended(*ended),
    };
    let sets: BTreeSet<String> = states.iter().map(set).collect();
    let mut batch = Batch::default();
    sets.iter().for_each(|key| link.queue(&mut batch, "ZCARD", key, &[]));
    let sizes: u64 = link.all(&batch)?.iter().map(number::<u64>).sum();
    if sizes > SHORT {
        return Ok(None);
    }
    let mut batch = Batch::default();
    sets.iter().for_each(|key| link.queue(&mut batch, "ZRANGE", key, &[b"0", b"-1"]));
    Ok(Some(link.all(&batch)?.iter().flat_map(seqs).collect()))
}

/// The rows of a hash.
pub fn rows_of(link: &mut Link, key: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let reply = link.command("HGETALL", key, &[])?;
    let owned = |(name, value)| Some((text(name)?.to_vec(), text(value)?.to_vec()));
    Ok(pairs(&reply).filter_map(owned).collect())
}
