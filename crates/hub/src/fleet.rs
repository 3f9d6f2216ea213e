//! The machines that push their metrics: the latest of each and a little of the past. The latest of each is kept with
//! the queue, so that every hub on it can show them; the past is what this hub has seen of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Json, Timestamp};
use runcue_store::{Record, Store, StoreError};
use runcue_view::millis;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

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
/// The shortest time between two writes of what machines have pushed, all of them together.
pub const KEEP_EVERY: Duration = Duration::from_secs(10);
/// How old what other hubs have kept may be when it is shown.
const LEARN: Duration = Duration::from_secs(1);
/// A machine that was not heard of for so long is forgotten, and how often it is looked for such machines.
const FORGET: Duration = Duration::from_secs(24 * 3600);
const FORGET_EVERY: Duration = Duration::from_secs(600);
const KIND: &str = "node";
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
    /// It has pushed something that is not kept yet.
    unkept: bool,
}

impl Machine {
    fn add(&mut self, measured: Measured) {
        self.history.push_back(measured);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

/// A machine as it is kept with the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    name: Option<String>,
    seen_at: Timestamp,
    latest: Option<Measured>,
}

/// The machines that push their metrics.
#[derive(Debug, Default)]
pub struct Fleet {
    machines: Mutex<BTreeMap<String, Machine>>,
    /// When what other hubs have kept was read, and when the old was looked for.
    learned: Mutex<(Timestamp, Timestamp)>,
    bell: Notify,
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
        (machine.seen_at, machine.unkept) = (now, true);
        for mut one in measured {
            if let Some(name) = one.name.take() {
                machine.name = Some(name.chars().take(255).collect());
            }
            one.at.get_or_insert(millis(now));
            machine.add(one);
        }
        self.bell.notify_one();
        Ok(())
    }

    /// Waits until a machine has pushed something.
    pub async fn changed(&self) {
        self.bell.notified().await;
    }

    /// Keeps what machines have pushed since the last time, all of them in one write, and forgets those that are gone.
    pub async fn keep(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let mut records = self.unkept();
        let pushed: Vec<String> = records.iter().map(|record| record.name.clone()).collect();
        if self.is_time_to_forget(now) {
            let kept = store.records(KIND).await?.into_iter();
            records.extend(
                kept.filter(|record| {
                    let seen = kept_in(record).map_or(Timestamp::ZERO, |kept| kept.seen_at);
                    now.since(seen) > FORGET && !pushed.contains(&record.name)
                })
                .map(|record| Record { value: None, ..record }),
            );
        }
        if records.is_empty() {
            return Ok(());
        }
        let written = store.put_records(now, records).await;
        if written.is_err() {
            let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
            for name in pushed {
                machines.entry(name).and_modify(|machine| machine.unkept = true);
            }
            self.bell.notify_one();
        }
        written
    }

