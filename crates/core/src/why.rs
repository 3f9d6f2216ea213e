//! Why a job waits: the reasons as data, and in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{GroupName, JobId, QueueName, ServiceName};
use crate::job::StateWord;
use crate::service::Block;
use crate::time::Timestamp;

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// It does not wait: it is in another state.
    NotWaiting {
        /// Which.
        state: StateWord,
        /// Its latest error.
        error: Option<String>,
    },
    /// Prerequisites are not done.
    Prerequisites {
        /// How many.
        left: u32,
        /// Some of them.
        jobs: Vec<JobId>,
    },
    /// Its time has not come.
    NotYet {
        /// When it has.
        at: Timestamp,
        /// Whether this is the pause after a failed attempt.
        retry: bool,
    },
    /// Its group is paused.
    GroupPaused {
        /// The group.
        group: GroupName,
    },
    /// Its queue is paused.
    QueuePaused {
        /// The queue.
        queue: QueueName,
    },
    /// A service has no room.
    Service {
        /// Which.
        service: ServiceName,
        /// What keeps it out, in a word.
        block: String,
        /// When that ends by itself, if known.
        until: Option<Timestamp>,
        /// In words.
        detail: String,
    },
    /// No worker that is alive offers what it requires.
    NoWorkerFits,
    /// No worker is alive at all.
    NoWorker,
    /// Others are ahead in its lane.
    Behind {
        /// How many.
        ahead: u64,
    },
    /// It is next.
    Next,
}

impl Reason {
    /// A block of a service as a reason.
    pub fn of_block(service: ServiceName, block: Block) -> Self {
        let (word, detail) = match block {
            Block::Paused => ("paused", "it is paused".to_owned()),
            Block::Held { .. } => ("held", "it asked to be left alone for a while".to_owned()),
            Block::CircuitOpen { .. } => {
                ("circuit_open", "its circuit is open after failures in a row".to_owned())
            }
            Block::ProbeOut => {
                ("probe_out", "its circuit is half open and another job is the probe".to_owned())
            }
            Block::Full { in_use, max } => ("full", format!("{in_use} of {max} slots are in use")),
            Block::Rated { until: None, .. } => (
                "never",
                "the job needs more than the whole limit; raise the limit or lower its cost"
                    .to_owned(),
            ),
            Block::Rated { .. } => ("rate_limited", "its rate limit is used up".to_owned()),
            Block::KeyFull => ("key_full", "the job's key has all its slots in use".to_owned()),
            Block::KeyRated { .. } => {
                ("key_rate_limited", "the rate limit of the job's key is used up".to_owned())
            }
        };
        Self::Service { service, block: word.to_owned(), until: block.until(), detail }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWaiting { state, error: Some(error) } => write!(f, "it is {state}: {error}"),
            Self::NotWaiting { state, error: None } => write!(f, "it is {state}"),
            Self::Prerequisites { left: 1, .. } => f.write_str("one prerequisite is not done"),
            Self::Prerequisites { left, .. } => write!(f, "{left} prerequisites are not done"),
            Self::NotYet { retry: true, .. } => {
                f.write_str("it failed and its next attempt is not due yet")
            }
            Self::NotYet { retry: false, .. } => f.write_str("its run_at has not come"),
            Self::GroupPaused { group } => write!(f, "group {group} is paused"),
            Self::QueuePaused { queue } => write!(f, "queue {queue} is paused"),
            Self::Service { service, detail, .. } => write!(f, "service {service}: {detail}"),
            Self::NoWorkerFits => f.write_str("no worker offers what it requires"),
            Self::NoWorker => f.write_str("no worker is running"),
            Self::Behind { ahead: 1 } => f.write_str("one job is ahead of it in its lane"),
            Self::Behind { ahead } => write!(f, "{ahead} jobs are ahead of it in its lane"),
            Self::Next => f.write_str("it is next in its lane"),
        }
    }
}
