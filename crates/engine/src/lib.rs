//! The engine: [`Cue`], what a Rust program holds to submit jobs and to run them.
//!
//! ```
//! use runcue_engine::{Cue, NewJob, Task};
//! use runcue_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> runcue_engine::Result<()> {
//! let cue = Cue::builder(MemoryStore::new())
//!     .task(Task::new("greet")?.handler(|work| async move {
//!         Ok(format!("hello {}", work.target().unwrap_or("world")))
//!     }))
//!     .build()
//!     .await?;
//! cue.start();
//!
//! let id = cue.submit(NewJob::of("greet").target("moon")).await?;
//! assert_eq!(cue.result::<String>(id).await?, "hello moon");
//!
//! cue.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Read in this order: `dispatch` (free slots become running jobs), `execute`
//! (one job, from claim to outcome), `complete` (outcomes become durable, in batches), `heartbeat` (leases are
//! kept), `stop` (the order in which it all ends). Beside them: `reap`, `schedule`, `prune`, `status`, `logs`; and what the
//! application has a say in: `callbacks`, `score`, `backpressure`.
//!
//! Every background service is a step that takes `now`, and a dull loop around it. What must be decided is
//! decided by the store; the engine decides when to ask.

mod backpressure;
mod builder;
mod callbacks;
mod clock;
mod command;
mod complete;
mod cue;
mod dispatch;
mod error;
mod events;
mod execute;
mod failure;
mod heartbeat;
mod ids;
mod logs;
mod metrics;
mod new_job;
mod outage;
mod parked;
mod prune;
mod reap;
mod running;
mod schedule;
mod score;
mod shared;
mod start_within;
mod status;
mod stop;
mod task;
pub mod testing;
mod wait;
mod work;

pub use backpressure::BackpressureInfo;
pub use builder::CueBuilder;
pub use callbacks::{
    PriorityContext, dependency_check_db, dependency_check_file, priority_by_wait_time,
    priority_constant,
};
pub use clock::{Clock, SystemClock, VirtualClock};
pub use command::run_command;
pub use cue::{Cue, JobExt};
pub use error::{Error, Result};
pub use events::{Events, JobEvent};
pub use failure::Failure;
pub use ids::{IdSource, RandomIds, SeededIds};
pub use metrics::Metrics;
pub use new_job::NewJob;
pub use schedule::Schedule;
pub use task::{Handler, Task, from_fn};
pub use work::Work;

/// What makes spans; off unless a front switches it on.
pub use runcue_trace::Tracer;
