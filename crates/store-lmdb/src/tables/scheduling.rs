//! What the board is built from: groups, queues, services, lanes, uses and held jobs.

use super::*;
use crate::rows::Row;
use runcue_core::breaker::Breaker;
use runcue_core::{GroupName, Key, ServiceName, ServiceSpec, Token};
use runcue_store::Counts;
use runcue_store::stage::READY;
use serde::de::DeserializeOwned;
use std::collections::HashSet;

const COUNTERS: &[u8] = b"counters";
/// The revision at which lanes or groups were last deleted.
const PRUNED: &[u8] = b"lanes_pruned";

impl LmdbTables {
    pub(super) fn read_changes(&mut self, since: u64, now: Timestamp) -> Result<Changes> {
        type Stored = (ServiceSpec, Breaker, Timestamp);
        let services = |view: View<'_>, since: u64| -> heed::Result<Vec<ServiceRow>> {
            let stored: Vec<Stored> = stamped(view, Table::Service, since)?;
            let row = |(spec, breaker, held_until)| ServiceRow { spec, breaker, held_until };
            Ok(stored.into_iter().map(row).collect())
        };
        let seen = self.usage_seen;
        // Another process has deleted lanes: what was known of any of them is not to be trusted.
        let since = if self.look(|view| number(view, PRUNED))? > since { 0 } else { since };
        if since == 0 {
            self.lanes.clear();
        }
        let (changes, newest) = self.look(|view| {
            let memory = || -> heed::Result<_> {
                let all = services(view, 0)?;
                Ok(all.iter().map(|row| row.spec.memory()).max().unwrap_or_default())
            };
            let usage = match since {
                0 => usage(view, 0, now.minus(memory()?))?,
                _ => usage(view, seen + 1, Timestamp::from_micros(i64::MIN))?,
            };
            let changes = Changes {
                groups: stamped(view, Table::Group, since)?,
                queues: stamped(view, Table::Queue, since)?,
                services: services(view, since)?,
                lanes: lanes(view, since)?,
                usage,
                held: held(view)?,
                counters: counters(view)?,
                afresh: since == 0,
            };
            Ok((changes, number(view, b"usage")?))
        })?;
        self.usage_seen = newest;
        Ok(changes)
    }

    pub(super) fn write_counters(&mut self, counters: &Counters) -> Result<()> {
        let group = counters.last_served_group.as_ref();
        let numbers =
            [counters.seq.0, counters.served.0, counters.event, counters.delayed, counters.blocked];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(keys::number).collect();
        bytes.extend(group.map_or("", GroupName::as_str).bytes());
        self.put(Table::Meta, COUNTERS, &bytes)?;
        self.put(Table::Meta, LAST_EVENT, &keys::number(counters.event))
    }

    pub(super) fn known_lane(&mut self, lane: LaneId) -> Result<Option<Arc<LaneKey>>> {
        if let Some(key) = self.lanes.get(&lane.0) {
            return Ok(Some(key.clone()));
        }
        let key = self.look(|view| lane_key(view, lane.0))?.map(Arc::new);
        if let Some(key) = &key {
            self.lanes.insert(lane.0, key.clone());
        }
        Ok(key)
    }

    pub(super) fn delete_lanes(&mut self, limit: usize) -> Result<bool> {
        let (lanes, groups) =
            self.look(|view| Ok((idle_lanes(view, limit)?, idle_groups(view)?)))?;
        for (lane, stamp, key) in &lanes {
            let canonical = key.canonical();
            let mut list = self.listed(Table::LaneId, &canonical)?;
            list.retain(|(_, other)| other != lane);
            self.put_list(Table::LaneId, &canonical, &list)?;
            self.remove(Table::LaneStamp, &keys::pair(*stamp, *lane))?;
            self.remove(Table::Lane, &keys::number(*lane))?;
            self.lanes.remove(lane);
        }
        for name in &groups {
            self.remove(Table::Group, name)?;
        }
        let any = !lanes.is_empty() || !groups.is_empty();
        if any {
            self.put(Table::Meta, PRUNED, &keys::number(self.stamp))?;
        }
        Ok(any)
    }

    pub(super) fn worker(&self, id: WorkerId) -> Result<Option<KnownWorker>> {
        self.look(|view| {
            let found = view.get(Table::Worker, &id.as_u128().to_be_bytes())?;
            found.map(|bytes| rows::parsed("worker", bytes)).transpose()
        })
    }

    pub(super) fn write_worker(&mut self, worker: &KnownWorker) -> Result<()> {
        let bytes = self.json("worker", worker)?;
        self.put(Table::Worker, &worker.spec.id.as_u128().to_be_bytes(), &bytes)
    }

    pub(super) fn find_contradictions(&self) -> Result<Vec<String>> {
        self.look(contradictions)
    }
}