    fn unkept(&self) -> Vec<Record> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let record = |(node, machine): (&String, &mut Machine)| {
            if !std::mem::take(&mut machine.unkept) {
                return None;
            }
            let (name, latest) = (machine.name.clone(), machine.history.back().cloned());
            let kept = Kept { name, seen_at: machine.seen_at, latest };
            let value = Json::from_value(&kept).ok();
            Some(Record { kind: KIND.to_owned(), name: node.clone(), value })
        };
        machines.iter_mut().filter_map(record).collect()
    }

    fn is_time_to_forget(&self, now: Timestamp) -> bool {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = now.since(learned.1) >= FORGET_EVERY;
        if is_time {
            learned.1 = now;
        }
        is_time
    }

    /// Learns what machines have pushed to other hubs.
    pub async fn learn(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        {
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            if now.since(learned.0) < LEARN {
                return Ok(());
            }
            learned.0 = now;
        }
        let records = store.records(KIND).await?;
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records.into_iter().take(MOST) {
            let Some(kept) = kept_in(&record) else { continue };
            let machine = machines.entry(record.name).or_default();
            // What was pushed here is newer than what was kept of it.
            if kept.seen_at <= machine.seen_at || now.since(kept.seen_at) > FORGET {
                continue;
            }
            machine.seen_at = kept.seen_at;
            machine.name = kept.name.or(machine.name.take());
            kept.latest.into_iter().for_each(|latest| machine.add(latest));
        }
        machines.retain(|_, machine| now.since(machine.seen_at) <= FORGET);
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

/// What a record says of a machine; nothing if it cannot be read.
fn kept_in(record: &Record) -> Option<Kept> {
    record.value.as_ref()?.to().ok()
}

#[cfg(test)]
mod tests {
    use runcue_store::MemoryStore;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn measured(cpu: f64) -> Vec<Measured> {
        let text =
            format!("{{\"cpu\": {cpu}, \"mem_used_gb\": 1, \"mem_total_gb\": 2, \"name\": \"N\"}}");
        vec![serde_json::from_str(&text).unwrap()]
    }

    #[tokio::test]
    async fn what_many_machines_push_is_written_together_and_only_when_there_is_something_new() {
        let (store, fleet) = (MemoryStore::new(), Fleet::default());
        for n in 0..100 {
            fleet.push(&format!("n{}", n % 4), measured(f64::from(n)), at(1)).unwrap();
        }
        let before = store.changed(0).await;
        fleet.keep(&store, at(1)).await.unwrap();
        let after = store.changed(0).await;
        assert_eq!(after - before, 1, "one write");
        fleet.keep(&store, at(2)).await.unwrap();
        assert_eq!(store.changed(0).await, after, "nothing new, nothing written");
        let kept = store.records(KIND).await.unwrap();
        let of = |n: usize| kept_in(&kept[n]).unwrap().latest.unwrap().cpu;
        assert_eq!([of(0), of(1), of(2), of(3)], [96.0, 97.0, 98.0, 99.0], "the latest of each");
    }

    #[tokio::test]
    async fn another_hub_shows_what_was_kept_unless_it_knows_better() {
        let (store, one, two) = (MemoryStore::new(), Fleet::default(), Fleet::default());
        one.push("a", measured(1.0), at(10)).unwrap();
        two.push("b", measured(2.0), at(10)).unwrap();
        one.keep(&store, at(10)).await.unwrap();
        two.push("a", measured(3.0), at(12)).unwrap();
        two.learn(&store, at(13)).await.unwrap();
        one.learn(&store, at(13)).await.unwrap();
        let shown = |fleet: &Fleet| {
            let latest = |node: Node| (node.node, node.online, node.latest.unwrap().cpu);
            fleet.nodes(Vec::new(), at(13)).into_iter().map(latest).collect::<Vec<_>>()
        };
        assert_eq!(shown(&two), [("a".to_owned(), true, 3.0), ("b".to_owned(), true, 2.0)]);
        assert_eq!(shown(&one), [("a".to_owned(), true, 1.0)]);
        two.keep(&store, at(14)).await.unwrap();
        one.learn(&store, at(15)).await.unwrap();
        assert_eq!(shown(&one), shown(&two));
        assert_eq!(one.nodes(Vec::new(), at(15))[0].name, "N");
    }

    #[tokio::test]
    async fn a_machine_that_was_silent_for_a_day_is_forgotten() {
        let (store, one) = (MemoryStore::new(), Fleet::default());
        one.push("old", measured(1.0), at(10)).unwrap();
        one.keep(&store, at(10)).await.unwrap();
        let later = at(10).plus(FORGET).plus(Duration::from_secs(1));
        one.push("new", measured(1.0), later).unwrap();
        one.keep(&store, later).await.unwrap();
        one.learn(&store, later).await.unwrap();
        let names: Vec<String> =
            one.nodes(Vec::new(), later).into_iter().map(|node| node.node).collect();
        assert_eq!(names, ["new"]);
        assert_eq!(store.records(KIND).await.unwrap().len(), 1);
    }
}
