//! Every JSON shape that runcue shows, defined once. They know jobs, stores and serde and nothing of a
//! command line, so that any other front can show the same.
//!
//! Rules: the words of the glossary; instants are whole milliseconds since the epoch and end in `_at`,
//! `_until` or are called `at`; spans are seconds. What a job does not have is `null`, what does not
//! concern an event or a reason is left out.

mod event;
mod job;
mod log;
mod moved;
mod place;
mod reason;
mod schedule;
mod service;
mod status;

pub use event::EventView;
pub use job::{FailureView, JobDetailView, JobPageView, JobView, RelativeView, UseView};
pub use log::LogView;
pub use moved::{BackupView, MigrateView, MoveView};
pub use place::{GroupView, GroupsView, QueueView, QueuesView, SILENCE, WorkerView};
pub use reason::ReasonView;
pub use schedule::{ScheduleView, SchedulesView, next as next_firings};
pub use service::{RateView, ServiceView, ServicesView};
pub use status::StatusView;

use runcue_core::Timestamp;

/// An instant as it is written.
pub fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}
