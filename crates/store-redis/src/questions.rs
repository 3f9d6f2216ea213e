//! Questions that are asked together: packed for the script that answers them, and its reply read back.

use std::collections::HashMap;

use redis::Value;
use runcue_core::{Job, Seq};
use runcue_store::overlay::{Answers, Questions, ReadyQuestion};

use crate::connection::{Batch, Link};
use crate::failure::Unreadable;
use crate::keys::{self, place};
use crate::script::Script;
use crate::value::{item, items, parse, text};
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
    let mut jobs: HashMap<Seq, Job> = HashMap::new();
    for (n, value) in items(item(reply, 0)).iter().enumerate() {
        let (spec, life) = (text(item(item(reply, 1), n)), text(item(item(reply, 2), n)));
        let (Some(seq), Some(spec), Some(life)) = (seq(value), spec, life) else { continue };
        let tied = matches!(item(item(reply, 3), n), Value::Int(1));
        jobs.insert(seq, rows::job(seq, spec, life, tied)?);
    }
    for (key, holder) in asked.keys.iter().zip(items(item(reply, 5))) {
        to.keys.extend(seq(holder).map(|seq| (key.clone(), seq)));
    }
    for list in items(item(reply, 6)) {
        let found = items(list).iter().filter_map(seq);
        to.ready.push(found.filter_map(|seq| jobs.get(&seq).cloned()).collect());
    }
    for (seq, others) in asked.dependents.iter().zip(items(item(reply, 7))) {
        to.ties.extend(items(others).iter().filter_map(self::seq).map(|other| (*seq, other)));
    }
    for (seq, others) in asked.prerequisites.iter().zip(items(item(reply, 8))) {
        to.ties.extend(items(others).iter().filter_map(self::seq).map(|other| (other, *seq)));
    }
    for (canonical, lane) in asked.lanes.iter().zip(items(item(reply, 9))) {
        to.lanes.extend(parse(lane).map(|lane| (canonical.clone(), runcue_core::LaneId(lane))));
    }
    for (lane, key) in asked.lane_keys.iter().zip(items(item(reply, 10))) {
        if let Some(key) = text(key) {
            to.lane_keys.push((*lane, rows::parsed("lane", key)?));
        }
    }
    // Ready jobs are told in their lists.
    let in_lists = items(item(reply, 6)).iter().flat_map(items).filter_map(seq);
    let in_lists: std::collections::HashSet<Seq> = in_lists.collect();
    to.jobs.extend(jobs.into_values().filter(|job| !in_lists.contains(&job.seq)));
    Ok(())
}

fn seq(value: &Value) -> Option<Seq> {
    keys::seq(text(value)?)
}
