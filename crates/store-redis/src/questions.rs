//! Questions that are asked together: packed for the script that answers them, and its reply read back.

use redis::Value;
use runcue_core::map::Map;
use runcue_core::{Job, Seq, State, Wait};
use runcue_store::overlay::{Answers, Questions, ReadyQuestion};

use crate::connection::{Batch, Link};
use crate::failure::Unreadable;
use crate::keys::{self, place, place_bytes};
use crate::pack::Item;
use crate::script::Script;
use crate::value::{items, text};
use crate::{pack, rows};

/// Rows in one call of the script at the most, so that it never keeps the server for long.
const MOST: usize = 1000;

/// So many ready jobs are worth a round trip more.
const MANY: usize = 200;

/// Questions that are in a batch, and how they are asked there.
#[derive(Debug)]
pub struct Asked {
    /// So many lists of ready jobs are asked for by plain commands, first of all.
    lists: usize,
    /// Jobs by place that are asked for by plain commands, then.
    places: Vec<[u8; 12]>,
    /// What each call of the script is asked.
    parts: Vec<Questions>,
}

impl Asked {
    /// How many replies there are to what asks for the jobs by place.
    fn replies_to_places(&self) -> usize {
        self.places.len().div_ceil(MOST) * row_replies(true)
    }
}

/// Adds the questions to a batch, in as many calls as it takes. With the word of a turn the script answers only if the
/// turn is that one.
///
/// Many jobs are read by plain commands, ready ones first by their places and then by their rows: a script that hands
/// thousands of texts on takes longer than the round trip that this costs.
pub fn queue(link: &Link, batch: &mut Batch, word: &str, questions: &Questions) -> Asked {
    let mut others = questions.clone();
    let ready = std::mem::take(&mut others.ready_seqs);
    others.seqs.extend(ready);
    let (mut lists, mut places) = (0, Vec::new());
    if questions.ready.iter().map(|question| question.limit).sum::<usize>() >= MANY {
        link.queue(batch, "EXISTS", "tied", &[]);
        for question in std::mem::take(&mut others.ready) {
            let (lowest, limit) = (lowest(&question), question.limit.to_string());
            let words: [&[u8]; 5] = [lowest.as_bytes(), b"+inf", b"LIMIT", b"0", limit.as_bytes()];
            link.queue(batch, "ZRANGEBYSCORE", &keys::ready(question.lane), &words);
            lists += 1;
        }
    }
    if others.seqs.len() >= MANY {
        places = std::mem::take(&mut others.seqs).into_iter().map(place_bytes).collect();
        let all: Vec<&[u8]> = places.iter().map(|place| &place[..]).collect();
        queue_rows(link, batch, &all, true);
    }
    let asked = Asked { lists, places, parts: split(&others) };
    for part in &asked.parts {
        link.queue_script(batch, Script::Ask, &[word.as_bytes(), &packed(part)]);
    }
    asked
}

/// Asks, in one round trip, or in two for many ready jobs.
pub fn ask(link: &mut Link, questions: &Questions) -> runcue_store::Result<Answers> {
    let mut batch = Batch::default();
    let asked = queue(link, &mut batch, "", questions);
    let replies = link.all(&batch)?;
    read(link, &asked, &replies)
}

/// The answers to questions, from the replies to what was added to the batch.
pub fn read(link: &mut Link, asked: &Asked, replies: &[Value]) -> runcue_store::Result<Answers> {
    let lists = if asked.lists > 0 { asked.lists + 1 } else { 0 };
    let (lists, replies) = replies.split_at(lists.min(replies.len()));
    let (rows, others) = replies.split_at(asked.replies_to_places().min(replies.len()));
    let mut answers = read_parts(&asked.parts, others).map_err(|why| link.unreadable(why))?;
    let places = asked.places.iter().map(|place| &place[..]);
    for job in read_rows(places, rows, true) {
        answers.jobs.extend(job.map_err(|why| link.unreadable(why))?);
    }
    if let Some((any_tied, lists)) = lists.split_first() {
        answers.ready = rows_of_lists(link, lists, *any_tied == Value::Int(1))?;
    }
    Ok(answers)
}

