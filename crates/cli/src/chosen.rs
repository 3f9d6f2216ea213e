//! Which jobs a bulk action means: named ones, or all of a filter; and what a dry run says of them.

use std::collections::BTreeSet;

use runcue_core::{Job, JobFilter, StateWord, TaskName};
use runcue_store::{ListRequest, Store};
use serde::Serialize;

use crate::app::App;
use crate::trouble::Trouble;
use crate::{job_ref, known, words};

const PAGE: usize = 1_000;
/// How many jobs a dry run shows to a person.
const SHOWN: usize = 10;

/// Flags that choose jobs.
#[derive(Debug, Default, clap::Args)]
pub struct Choice {
    /// Jobs: their ids, digits from either end, or @last
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All of this group
    #[arg(long, conflicts_with = "ids")]
    pub group: Option<String>,
    /// All of this task
    #[arg(long, conflicts_with = "ids")]
    pub task: Option<TaskName>,
    /// Only say which jobs it would be
    #[arg(long)]
    pub dry_run: bool,
}

impl Choice {
    /// Refuses a choice of nothing, which a filter would take for everything.
    pub fn require(&self, everything: bool, flag: &str) -> Result<(), Trouble> {
        let some = !self.ids.is_empty() || self.group.is_some() || self.task.is_some();
        if some || everything {
            return Ok(());
        }
        let help = format!("name jobs by their ids, or choose with --group, --task or {flag}");
        Err(Trouble::usage("which jobs?").help(help))
    }

    /// The jobs as a filter. Named jobs are looked up first; `states` bounds a bulk choice.
    pub async fn filter(
        &self,
        store: &dyn Store,
        states: &[StateWord],
    ) -> Result<(JobFilter, Vec<Job>), Trouble> {
        if !self.ids.is_empty() {
            let jobs = job_ref::many(store, &self.ids).await?;
            return Ok((JobFilter::of_ids(jobs.iter().map(Job::id)), jobs));
        }
        let group = match &self.group {
            Some(name) => Some(known::group(store, name).await?),
            None => None,
        };
        let filter = JobFilter { group, task: self.task.clone(), ..JobFilter::default() };
        Ok((filter.in_states(states.iter().copied()), Vec::new()))
    }
}

/// What an action did, or would do.
#[derive(Debug, Serialize)]
pub struct Changed {
    /// How many jobs.
    pub count: u64,
    /// Whether nothing was done yet.
    pub dry_run: bool,
}

/// Says which jobs would be changed.
pub async fn rehearse(
    app: &App,
    store: &dyn Store,
    mut filter: JobFilter,
    states: &[StateWord],
    verb: &str,
) -> Result<(), Trouble> {
    let bounds: BTreeSet<StateWord> = states.iter().copied().collect();
    filter.states = if filter.states.is_empty() { bounds } else { filter.states };
    let (mut count, mut some, mut before) = (0, Vec::new(), None);
    loop {
        let request = ListRequest { filter: filter.clone(), before, limit: PAGE };
        let page = store.list(request).await?;
        count += page.rows.len() as u64;
        some.extend(page.rows.into_iter().take(SHOWN - some.len().min(SHOWN)));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    if app.out.json {
        return app.out.document(&Changed { count, dry_run: true });
    }
    app.out.say(format!("{verb} {}", words::count(count, "job")))?;
    for job in &some {
        let state = job.life.state.word();
        app.out.say(format!("  {} {state} {}", words::short(job.id()), words::about(job, 60)))?;
    }
    let more = count.saturating_sub(some.len() as u64);
    if more > 0 { app.out.say(format!("  and {more} more")) } else { Ok(()) }
}

/// Says how many jobs were changed, and what is the matter with named ones that were not.
pub fn tell(app: &App, count: u64, verb: &str, untouched: &[&Job]) -> Result<(), Trouble> {
    if app.out.json {
        return app.out.document(&Changed { count, dry_run: false });
    }
    for job in untouched {
        let state = job.life.state.word();
        app.out.note(format!("job {} is {state}: nothing to do", words::short(job.id())));
    }
    app.out.say(format!("{verb} {}", words::count(count, "job")))
}
