//! What is told of an attempt in its trace, whoever ran it: the engine and the agent call the same things by the same
//! names.

use crate::span::{Details, Kind};

/// An attempt at a job.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The job's id.
    pub job: &'a str,
    /// Its task.
    pub task: &'a str,
    /// Its group.
    pub group: Option<&'a str>,
    /// Which attempt, counted from one.
    pub number: u32,
    /// What people call the worker.
    pub worker: &'a str,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Completed,
    /// It went wrong, in words.
    Failed(String),
    /// A service said to come back later.
    RateLimited,
    /// Given back undone.
    HandedBack,
    /// Stopped, because somebody withdrew the job.
    Cancelled,
    /// The lease was lost: the job is somebody else's.
    Lost,
}

impl Attempt<'_> {
    /// What is said of its span.
    pub fn details(&self, outcome: Outcome) -> Details {
        let (word, error) = match outcome {
            Outcome::Completed => ("completed", None),
            Outcome::Failed(error) => ("failed", Some(error)),
            Outcome::RateLimited => ("rate_limited", Some("rate limited".to_owned())),
            Outcome::HandedBack => ("handed_back", None),
            Outcome::Cancelled => ("cancelled", None),
            Outcome::Lost => ("lost", Some("the lease was lost".to_owned())),
        };
        let mut attributes = vec![
            ("runcue.job.id", self.job.into()),
            ("runcue.task", self.task.into()),
            ("runcue.attempt", self.number.into()),
            ("runcue.worker", self.worker.into()),
            ("runcue.outcome", word.into()),
        ];
        attributes.extend(self.group.map(|group| ("runcue.group", group.into())));
        Details { name: format!("run {}", self.task), kind: Kind::Consumer, attributes, error }
    }
}
