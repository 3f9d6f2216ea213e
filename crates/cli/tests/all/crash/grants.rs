//! The starts that a store granted, exact to the microsecond, and the rates they have to keep.

use std::collections::HashMap;

use runcue_core::EventKind;

use super::ledger::{Ledger, crowded};

/// Events that are read at a time.
const PAGE: usize = 10_000;

/// When each attempt was claimed, by job and attempt.
pub struct Grants(HashMap<(String, u32), i64>);

impl Grants {
    /// Reads them. An attempt that was handed back unstarted was none: its number is used again.
    pub fn of(url: &str) -> Self {
        let store = runcue::open(url).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (mut grants, mut after) = (HashMap::new(), 0);
        loop {
            let events = runtime.block_on(store.events(after, PAGE)).unwrap();
            let Some(last) = events.last() else { break };
            after = last.seq;
            for event in events {
                let Some(job) = event.job.map(|id| id.to_string()) else { continue };
                // Of a first attempt that was handed back, nothing is left to be said.
                let attempt = event.attempt.unwrap_or(0);
                match event.kind {
                    EventKind::Started => drop(grants.insert((job, attempt), event.at.as_micros())),
                    EventKind::Retrying => drop(grants.remove(&(job, attempt + 1))),
                    _ => {}
                }
            }
        }
        runtime.block_on(store.close()).unwrap();
        Self(grants)
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The instants.
    pub fn instants(&self) -> Vec<i64> {
        self.0.values().copied().collect()
    }

    /// No window holds more grants than the limit, and no window holds more starts but for the one thing that the ledger
    /// cannot know: how long after its grant the shell was up and running. That is measured for every execution, and the
    /// longest is taken off the window and answered.
    #[track_caller]
    pub fn keep_a_rate(&self, ledger: &Ledger, window: i64, limit: usize) -> i64 {
        assert_eq!(crowded(self.instants(), window, limit), None, "as granted");
        let delays = ledger.executions.iter().map(|(key, run)| run.start - self.0[key]);
        let delay = delays.max().unwrap();
        let starts = ledger.executions.values().map(|run| run.start).collect();
        let late = crowded(starts, window - delay, limit);
        assert_eq!(late, None, "as run, at most {delay} µs after the grant");
        delay
    }
}
