//! Where each job of a run is, kept up to date by events.

use std::collections::HashMap;
use std::time::Duration;

use runcue_core::{Event, EventKind, Job, JobId, StateWord, Timestamp};

/// Where a job is, as far as a run is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits.
    Waiting,
    /// It runs.
    Running,
    /// It is done.
    Completed,
    /// It failed or was set aside.
    Failed,
    /// It was withdrawn.
    Cancelled,
}

impl Phase {
    /// From the word of a state.
    pub fn of(state: StateWord) -> Self {
        match state {
            StateWord::Queued => Self::Waiting,
            StateWord::Leased | StateWord::Running => Self::Running,
            StateWord::Completed => Self::Completed,
            StateWord::Failed | StateWord::Quarantined => Self::Failed,
            StateWord::Cancelled => Self::Cancelled,
        }
    }

    fn after(kind: EventKind) -> Option<Self> {
        match kind {
            EventKind::Queued | EventKind::Retrying => Some(Self::Waiting),
            EventKind::Started => Some(Self::Running),
            EventKind::Completed => Some(Self::Completed),
            EventKind::Failed => Some(Self::Failed),
            EventKind::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// Whether nothing more happens to it.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// Jobs by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting.
    pub waiting: u64,
    /// Running.
    pub running: u64,
    /// Done.
    pub completed: u64,
    /// Failed or set aside.
    pub failed: u64,
    /// Withdrawn.
    pub cancelled: u64,
}

impl Counts {
    fn of(&mut self, phase: Phase) -> &mut u64 {
        match phase {
            Phase::Waiting => &mut self.waiting,
            Phase::Running => &mut self.running,
            Phase::Completed => &mut self.completed,
            Phase::Failed => &mut self.failed,
            Phase::Cancelled => &mut self.cancelled,
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.running += other.running;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
    }

    /// Jobs that have ended.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    /// All jobs.
    pub fn total(&self) -> u64 {
        self.ended() + self.waiting + self.running
    }
}

#[derive(Debug)]
struct Row {
    id: JobId,
    name: String,
    task: usize,
    phase: Phase,
}

/// Where each job of a run is.
#[derive(Debug, Default)]
pub struct Tracker {
    rows: Vec<Row>,
    places: HashMap<JobId, usize>,
    tasks: Vec<(String, Counts)>,
    counts: Counts,
    began: Timestamp,
    ended_before: u64,
}

impl Tracker {
    /// Tracks nothing yet.
    pub fn new(began: Timestamp) -> Self {
        Self { began, ..Self::default() }
    }

    /// Adds a job. Two jobs of a file may be one in the store, if they have the same idempotency key.
    pub fn add(&mut self, id: JobId, name: &str, task: &str, phase: Phase) {
        if self.places.contains_key(&id) {
            return;
        }
        let known = self.tasks.iter().position(|(known, _)| known == task);
        let task = known.unwrap_or_else(|| {
            self.tasks.push((task.to_owned(), Counts::default()));
            self.tasks.len() - 1
        });
        self.places.insert(id, self.rows.len());
        self.rows.push(Row { id, name: name.to_owned(), task, phase });
        *self.tasks[task].1.of(phase) += 1;
        *self.counts.of(phase) += 1;
        self.ended_before += u64::from(phase.is_final());
    }

    /// Takes in an event; answers the job's name if it is one of ours.
    pub fn note(&mut self, event: &Event) -> Option<&str> {
        let place = *self.places.get(&event.job?)?;
        if let Some(phase) = Phase::after(event.kind) {
            self.set(place, phase);
        }
        Some(&self.rows[place].name)
    }

    /// Takes in what the store says of a job now.
    pub fn correct(&mut self, job: &Job) {
        if let Some(place) = self.places.get(&job.id()).copied() {
            self.set(place, Phase::of(job.life.state.word()));
        }
    }

    fn set(&mut self, place: usize, phase: Phase) {
        let row = &mut self.rows[place];
        let counts = &mut self.tasks[row.task].1;
        *counts.of(row.phase) -= 1;
        *counts.of(phase) += 1;
        *self.counts.of(row.phase) -= 1;
        *self.counts.of(phase) += 1;
        row.phase = phase;
    }

    /// All jobs by phase.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Each task with its jobs by phase.
    pub fn tasks(&self) -> &[(String, Counts)] {
        &self.tasks
    }

    /// Whether all jobs have ended.
    pub fn is_done(&self) -> bool {
        self.counts.ended() == self.counts.total()
    }

    /// Jobs in a phase, with their names, at most so many.
    pub fn in_phase(&self, phase: Phase, most: usize) -> Vec<(JobId, String)> {
        let rows = self.rows.iter().filter(|row| row.phase == phase).take(most);
        rows.map(|row| (row.id, row.name.clone())).collect()
    }

    /// Jobs that have not ended, at most so many.
    pub fn unfinished(&self, most: usize) -> Vec<JobId> {
        let rows = self.rows.iter().filter(|row| !row.phase.is_final());
        rows.take(most).map(|row| row.id).collect()
    }

    /// When the run began.
    pub fn began(&self) -> Timestamp {
        self.began
    }

    /// How much longer it takes at the pace so far, once there is a pace.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        let done = self.counts.ended() - self.ended_before.min(self.counts.ended());
        let left = self.counts.total() - self.counts.ended();
        if done < 3 || left == 0 {
            return None;
        }
        let so_far = now.since(self.began).as_secs_f64();
        Duration::try_from_secs_f64(so_far / done as f64 * left as f64).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, job: u128) -> Event {
        Event { job: Some(JobId::from_u128(job)), ..Event::new(kind, Timestamp::ZERO) }
    }

    #[test]
    fn counts_follow_the_events_of_known_jobs_only() {
        let mut tracker = Tracker::new(Timestamp::ZERO);
        tracker.add(JobId::from_u128(1), "a", "t", Phase::Waiting);
        tracker.add(JobId::from_u128(2), "b", "t", Phase::Completed);
        assert_eq!(tracker.note(&event(EventKind::Started, 1)), Some("a"));
        assert_eq!(tracker.note(&event(EventKind::Started, 9)), None);
        assert_eq!((tracker.counts().running, tracker.counts().completed), (1, 1));
        tracker.note(&event(EventKind::Retrying, 1));
        assert!(!tracker.is_done());
        tracker.note(&event(EventKind::Failed, 1));
        assert!(tracker.is_done());
        assert_eq!(tracker.tasks()[0].1.failed, 1);
    }

    #[test]
    fn the_time_left_is_told_once_there_is_a_pace() {
        let mut tracker = Tracker::new(Timestamp::ZERO);
        for n in 0..6 {
            let phase = if n == 5 { Phase::Completed } else { Phase::Waiting };
            tracker.add(JobId::from_u128(n), "x", "t", phase);
        }
        let now = Timestamp::from_millis(6_000);
        assert_eq!(tracker.left(now), None);
        for n in 0..3 {
            tracker.note(&event(EventKind::Completed, n));
        }
        assert_eq!(tracker.left(now), Some(Duration::from_secs(4)), "2 s each, 2 left");
    }
}