/// Lanes that no job belongs to, with their stamps.
fn idle_lanes(view: View<'_>, limit: usize) -> heed::Result<Vec<(u64, u64, LaneKey)>> {
    let mut used = HashSet::new();
    for entry in view.all(Table::Job)? {
        used.insert(Row::from_bytes(entry?.1)?.lane);
    }
    let mut idle = Vec::new();
    for entry in view.all(Table::Lane)? {
        let (key, bytes) = entry?;
        let lane = keys::number_at(key, 0).unwrap_or(0);
        if idle.len() < limit && !used.contains(&lane) {
            let stamp = keys::number_at(bytes, 0).unwrap_or(0);
            idle.push((lane, stamp, rows::parsed("lane", bytes.get(8..).unwrap_or_default())?));
        }
    }
    Ok(idle)
}

/// The keys of groups that have no jobs and are not paused.
fn idle_groups(view: View<'_>) -> heed::Result<Vec<Vec<u8>>> {
    let mut idle = Vec::new();
    for entry in view.all(Table::Group)? {
        let (key, bytes) = entry?;
        let group: GroupInfo = rows::parsed("group", bytes.get(8..).unwrap_or_default())?;
        if !group.paused && group.counts.total() == 0 {
            idle.push(key.to_vec());
        }
    }
    Ok(idle)
}

fn counters(view: View<'_>) -> heed::Result<Counters> {
    let Some(bytes) = view.get(Table::Meta, COUNTERS)? else { return Ok(Counters::default()) };
    let number = |n: usize| {
        keys::number_at(bytes, n * 8).ok_or_else(|| unreadable("counters", "they are cut off"))
    };
    let group = std::str::from_utf8(bytes.get(40..).unwrap_or_default());
    let group = group.map_err(|error| unreadable("group", error))?;
    Ok(Counters {
        seq: Seq(number(0)?),
        served: Token(number(1)?),
        event: number(2)?,
        delayed: number(3)?,
        blocked: number(4)?,
        last_served_group: match group {
            "" => None,
            name => Some(GroupName::new(name).map_err(|error| unreadable("group", error))?),
        },
    })
}

/// Values that were written after a revision.
fn stamped<T: DeserializeOwned>(view: View<'_>, table: Table, since: u64) -> heed::Result<Vec<T>> {
    let mut found = Vec::new();
    for entry in view.all(table)? {
        let (_, bytes) = entry?;
        let stamp = keys::number_at(bytes, 0);
        let stamp = stamp.ok_or_else(|| unreadable(table.name(), "its stamp is cut off"))?;
        if stamp > since {
            found.push(rows::parsed(table.name(), &bytes[8..])?);
        }
    }
    Ok(found)
}

fn lane_key(view: View<'_>, lane: u64) -> heed::Result<Option<LaneKey>> {
    let bytes = view.get(Table::Lane, &keys::number(lane))?;
    bytes.map(|bytes| rows::parsed("lane", bytes.get(8..).unwrap_or_default())).transpose()
}

