//! The nouns of runcue, its one state machine and its policies.
//!
//! Everything here is pure: no input or output, no clock, no randomness of its own, no async. A store
//! loads rows, asks this crate what follows, and writes the answer down; nothing is decided twice.
//!
//! Read in this order: [`job`] (what a job is), [`transition`] (what may happen to it), [`service`]
//! (what it may use), [`board`] (which job is next).

pub mod board;
pub mod breaker;
pub mod capability;
pub mod cycle;
pub mod event;
pub mod filter;
pub mod ids;
pub mod job;
pub mod json;
pub mod lane;
pub mod map;
pub mod queue;
pub mod retry;
pub mod schedule;
pub mod service;
pub mod strict;
pub mod submission;
pub mod task;
pub mod time;
pub mod timetable;
pub mod trace;
pub mod transition;
pub mod why;
pub mod window;

pub use capability::{Capabilities, Requires};
pub use event::{Event, EventKind, Final};
pub use filter::{ClaimFilter, JobFilter};
pub use ids::{
    GroupName, JobId, Key, NameError, QueueName, ScheduleName, ServiceName, TaskName, Token,
    WorkerId,
};
pub use job::{Failure, Job, JobSpec, Lease, Life, Progress, Seq, State, StateWord, Wait};
pub use json::Json;
pub use lane::{LaneId, LaneKey};
pub use queue::{OnFull, QueueSpec};
pub use retry::{Backoff, ErrorKind, RetryPolicy};
pub use schedule::{Missed, Overlap, ScheduleSpec};
pub use service::{Rate, ServiceSpec, Use};
pub use task::TaskSpec;
pub use time::Timestamp;
pub use timetable::Timetable;
pub use trace::TraceParent;
