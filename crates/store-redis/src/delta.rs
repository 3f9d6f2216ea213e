//! What a commit tells the other daemons: the rows that their caches are made of. It is kept for the latest
//! revisions; a daemon that is further behind reads everything.

use std::collections::{BTreeMap, HashMap};

use runcue_core::{LaneId, LaneKey, ScheduleName, Seq};
use runcue_store::overlay::{Changed, Places, Rank, TouchedLane, WriteSet};
use runcue_store::{GroupInfo, QueueInfo, ScheduleInfo};
use serde::{Deserialize, Serialize};

use crate::failure::Unreadable;
use crate::rows::{self, StoredService, UsedAt};
use runcue_core::Timestamp;

/// More than this is not kept: whoever is behind such a commit reads everything.
const MOST: usize = 256 * 1024;
/// Stands for a commit that was too large to be told.
const TOO_LARGE: &[u8] = b"*";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Delta {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<StoredService>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schedules: Vec<(ScheduleName, Option<ScheduleInfo>)>,
    /// Lanes or groups have gone: whoever knew them reads everything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dropped: bool,
    /// New lanes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lanes: Vec<(LaneId, LaneKey)>,
    /// Lanes whose ready jobs have changed, with the priority and place of the best that became ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    touched: Vec<(LaneId, Option<(i32, Seq)>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held: Vec<(LaneId, u32)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    usage: Vec<(Timestamp, UsedAt)>,
    /// Jobs that came, changed or went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Places>,
}

/// What a write set tells others.
pub fn of(writes: &WriteSet) -> Result<String, Unreadable> {
    let delta = Delta {
        groups: writes.groups.values().cloned().collect(),
        queues: writes.queues.values().cloned().collect(),
        services: writes.services.values().map(StoredService::from).collect(),
        schedules: writes.schedules.clone().into_iter().collect(),
        dropped: !writes.dropped_lanes.is_empty() || !writes.dropped_groups.is_empty(),
        lanes: writes.lanes.iter().map(|(lane, (key, _))| (*lane, key.clone())).collect(),
        touched: writes
            .touched
            .iter()
            .map(|(lane, rank)| (*lane, rank.map(|rank| (rank.priority, rank.seq))))
            .collect(),
        held: writes.held.iter().map(|(lane, count)| (*lane, *count)).collect(),
        usage: writes
            .usage
            .iter()
            .map(|row| (row.at, (row.service.clone(), row.key.clone(), row.units)))
            .collect(),
        jobs: writes.changed(),
    };
    let text = rows::json("changes", &delta)?;
    Ok(if text.len() > MOST { String::from_utf8_lossy(TOO_LARGE).into_owned() } else { text })
}

/// Several commits that follow each other, as one.
#[derive(Debug, Default)]
pub struct Deltas {
    groups: BTreeMap<Option<runcue_core::GroupName>, GroupInfo>,
    queues: BTreeMap<runcue_core::QueueName, QueueInfo>,
    services: Vec<runcue_store::tables::ServiceRow>,
    schedules: BTreeMap<ScheduleName, Option<ScheduleInfo>>,
    touched: BTreeMap<LaneId, Option<Rank>>,
    held: BTreeMap<LaneId, u32>,
    usage: Vec<runcue_store::tables::UsageRow>,
    jobs: Vec<Places>,
}

impl Deltas {
    /// Adds the next commit, and what it says of new lanes to what is known of them. Answers false if it was
    /// too large to be told, or if lanes or groups went.
    pub fn add(
        &mut self,
        text: &[u8],
        lanes: &mut HashMap<LaneId, LaneKey>,
    ) -> Result<bool, Unreadable> {
        if text == TOO_LARGE {
            return Ok(false);
        }
        let delta: Delta = rows::parsed("changes", text)?;
        self.groups.extend(delta.groups.into_iter().map(|group| (group.name.clone(), group)));
        self.queues.extend(delta.queues.into_iter().map(|queue| (queue.name.clone(), queue)));
        for service in delta.services {
            let row = runcue_store::tables::ServiceRow::from(service);
            match self.services.iter_mut().find(|known| known.spec.name == row.spec.name) {
                Some(known) => *known = row,
                None => self.services.push(row),
            }
        }
        self.schedules.extend(delta.schedules);
        if delta.dropped {
            lanes.clear();
            return Ok(false);
        }
        lanes.extend(delta.lanes);
        for (lane, best) in delta.touched {
            let best = best.map(|(priority, seq)| Rank { priority, seq });
            let known = self.touched.entry(lane).or_default();
            *known = (*known).into_iter().chain(best).min();
        }
        self.held.extend(delta.held);
        for (at, used) in delta.usage {
            self.usage.extend(rows::used(at, vec![used]));
        }
        self.jobs.extend(delta.jobs);
        Ok(true)
    }

    /// The lanes that were touched.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.touched.keys().copied()
    }

    /// All of it, with what is known of lanes.
    pub fn changed(self, lanes: &HashMap<LaneId, LaneKey>) -> Changed {
        let touched = |(lane, from): (LaneId, Option<Rank>)| {
            Some(TouchedLane { lane, key: lanes.get(&lane)?.clone(), from })
        };
        Changed {
            whole: false,
            groups: self.groups.into_values().collect(),
            queues: self.queues.into_values().collect(),
            services: self.services,
            schedules: self.schedules.into_iter().collect(),
            lanes: self.touched.into_iter().filter_map(touched).collect(),
            usage: self.usage,
            held: self.held.into_iter().collect(),
            jobs: self.jobs,
        }
    }
}