/// Ready jobs by their places.
fn rows_of_lists(
    link: &mut Link,
    lists: &[Value],
    any_tied: bool,
) -> runcue_store::Result<Vec<Vec<Job>>> {
    let places: Vec<&[u8]> = lists.iter().flat_map(items).filter_map(text).collect();
    let mut batch = Batch::default();
    queue_rows(link, &mut batch, &places, any_tied);
    let replies = link.all(&batch)?;
    let mut jobs = read_rows(places.iter().copied(), &replies, any_tied);
    let mut ready = Vec::with_capacity(lists.len());
    for list in lists {
        let all = jobs.by_ref().take(items(list).len()).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|why| link.unreadable(why))?;
        // One that somebody has taken in between is not in the list any more.
        ready.push(all.into_iter().flatten().filter(is_ready).collect());
    }
    Ok(ready)
}

/// Whether a job is one of those that wait for their turn.
pub fn is_ready(job: &Job) -> bool {
    job.life.state == State::Queued(Wait::Turn)
}

/// Adds what asks for the rows of jobs to a batch.
pub fn queue_rows(link: &Link, batch: &mut Batch, places: &[&[u8]], any_tied: bool) {
    for chunk in places.chunks(MOST) {
        link.queue(batch, "HMGET", "spec", chunk);
        link.queue(batch, "HMGET", "life", chunk);
        if any_tied {
            link.queue(batch, "SMISMEMBER", "tied", chunk);
        }
    }
}

/// How many replies there are to the commands for each [`MOST`] rows.
const fn row_replies(any_tied: bool) -> usize {
    if any_tied { 3 } else { 2 }
}

/// The jobs of places, from the replies to that: nothing for one that has no rows.
pub fn read_rows<'a>(
    places: impl Iterator<Item = &'a [u8]>,
    replies: &'a [Value],
    any_tied: bool,
) -> impl Iterator<Item = Result<Option<Job>, Unreadable>> {
    let rows = replies.chunks(row_replies(any_tied)).flat_map(|rows| {
        let tied = rows.get(2).map(items).unwrap_or_default();
        let rows = items(&rows[0]).iter().zip(rows.get(1).map(items).unwrap_or_default());
        rows.enumerate()
            .map(|(n, (spec, life))| (text(spec), text(life), tied.get(n) == Some(&Value::Int(1))))
    });
    places.zip(rows).map(|(place, (spec, life, tied))| {
        let (Some(seq), Some(spec), Some(life)) = (keys::seq(place), spec, life) else {
            return Ok(None);
        };
        rows::job(seq, spec, life, tied).map(Some)
    })
}

/// The score at which the ready jobs of a question begin.
fn lowest(question: &ReadyQuestion) -> String {
    question.max_priority.map_or("-inf".to_owned(), |max| (-i64::from(max)).to_string())
}

/// The answers of all calls together.
fn read_parts(parts: &[Questions], replies: &[Value]) -> Result<Answers, Unreadable> {
    let mut answers = Answers::default();
    for (part, reply) in parts.iter().zip(replies) {
        read_part(part, reply, &mut answers)?;
    }
    Ok(answers)
}

/// Splits questions so that each part is a reasonable call.
fn split(questions: &Questions) -> Vec<Questions> {
    if questions.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Questions::default()];
    let mut room = MOST;
    let mut next = |parts: &mut Vec<Questions>, weight: usize| {
        if weight > room && room < MOST {
            parts.push(Questions::default());
            room = MOST;
        }
        room = room.saturating_sub(weight);
        parts.len() - 1
    };
    macro_rules! spread {
        ($field:ident, $weight:expr) => {
            for one in &questions.$field {
                let weight: fn(&_) -> usize = $weight;
                let at = next(&mut parts, weight(one));
                parts[at].$field.push(one.clone());
            }
        };
    }
    spread!(ids, |_| 1);
    spread!(seqs, |_| 1);
    spread!(keys, |_| 1);
    spread!(ready, |question: &ReadyQuestion| question.limit.max(1));
    // How many relatives a job has is not known; a few is usual.
    spread!(dependents, |_| 8);
    spread!(prerequisites, |_| 8);
    spread!(lanes, |_| 1);
    spread!(lane_keys, |_| 1);
    parts
}

