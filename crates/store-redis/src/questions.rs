//! Questions that are asked together: packed for the script that answers them, and its reply read back.

use redis::Value;
use runcue_core::map::Map;
use runcue_core::{Job, Seq};
use runcue_store::overlay::{Answers, Questions, ReadyQuestion};

use crate::connection::{Batch, Link};
use crate::failure::Unreadable;
use crate::keys::{self, place};
use crate::pack::Item;
use crate::script::Script;
use crate::value::text;
use crate::{pack, rows};

/// Rows in one call of the script at the most, so that it never keeps the server for long.
const MOST: usize = 1000;

/// Adds the questions to a batch, in as many calls as it takes; answers what was asked in each. With the word of a
/// turn they are answered only if the turn is that one.
pub fn queue(link: &Link, batch: &mut Batch, word: &str, questions: &Questions) -> Vec<Questions> {
    let parts = split(questions);
    for part in &parts {
        link.queue_script(batch, Script::Ask, &[word.as_bytes(), &packed(part)]);
    }
    parts
}

/// Asks, in one round trip.
pub fn ask(link: &mut Link, questions: &Questions) -> runcue_store::Result<Answers> {
    let mut batch = Batch::default();
    let parts = queue(link, &mut batch, "", questions);
    let replies = link.all(&batch)?;
    read(&parts, &replies).map_err(|why| link.unreadable(why))
}

/// The answers of all calls together.
pub fn read(parts: &[Questions], replies: &[Value]) -> Result<Answers, Unreadable> {
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
        let lowest =
            question.max_priority.map_or("-inf".to_owned(), |max| (-i64::from(max)).to_string());
        pack::texts(&mut to, &[keys::ready(question.lane), lowest, question.limit.to_string()]);
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
