//! The command line `runcue`: verbs over any store, for people and for scripts.
//!
//! ```text
//! words ──cli──▶ verb ──store──▶ Arc<dyn Store> ──▶ view (data) ──▶ out (JSON, or tables in words)
//! ```
//!
//! - [`app`] is the way in: it reads the words, runs the verb and turns its end into an exit code.
//! - [`cli`] names the verbs and the global flags; [`verbs`] has one file per verb, named after it.
//! - [`view`] is every JSON shape, defined once; [`out`] is the only place that prints.
//! - [`store`] opens a store by its URL; [`job_ref`] finds the job that a shortened id means.
//! - [`plan`] is what a run file asks for against what the store has; [`runner`] runs commands until that is
//!   done; [`progress`] shows how far it is.
//! - [`traces`] are made and delivered if the environment says so.
//! - [`trouble`] is what a person reads when something does not work; [`exit`] what a script reads.

pub mod app;
pub mod chosen;
pub mod cli;
pub mod clock;
pub mod config;
pub mod exit;
pub mod gauge;
pub mod job_args;
pub mod job_line;
pub mod job_ref;
pub mod known;
pub mod nearest;
pub mod news;
pub mod out;
pub mod plan;
pub mod progress;
pub mod runfile;
pub mod runner;
pub mod screen;
pub mod store;
pub mod stored_task;
pub mod submit;
pub mod table;
pub mod traces;
pub mod trouble;
pub mod value;
pub mod verbs;
pub mod words;

/// Every JSON shape, defined once for all fronts.
pub use runcue_view as view;
