//! What the store says happened: its events, in their order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ledger::Ledger;

/// All events, oldest first.
pub struct History {
    pub events: Vec<Value>,
}

impl History {
    pub fn read(lines: &str) -> Self {
        let events = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        Self { events: events.collect() }
    }

    /// The events of a job.
    pub fn of(&self, id: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["job"] == *id)
    }

    /// The attempt that each completed job was completed by.
    pub fn completed(&self) -> BTreeMap<String, u32> {
        let done = self.events.iter().filter(|event| event["type"] == "work_completed");
        done.map(|event| (text(&event["job"]), attempt(event))).collect()
    }

    /// Numbers have no gaps; once a job is completed nothing happens to it any more, neither here nor in the
    /// ledger; and what is said to have been completed did run to its end.
    #[track_caller]
    pub fn leaves_finished_jobs_alone(&self, ledger: &Ledger) {
        let mut done = BTreeSet::new();
        for (n, event) in self.events.iter().enumerate() {
            assert_eq!(event["seq"], n + 1, "a gap before {event}");
            let Some(job) = event["job"].as_str() else { continue };
            assert!(!done.contains(job), "after it was completed: {event}");
            if event["type"] == "work_completed" {
                done.insert(job);
            }
        }
        for (id, attempt) in self.completed() {
            let attempts = &ledger.order[&id];
            assert_eq!(attempts.last(), Some(&attempt), "{id} ran as {attempts:?}");
            let execution = ledger.executions[&(id.clone(), attempt)];
            assert!(execution.end.is_some(), "{id} was completed but {execution:?}");
        }
    }

    /// Nothing ran that the store did not grant.
    #[track_caller]
    pub fn grants(&self, ledger: &Ledger) {
        let begun = self.events.iter().filter(|event| event["type"] == "work_started");
        let granted: BTreeSet<_> =
            begun.map(|event| (text(&event["job"]), attempt(event))).collect();
        for key in ledger.executions.keys() {
            assert!(granted.contains(key), "ran without a lease: {key:?}");
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn attempt(event: &Value) -> u32 {
    event["attempt"].as_u64().and_then(|attempt| attempt.try_into().ok()).unwrap()
}
