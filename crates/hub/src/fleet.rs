//! The machines that push their metrics: the latest of each and a little of the past. Kept in memory only; a hub
//! that starts knows them again after one push.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::Timestamp;
use runcue_view::millis;
use serde::{Deserialize, Serialize};

use crate::error::{Answer, Refusal};
use crate::openapi::{
    Described, Schema, count, flag, instant, list_of, may, must, named, number, object, read_as,
    text,
};

/// A machine that was not heard of for so long is offline.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Measurements that are kept of each machine.
const HISTORY: usize = 120;
/// Machines that are kept.
const MOST: usize = 10_000;
/// The most measurements in one push.
pub const MOST_PUSHED: usize = 1_000;

/// What a machine measured of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What people call the machine.
    #[serde(default, skip_serializing)]
    pub name: Option<String>,
    /// Use of all cores, 0 to 100.
    pub cpu: f64,
    /// Memory in use.
    pub mem_used_gb: f64,
    /// Memory there is.
    pub mem_total_gb: f64,
    /// Load of the last minute.
    #[serde(default)]
    pub load1: Option<f64>,
    /// Disk in use.
    #[serde(default)]
    pub disk_used_gb: Option<f64>,
    /// Disk there is.
    #[serde(default)]
    pub disk_total_gb: Option<f64>,
    /// Seconds since it was started.
    #[serde(default)]
    pub uptime: Option<f64>,
    /// When this was measured; now, if it does not say.
    #[serde(default)]
    pub at: Option<i64>,
}

impl Described for Measured {
    const NAME: &'static str = "Measured";

    fn schema() -> Schema {
        read_as::<Self>([
            may("name", text().or_null().says("What people call the machine.")),
            must("cpu", number().says("Use of all cores, 0 to 100.")),
            must("mem_used_gb", number()),
            must("mem_total_gb", number()),
            may("load1", number().or_null()),
            may("disk_used_gb", number().or_null()),
            may("disk_total_gb", number().or_null()),
            may("uptime", number().or_null().says("Seconds.")),
            may("at", instant().or_null().says("Now, if it does not say.")),
        ])
    }
}

/// A machine as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its id.
    pub node: String,
    /// What people call it.
    pub name: String,
    /// Whether it was heard of lately.
    pub online: bool,
    /// When it was last heard of.
    pub seen_at: i64,
    /// Its latest measurement.
    pub latest: Option<Measured>,
    /// Earlier ones, oldest first.
    pub history: Vec<Measured>,
    /// Its workers.
    pub workers: Vec<runcue_view::WorkerView>,
    /// Jobs that its workers hold.
    pub active_jobs: u64,
}

impl Described for Node {
    const NAME: &'static str = "Node";

    fn schema() -> Schema {
        object([
            must("node", text()),
            must("name", text()),
            must("online", flag()),
            must("seen_at", instant()),
            must("latest", named::<Measured>().or_null()),
            must("history", list_of(named::<Measured>()).says("Oldest first.")),
            must("workers", list_of(named::<runcue_view::WorkerView>())),
            must("active_jobs", count()),
        ])
    }
}

#[derive(Debug, Default)]
struct Machine {
    name: Option<String>,
    seen_at: Timestamp,
    history: VecDeque<Measured>,
}

/// The machines that push their metrics.
#[derive(Debug, Default)]
pub struct Fleet {
    machines: Mutex<BTreeMap<String, Machine>>,
}

impl Fleet {
    /// Takes in what a machine has measured, oldest first.
    pub fn push(&self, node: &str, measured: Vec<Measured>, now: Timestamp) -> Answer<()> {
        if node.is_empty() || node.len() > 255 || node.chars().any(char::is_control) {
            return Err(Refusal::field("node", "1 to 255 printable characters are expected"));
        }
        if measured.len() > MOST_PUSHED {
            let why = format!("at most {MOST_PUSHED} measurements in one push");
            return Err(Refusal::field("body", why));
        }
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        if machines.len() >= MOST && !machines.contains_key(node) {
            let oldest = machines.iter().min_by_key(|(_, machine)| machine.seen_at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                machines.remove(&oldest);
            }
        }
        let machine = machines.entry(node.to_owned()).or_default();
        machine.seen_at = now;
        for mut one in measured {
            if let Some(name) = one.name.take() {
                machine.name = Some(name.chars().take(255).collect());
            }
            one.at.get_or_insert(millis(now));
            machine.history.push_back(one);
            if machine.history.len() > HISTORY {
                machine.history.pop_front();
            }
        }
        Ok(())
    }

    /// Every machine, by id, with the workers that say they run on it. Workers whose machine pushes nothing make
    /// one of their own.
    pub fn nodes(&self, workers: Vec<runcue_view::WorkerView>, now: Timestamp) -> Vec<Node> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let of_machine = |(node, machine): (&String, &Machine)| {
            let shown = Node {
                node: node.clone(),
                name: machine.name.clone().unwrap_or_else(|| node.clone()),
                online: now.since(machine.seen_at) < SILENCE,
                seen_at: millis(machine.seen_at),
                latest: machine.history.back().cloned(),
                history: machine.history.iter().cloned().collect(),
                workers: Vec::new(),
                active_jobs: 0,
            };
            (node.clone(), shown)
        };
        let mut nodes: BTreeMap<String, Node> = machines.iter().map(of_machine).collect();
        drop(machines);
        for worker in workers {
            let known = [&worker.name, &worker.host].into_iter().find(|id| nodes.contains_key(*id));
            let id = known.unwrap_or(&worker.name).clone();
            let node = nodes.entry(id.clone()).or_insert_with(|| Node {
                name: id.clone(),
                node: id,
                online: false,
                seen_at: worker.seen_at,
                latest: None,
                history: Vec::new(),
                workers: Vec::new(),
                active_jobs: 0,
            });
            node.online |= worker.alive;
            node.seen_at = node.seen_at.max(worker.seen_at);
            node.active_jobs += worker.held;
            node.workers.push(worker);
        }
        nodes.into_values().collect()
    }
}
