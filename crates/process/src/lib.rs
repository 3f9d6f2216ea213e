//! How a command is run: spawned in a process group of its own, read with a bound, stopped whole.
//!
//! Owns child processes from spawn to reap. Refuses to know what a queue, a job or a retry is: it is given a
//! command line and limits, and says how it ended. The engine's subprocess and process-pool executors call it,
//! and so does the agent.
//!
//! - [`run`](run()) runs one [`CommandSpec`] within [`Limits`] and captures the tail of its output.
//! - [`progress`] is the line protocol by which a command may report back.
//! - [`ProcessPool`] keeps worker processes alive between calls; [`pool::serve`] is their side.
//! - [`Guard`] makes sure that nothing outlives us when we are killed with SIGKILL.
//! - [`signal`] asks and tells processes things.

pub mod capture;
pub mod command;
pub mod guard;
pub mod pool;
pub mod progress;
pub mod run;
pub mod signal;
pub mod spawn;

mod group;

pub use capture::Captured;
pub use command::CommandSpec;
pub use guard::Guard;
pub use pool::{PoolError, ProcessPool};
pub use progress::Line;
pub use run::{Exit, Finished, Limits, Output, Stream, run};
pub use spawn::SpawnError;
