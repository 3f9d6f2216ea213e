//! Tasks that other processes store while a worker runs: it learns to run them, or to run them anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use runcue_core::{TaskName, TaskSpec};
use runcue_engine::{Cue, Error};
use runcue_store::{Store, StoreError};

use super::commands::Commands;
use crate::news::News;
use crate::stored_task::StoredTask;
use crate::trouble::Trouble;

/// Tasks are looked at no more often than this, however busy the queue is.
const SHORTEST: Duration = Duration::from_millis(500);
/// And no less often.
const LONGEST: Duration = Duration::from_secs(5);

/// Stored tasks that a worker can run.
pub async fn runnable(
    store: &dyn Store,
    only: &[String],
) -> Result<Vec<(TaskSpec, StoredTask)>, StoreError> {
    let tasks = store.tasks().await?.into_iter();
    let wanted = tasks.filter(|task| is_wanted(task.name.as_str(), only));
    Ok(wanted.filter_map(|spec| StoredTask::read(&spec).map(|stored| (spec, stored))).collect())
}

/// Whether a worker that runs only these tasks, or all if there are none, runs this one.
pub fn is_wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|wanted| wanted == name)
}

/// Learns what is stored, for as long as it is polled.
pub async fn follow_tasks(
    store: &dyn Store,
    cue: &Cue,
    commands: &Arc<Commands>,
    only: &[String],
    known: Vec<(TaskSpec, StoredTask)>,
) -> Result<(), Trouble> {
    let mut known: HashMap<TaskName, TaskSpec> =
        known.into_iter().map(|(spec, _)| (spec.name.clone(), spec)).collect();
    let mut news = News::begin(store).await;
    loop {
        match learn(store, cue, commands, only, &mut known).await {
            // The engine keeps trying, and says so; what is missed here is learned afterwards.
            Err(Error::Store(StoreError::Unavailable(_))) => {}
            learned => learned.map_err(super::trouble)?,
        }
        tokio::time::sleep(SHORTEST).await;
        news.wait(LONGEST).await;
    }
}

async fn learn(
    store: &dyn Store,
    cue: &Cue,
    commands: &Arc<Commands>,
    only: &[String],
    known: &mut HashMap<TaskName, TaskSpec>,
) -> Result<(), Error> {
    let stored = runnable(store, only).await?;
    let fresh = stored.into_iter().filter(|(spec, _)| known.get(&spec.name) != Some(spec));
    let fresh: Vec<_> = fresh.collect();
    let specs: Vec<TaskSpec> = fresh.iter().map(|(spec, _)| spec.clone()).collect();
    let tasks = fresh.into_iter().map(|(spec, task)| super::handled(commands, spec, task));
    cue.define_tasks(tasks.collect()).await?;
    known.extend(specs.into_iter().map(|spec| (spec.name.clone(), spec)));
    Ok(())
}