/// A first look needs only lanes with something ready; a later one, those that gained something.
fn lanes(view: View<'_>, since: u64) -> heed::Result<Vec<(LaneId, LaneKey)>> {
    let mut found = Vec::new();
    let mut add = |lane: u64| -> heed::Result<()> {
        found.extend(lane_key(view, lane)?.map(|key| (LaneId(lane), key)));
        Ok(())
    };
    if since > 0 {
        for entry in view.from(Table::LaneStamp, &keys::pair(since + 1, 0))? {
            add(keys::number_at(entry?.0, 8).unwrap_or(0))?;
        }
        return Ok(found);
    }
    let mut next = 0;
    while let Some(entry) = view.from(Table::Ready, &keys::number(next))?.next() {
        let lane = keys::number_at(entry?.0, 0).unwrap_or(u64::MAX);
        add(lane)?;
        let Some(after) = lane.checked_add(1) else { break };
        next = after;
    }
    Ok(found)
}

/// Uses from a number on, later than an instant.
fn usage(view: View<'_>, from: u64, after: Timestamp) -> heed::Result<Vec<UsageRow>> {
    let mut found = Vec::new();
    for entry in view.from(Table::Usage, &keys::number(from))? {
        let (_, bytes) = entry?;
        let at = keys::instant_at(bytes, 0);
        let at = at.ok_or_else(|| unreadable("usage", "its instant is cut off"))?;
        if at <= after {
            continue;
        }
        let body = bytes.get(16..).unwrap_or_default();
        let run: Vec<(ServiceName, Option<Key>, i64)> = rows::parsed("usage", body)?;
        let row = |(service, key, units)| UsageRow { service, key, at, units };
        found.extend(run.into_iter().map(row));
    }
    // The windows are counted in the order of time, whoever wrote first.
    found.sort_by_key(|row| row.at);
    Ok(found)
}

fn held(view: View<'_>) -> heed::Result<Vec<(LaneId, u32)>> {
    let mut held: BTreeMap<LaneId, u32> = BTreeMap::new();
    for entry in view.prefix(Table::Due, &[rows::HELD])? {
        let (lane, _) = reader::holder(entry?.1)?;
        *held.entry(LaneId(lane)).or_default() += 1;
    }
    Ok(held.into_iter().collect())
}

/// Checks that rows, counts and indexes agree.
fn contradictions(view: View<'_>) -> heed::Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut real: HashMap<Option<GroupName>, Counts> = HashMap::new();
    let (mut ready, mut due, mut deadlines) = (0, 0, 0);
    let mut say = |finding: String| {
        if findings.len() < 20 {
            findings.push(finding);
        }
    };
    for entry in view.all(Table::Job)? {
        let (key, bytes) = entry?;
        let (seq, row) = (keys::number_at(key, 0).unwrap_or(0), Row::from_bytes(bytes)?);
        if view.get(Table::Body, key)?.is_none() {
            say(format!("job {seq} has no body"));
        }
        match lane_key(view, row.lane)? {
            Some(lane) => *real.entry(lane.group).or_default().of(row.word()?) += 1,
            None => say(format!("job {seq} has no lane")),
        }
        let place = keys::ready(LaneId(row.lane), row.priority, Seq(seq));
        if row.stage == READY {
            ready += 1;
            if view.get(Table::Ready, &place)?.is_none() {
                say(format!("job {seq} is ready but cannot be found"));
            }
        }
        if let Some((kind, at)) = row.due() {
            due += 1;
            if view.get(Table::Due, &keys::due(kind, at, Seq(seq)))?.is_none() {
                say(format!("job {seq} cannot be found by its instant"));
            }
        }
        deadlines += u64::from(row.deadline.is_some());
    }
    let jobs = view.count(Table::Job)?;
    let counted = [
        (Table::Id, jobs),
        (Table::Body, jobs),
        (Table::Ready, ready),
        (Table::Due, due),
        (Table::Deadline, deadlines),
        (Table::Tied, view.count(Table::Tie)?),
    ];
    for (table, expected) in counted {
        let there = view.count(table)?;
        if there != expected {
            say(format!("{} has {there} entries, {expected} are expected", table.name()));
        }
    }
    let kept: Vec<GroupInfo> = stamped(view, Table::Group, 0)?;
    for group in kept {
        let counts = real.remove(&group.name).unwrap_or_default();
        if counts != group.counts {
            let name = group.name.as_ref().map_or("", GroupName::as_str);
            say(format!("group {name:?} counts {:?}, its jobs are {counts:?}", group.counts));
        }
    }
    Ok(findings)
}
