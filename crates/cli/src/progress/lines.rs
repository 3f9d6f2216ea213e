//! Progress as plain lines, for logs and pipes: failures as they happen, and how far it is every few seconds.

use std::time::Duration;

use runcue_core::{Event, EventKind, Timestamp};

use super::tracker::{Counts, Tracker};
use crate::out::Out;
use crate::trouble::Trouble;
use crate::words;

/// How often it is said how far it is, at most.
const EVERY: Duration = Duration::from_secs(5);

/// Progress as plain lines.
pub struct Lines {
    out: Out,
    told_at: Timestamp,
    told: Counts,
}

impl Lines {
    /// Says nothing yet.
    pub fn new(out: Out, now: Timestamp) -> Self {
        Self { out, told_at: now, told: Counts::default() }
    }

    /// Something happened to a job.
    pub fn event(&mut self, event: &Event, name: &str) -> Result<(), Trouble> {
        let told = match event.kind {
            EventKind::Failed => true,
            EventKind::Retrying
            | EventKind::Started
            | EventKind::Completed
            | EventKind::Cancelled => self.out.verbose > 0,
            _ => false,
        };
        if told { self.out.say(line(event, name)) } else { Ok(()) }
    }

    /// Time has passed.
    pub fn tick(&mut self, tracker: &Tracker, now: Timestamp) -> Result<(), Trouble> {
        let counts = tracker.counts();
        if counts == self.told || now.since(self.told_at) < EVERY || tracker.is_done() {
            return Ok(());
        }
        (self.told, self.told_at) = (counts, now);
        self.out.say(how_far(tracker, now))
    }

    /// Why nothing moves.
    pub fn stuck(&mut self, why: &str) -> Result<(), Trouble> {
        self.out.say(format!("waiting: {why}"))
    }
}

/// An event of a job on one line.
pub fn line(event: &Event, name: &str) -> String {
    let word = match event.state {
        Some(state) if event.kind == EventKind::Failed => state.as_str(),
        _ => event.kind.short(),
    };
    let mut line = format!("{word:<11} {}", words::one_line(name, 60));
    if let Some(attempt) = event.attempt.filter(|attempt| *attempt > 1) {
        line += &format!(", attempt {attempt}");
    }
    if let Some(took) = event.took {
        line += &format!(", took {}", words::span(Duration::from_micros(took)));
    }
    if let Some(error) = &event.error {
        line += &format!(": {}", words::one_line(error, 120));
    }
    line
}

/// `45 of 120 completed, 4 running, 1 failed, about 2 min left`.
fn how_far(tracker: &Tracker, now: Timestamp) -> String {
    let counts = tracker.counts();
    let mut parts = vec![
        format!("{} of {} completed", counts.completed, counts.total()),
        format!("{} running", counts.running),
    ];
    if counts.failed > 0 {
        parts.push(format!("{} failed", counts.failed));
    }
    if let Some(left) = tracker.left(now) {
        parts.push(format!("about {} left", words::span(left)));
    }
    parts.join(", ")
}
