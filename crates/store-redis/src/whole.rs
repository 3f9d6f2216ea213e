//! Everything that a daemon has to know of a queue before its first turn, or when it is too far behind to be told
//! what has changed. It is read in a turn, which is made to last longer where there is much.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;
use runcue_core::{LaneId, ScheduleName, Seq, Timestamp};
use runcue_store::Result;
use runcue_store::overlay::{Changed, TouchedLane};
use runcue_store::tables::ServiceRow;

use crate::backend::TURN;
use crate::connection::{Batch, Link};
use crate::failure::Unreadable;
use crate::find::{self, Lanes};
use crate::histories::usage_after;
use crate::rows::{self, StoredService};
use crate::script::Script;
use crate::value::{items, pairs, parse, some, text};

/// Lanes or jobs that are read before the turn is made to last longer.
const MANY: usize = 20_000;
/// Lanes in one call of a script at the most.
const LANES: usize = 1000;

/// Everything, with the uses of services that count at an instant: those of as long a time as said, and of the
/// longest window that is stored.
pub fn read(
    link: &mut Link,
    lanes: &mut Lanes,
    now: Timestamp,
    memory: Duration,
) -> Result<Changed> {
    let mut batch = Batch::default();
    for key in ["group", "queue", "service", "schedule"] {
        link.queue(&mut batch, "HGETALL", key, &[]);
    }
    link.queue(&mut batch, "LRANGE", "services", &[b"0", b"-1"]);
    link.queue(&mut batch, "HKEYS", "waiting", &[]);
    link.queue(&mut batch, "ZRANGE", "lapsing", &[b"0", b"-1"]);
    let replies = link.all(&batch)?;
    let mut changed = definitions(&replies).map_err(|why| link.unreadable(why))?;
    changed.lanes = with_ready_jobs(link, lanes, items(&replies[5]))?;
    changed.held = held(link, lanes, &find::seqs(&replies[6]))?;
    let stored = changed.services.iter().map(|row| row.spec.memory()).max();
    let memory = memory.max(stored.unwrap_or_default());
    if !memory.is_zero() {
        changed.usage = usage_after(link, now.minus(memory))?;
    }
    Ok(changed)
}

/// Groups, queues, services and schedules.
fn definitions(replies: &[Value]) -> std::result::Result<Changed, Unreadable> {
    let mut changed = Changed { whole: true, ..Changed::default() };
    for (_, row) in pairs(&replies[0]) {
        changed.groups.push(rows::parsed("group", some("group", row)?)?);
    }
    for (_, row) in pairs(&replies[1]) {
        changed.queues.push(rows::parsed("queue", some("queue", row)?)?);
    }
    for name in items(&replies[4]) {
        if let Some((_, row)) = pairs(&replies[2]).find(|(known, _)| *known == name) {
            let stored: StoredService = rows::parsed("service", some("service", row)?)?;
            changed.services.push(ServiceRow::from(stored));
        }
    }
    for (name, row) in pairs(&replies[3]) {
        let name = String::from_utf8_lossy(some("schedule", name)?);
        let name =
            ScheduleName::new(name.as_ref()).map_err(|error| Unreadable::new("schedule", error))?;
        let schedule = rows::parsed("schedule", some("schedule", row)?)?;
        changed.schedules.push((name, Some(schedule)));
    }
    Ok(changed)
}

/// Of the lanes that are noted as having ready jobs, those that still have some. Commits only note them: the others
/// are struck out here.
fn with_ready_jobs(
    link: &mut Link,
    lanes: &mut Lanes,
    noted: &[Value],
) -> Result<Vec<TouchedLane>> {
    let noted: Vec<&[u8]> = noted.iter().filter_map(text).collect();
    let mut found = Vec::new();
    for some in noted.chunks(MANY) {
        let mut batch = Batch::default();
        for words in some.chunks(LANES) {
            link.queue_script(&mut batch, Script::Waiting, words);
        }
        let replies = link.all(&batch)?;
        let ready = replies.iter().flat_map(items).filter_map(parse).map(LaneId);
        let ready: Vec<LaneId> = ready.collect();
        find::learn_lanes(link, lanes, ready.iter().copied())?;
        found.extend(ready.into_iter().filter_map(|lane| {
            let key = lanes.get(&lane)?.clone();
            Some(TouchedLane { lane, key, from: None })
        }));
        renew(link)?;
    }
    Ok(found)
}

/// How many jobs are held in lanes that use services. No commit writes that down, because the leases say it.
fn held(link: &mut Link, lanes: &mut Lanes, leased: &[Seq]) -> Result<Vec<(LaneId, u32)>> {
    let mut counts: BTreeMap<LaneId, u32> = BTreeMap::new();
    for some in leased.chunks(MANY) {
        let seen = find::glances(link, some)?;
        find::learn_lanes(link, lanes, seen.iter().map(|(_, glance)| glance.lane))?;
        for (_, glance) in seen {
            if lanes.get(&glance.lane).is_some_and(|lane| !lane.services.is_empty()) {
                *counts.entry(glance.lane).or_default() += 1;
            }
        }
        renew(link)?;
    }
    Ok(counts.into_iter().collect())
}

/// Makes the turn last longer while much is read. If it is somebody else's by now, that does no harm.
fn renew(link: &mut Link) -> Result<()> {
    link.command("PEXPIRE", "turn", &[TURN.as_bytes()]).map(drop)
}