fn packed(questions: &Questions) -> Vec<u8> {
    let mut to = Vec::new();
    let places = |seqs: &[Seq]| seqs.iter().map(|seq| place(*seq)).collect::<Vec<_>>();
    pack::list(&mut to, 8);
    let ids: Vec<_> = questions.ids.iter().map(|id| id.as_u128().to_be_bytes()).collect();
    pack::texts(&mut to, &ids);
    pack::texts(&mut to, &places(&questions.seqs));
    pack::texts(&mut to, &questions.keys);
    pack::list(&mut to, questions.ready.len());
    for question in &questions.ready {
        let limit = question.limit.to_string();
        pack::texts(&mut to, &[keys::ready(question.lane), lowest(question), limit]);
    }
    pack::texts(&mut to, &places(&questions.dependents));
    pack::texts(&mut to, &places(&questions.prerequisites));
    pack::texts(&mut to, &questions.lanes);
    let lanes: Vec<_> = questions.lane_keys.iter().map(|lane| lane.0.to_string()).collect();
    pack::texts(&mut to, &lanes);
    to
}

fn read_part(asked: &Questions, reply: &Value, to: &mut Answers) -> Result<(), Unreadable> {
    let packed = text(reply).unwrap_or_default();
    if packed.is_empty() {
        return Ok(());
    }
    let reply = pack::read(packed)?;
    let mut places = reply.at(0).items().iter();
    let mut jobs: Map<Seq, Job> = Map::default();
    for rows in reply.at(1).items() {
        let (specs, lives, tied) = (rows.at(0), rows.at(1), rows.at(2));
        for (n, (spec, life)) in specs.items().iter().zip(lives.items()).enumerate() {
            let seq = places.next().and_then(seq);
            let (Some(seq), Some(spec), Some(life)) = (seq, spec.text(), life.text()) else {
                continue;
            };
            jobs.insert(seq, rows::job(seq, spec, life, *tied.at(n) == Item::Number(1))?);
        }
    }
    for (key, holder) in asked.keys.iter().zip(reply.at(3).items()) {
        to.keys.extend(seq(holder).map(|seq| (key.clone(), seq)));
    }
    // Ready jobs are told in their lists, each in one.
    let mut in_lists = Vec::new();
    for list in reply.at(4).items() {
        let found = list.items().iter().filter_map(seq);
        let found: Vec<Seq> = found.filter(|seq| jobs.contains_key(seq)).collect();
        to.ready.push(found.iter().filter_map(|seq| jobs.get(seq).cloned()).collect());
        in_lists.extend(found);
    }
    for (seq, others) in asked.dependents.iter().zip(reply.at(5).items()) {
        to.ties.extend(others.items().iter().filter_map(self::seq).map(|other| (*seq, other)));
    }
    for (seq, others) in asked.prerequisites.iter().zip(reply.at(6).items()) {
        to.ties.extend(others.items().iter().filter_map(self::seq).map(|other| (other, *seq)));
    }
    for (canonical, lane) in asked.lanes.iter().zip(reply.at(7).items()) {
        to.lanes.extend(number(lane).map(|lane| (canonical.clone(), runcue_core::LaneId(lane))));
    }
    for (lane, key) in asked.lane_keys.iter().zip(reply.at(8).items()) {
        if let Some(key) = key.text() {
            to.lane_keys.push((*lane, rows::parsed("lane", key)?));
        }
    }
    for seq in in_lists {
        jobs.remove(&seq);
    }
    to.jobs.extend(jobs.into_values());
    Ok(())
}

fn seq(item: &Item<'_>) -> Option<Seq> {
    keys::seq(item.text()?)
}

fn number(item: &Item<'_>) -> Option<u64> {
    std::str::from_utf8(item.text()?).ok()?.parse().ok()
}
