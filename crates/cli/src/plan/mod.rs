//! What a run file asks for, against what the store has of it from earlier runs.
//!
//! ```text
//! jobs of the file ──ids──▶ what the store has ──compare──▶ new, going on, done, to retry, to replace
//! ```
//!
//! A job of a file has the same id in every run ([`FileKey`]), so running the file again goes on where it
//! stopped. A job that is to be done differently than it was submitted is replaced by its next generation,
//! because what was submitted never changes. Nothing is written here but by [`Plan::carry_out`].

mod compare;
mod ids;
mod translate;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use runcue_core::{JobFilter, JobId, JobSpec, StateWord, Timestamp};
use runcue_store::{ListRequest, Store, StoreError, Submitted};

use crate::app::App;
use crate::clock;
use crate::runfile::{JobDef, RunFile};
use crate::stored_task::StoredTask;
use crate::submit::submit;
use crate::trouble::Trouble;

pub use compare::{Found, Step};
pub use ids::FileKey;
pub use translate::{schedules, services, tasks};

/// Which completed jobs are done again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redo {
    /// None.
    #[default]
    Nothing,
    /// Those that changed since, and those that depend on them.
    Changed,
    /// All.
    Everything,
}

/// A run file where it stands.
#[derive(Debug)]
pub struct Source {
    /// What it says.
    pub file: RunFile,
    /// What tells it from other files.
    pub key: FileKey,
    /// Its directory, in which its commands run.
    pub directory: PathBuf,
}

impl Source {
    /// A file that was read from a path.
    pub fn new(file: RunFile, path: &Path) -> Result<Self, Trouble> {
        let whole = path.canonicalize().map_err(|error| {
            Trouble::usage(format!("{} cannot be found: {error}", path.display()))
        })?;
        let directory = whole.parent().unwrap_or(Path::new("/")).to_owned();
        let key = FileKey::new(file.name.as_deref(), &whole);
        Ok(Self { file, key, directory })
    }
}

/// What is to be done about one job of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The job's place in the file.
    pub index: usize,
    /// Its id in the store.
    pub id: JobId,
    /// What is to be done.
    pub step: Step,
}

/// What is to be done about all of them.
#[derive(Debug)]
pub struct Plan {
    /// In the order of the file.
    pub jobs: Vec<Planned>,
    /// Completed jobs, by their place in the file, that would be done differently now.
    pub changed: Vec<usize>,
    specs: HashMap<JobId, JobSpec>,
}

impl Plan {
    /// Compares a file with a store.
    pub fn new(
        source: &Source,
        found: &Found,
        redo: Redo,
        now: Timestamp,
    ) -> Result<Self, Trouble> {
        compare::compare(source, found, redo, now)
    }

    /// How many jobs have a step.
    pub fn count(&self, step: fn(&Step) -> bool) -> u64 {
        self.jobs.iter().filter(|job| step(&job.step)).count() as u64
    }

    /// Withdraws what is replaced, submits what is new and sends round again what ended badly. Cut short
    /// at any point, the next run goes on from there. Answers the id that each job of the file has.
    pub async fn carry_out(
        mut self,
        store: &dyn Store,
        defs: &[JobDef],
        app: &App,
    ) -> Result<Vec<JobId>, Trouble> {
        let replaced = self.jobs.iter().filter_map(|job| match job.step {
            Step::Replace { queued: Some(old) } => Some(old),
            _ => None,
        });
        let replaced: Vec<JobId> = replaced.collect();
        if !replaced.is_empty() {
            store.cancel(clock::now(), JobFilter::of_ids(replaced), false).await?;
        }
        let new: Vec<usize> =
            (0..self.jobs.len()).filter(|n| self.jobs[*n].step.submits()).collect();
        let specs: Vec<JobSpec> =
            new.iter().filter_map(|n| self.specs.remove(&self.jobs[*n].id)).collect();
        if !specs.is_empty() {
            let names: Vec<&str> =
                new.iter().map(|n| defs[self.jobs[*n].index].id.as_str()).collect();
            let submitted = submit_named(store, specs, &names, app).await?;
            for (n, id) in new.iter().zip(submitted) {
                self.jobs[*n].id = id;
            }
        }
        let ended = self.jobs.iter().filter(|job| job.step == Step::Retry).map(|job| job.id);
        let ended: Vec<JobId> = ended.collect();
        if !ended.is_empty() {
            store.retry(clock::now(), JobFilter::of_ids(ended)).await?;
        }
        Ok(self.jobs.iter().map(|job| job.id).collect())
    }
}

/// Submits; what is refused is named as the file names it.
async fn submit_named(
    store: &dyn Store,
    specs: Vec<JobSpec>,
    names: &[&str],
    app: &App,
) -> Result<Vec<JobId>, Trouble> {
    let submitted = submit(store, specs, app).await.map_err(|error| {
        let name = refused_at(&error).and_then(|place| names.get(place));
        match (name, Trouble::from(error)) {
            (Some(name), Trouble::Told { says, help, exit }) => {
                Trouble::Told { says: format!("{name}: {says}"), help, exit }
            }
            (_, trouble) => trouble,
        }
    })?;
    Ok(submitted.into_iter().map(Submitted::id).collect())
}

/// The place in the submission of the job that was refused.
fn refused_at(error: &StoreError) -> Option<usize> {
    match error {
        StoreError::Invalid { index, .. }
        | StoreError::UnknownService { index, .. }
        | StoreError::NeverFits { index, .. }
        | StoreError::UnknownPrerequisite { index, .. }
        | StoreError::RepeatedId { index, .. }
        | StoreError::KeyTaken { index, .. } => Some(*index),
        _ => None,
    }
}

/// Whether the store has the tasks of a file from an earlier run.
pub async fn was_run(store: &dyn Store, source: &Source) -> Result<bool, Trouble> {
    let tasks = store.tasks().await?;
    let mut stored = tasks.iter().filter_map(StoredTask::read);
    Ok(stored.any(|stored| stored.file == source.key.name()))
}

/// Refuses a file whose tasks would change what waiting jobs of another file do.
pub async fn check_tasks(store: &dyn Store, source: &Source) -> Result<(), Trouble> {
    for task in store.tasks().await? {
        let ours = source.file.tasks.contains_key(task.name.as_str());
        let Some(stored) = StoredTask::read(&task).filter(|_| ours) else { continue };
        if stored.file == source.key.name() {
            continue;
        }
        let filter = JobFilter { task: Some(task.name.clone()), ..JobFilter::default() }
            .in_states([StateWord::Queued, StateWord::Leased, StateWord::Running]);
        let live = store.list(ListRequest { filter, before: None, limit: 1 }).await?;
        if !live.rows.is_empty() {
            let says = format!(
                "task {} belongs to {}, whose jobs are still waiting in this queue",
                task.name, stored.file
            );
            return Err(Trouble::usage(says)
                .help("give the task another name, or keep the files apart with --store"));
        }
    }
    Ok(())
}
