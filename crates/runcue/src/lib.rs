//! One durable work queue that starts as a file and grows into a fleet.
//!
//! You say what there is to do (jobs), what it may use (services with limits) and what must come first
//! (dependencies); runcue decides what runs when, never exceeds a limit, survives crashes, and shows what is
//! happening.
//!
//! ```
//! use std::time::Duration;
//!
//! use runcue::{Cue, Failure, NewJob, Rate, RetryPolicy, ServiceName, ServiceSpec, Task};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Page {
//!     number: u32,
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}/queue.db", directory.path().display());
//! // At most 60 starts in any minute and five at once, also after a restart and across processes.
//! let openai = ServiceSpec {
//!     max_concurrent: Some(5),
//!     rates: vec![Rate { limit: 60, window: Duration::from_secs(60) }],
//!     ..ServiceSpec::new(ServiceName::new("openai")?)
//! };
//!
//! let extract = Task::new("extract")?
//!     .service("openai")?
//!     .timeout(Duration::from_secs(120))
//!     .retry(RetryPolicy::attempts(3))
//!     .handler(|work| async move {
//!         let page: Page = work.params()?;
//!         if page.number == 0 {
//!             return Err(Failure::permanent("pages are counted from one"));
//!         }
//!         Ok(format!("text of page {}", page.number))
//!     });
//! let upload = Task::new("upload")?.handler(|_| async { Ok("s3://bucket/page") });
//!
//! let cue = Cue::builder_on(runcue::open(&url)?) // sqlite:queue.db
//!     .service(openai)
//!     .task(extract)
//!     .task(upload)
//!     .build()
//!     .await?;
//! cue.start();
//!
//! let text = cue.submit(NewJob::of("extract").params(&Page { number: 7 })?).await?;
//! let done = cue.submit(NewJob::of("upload").depends_on([text])).await?;
//!
//! assert_eq!(cue.result::<String>(text).await?, "text of page 7");
//! assert_eq!(cue.result::<String>(done).await?, "s3://bucket/page");
//! cue.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Cue`] is the place to start, [`Task`] says how jobs are run, [`Work`] is what a handler sees, [`Failure`]
//! what it may answer. [`testing`] helps to test what you build.

mod address;

pub use address::{Address, AddressError, Kind, open};
pub use runcue_core as core;
pub use runcue_engine as engine;
pub use runcue_process as process;
pub use runcue_store as store;
#[cfg(feature = "lmdb")]
pub use runcue_store_lmdb as lmdb;
#[cfg(feature = "sqlite")]
pub use runcue_store_sqlite as sqlite;
pub use runcue_trace as trace;

pub use runcue_core::{
    Backoff, Capabilities, ClaimFilter, Event, EventKind, Job, JobFilter, JobId, Json, Missed,
    OnFull, Overlap, QueueSpec, Rate, Requires, RetryPolicy, ServiceName, ServiceSpec, StateWord,
    Timestamp, TraceParent,
};
pub use runcue_engine::{
    BackpressureInfo, Clock, Cue, CueBuilder, Error, Events, Failure, Handler, JobEvent, JobExt,
    Metrics, NewJob, PriorityContext, Result, Schedule, SystemClock, Task, VirtualClock, Work,
    dependency_check_db, dependency_check_file, from_fn, priority_by_wait_time, priority_constant,
    run_command, testing,
};
pub use runcue_process::{CommandSpec, ProcessPool};
pub use runcue_store::{MemoryStore, Retention, Store, StoreError};
#[cfg(feature = "lmdb")]
pub use runcue_store_lmdb::LmdbStore;
#[cfg(feature = "sqlite")]
pub use runcue_store_sqlite::SqliteStore;
