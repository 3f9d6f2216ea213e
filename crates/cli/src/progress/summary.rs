//! What came of a run: counts, and what failed with how to see why.

use runcue_core::{JobId, StateWord, Timestamp};
use runcue_store::Store;
use serde::Serialize;

use super::tracker::{Phase, Tracker};
use crate::out::{Out, fitted, is_terminal, width};
use crate::trouble::Trouble;
use crate::words;

/// How many failures are shown.
const SHOWN: usize = 10;

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryView {
    /// `summary`, to tell it from the events before it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// All jobs.
    pub jobs: u64,
    /// Done.
    pub completed: u64,
    /// Failed or set aside.
    pub failed: u64,
    /// Withdrawn.
    pub cancelled: u64,
    /// Neither: the run was stopped before.
    pub unfinished: u64,
    /// Seconds it took.
    pub took: f64,
    /// Some of those that failed.
    pub failures: Vec<Failed>,
}

/// A job that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Its id.
    pub id: JobId,
    /// Its id in the file, or what it is about.
    pub name: String,
    /// Where it is in its life.
    pub state: StateWord,
    /// What went wrong.
    pub error: Option<String>,
}

impl SummaryView {
    /// Sums a run up.
    pub async fn new(
        store: &dyn Store,
        tracker: &Tracker,
        now: Timestamp,
    ) -> Result<Self, Trouble> {
        let counts = tracker.counts();
        let failed = tracker.in_phase(Phase::Failed, usize::MAX);
        // Those that failed by themselves come before those that only waited for them.
        let ids: Vec<JobId> = failed.iter().take(1_000).map(|(id, _)| *id).collect();
        let jobs = store.get(ids).await?;
        let mut failures: Vec<(bool, Failed)> = Vec::new();
        for ((id, name), job) in failed.into_iter().zip(jobs) {
            let Some(job) = job else { continue };
            let (state, error) = (job.life.state.word(), job.life.last_error.clone());
            failures.push((job.life.attempt == 0, Failed { id, name, state, error }));
        }
        failures.sort_by_key(|(only_waited, _)| *only_waited);
        Ok(Self {
            kind: "summary",
            jobs: counts.total(),
            completed: counts.completed,
            failed: counts.failed,
            cancelled: counts.cancelled,
            unfinished: counts.waiting + counts.running,
            took: now.since(tracker.began()).as_secs_f64(),
            failures: failures.into_iter().map(|(_, failed)| failed).take(SHOWN).collect(),
        })
    }

    /// Whether every job is done.
    pub fn is_good(&self) -> bool {
        self.completed == self.jobs
    }
}

/// Tells what came of a run; `again` is how to go on.
pub fn tell(summary: &SummaryView, again: &str, out: Out) -> Result<(), Trouble> {
    if out.json {
        return out.record(summary);
    }
    let took = std::time::Duration::try_from_secs_f64(summary.took).unwrap_or_default();
    let mut parts =
        vec![format!("{} of {} completed", summary.completed, words::count(summary.jobs, "job"))];
    let others = [
        (summary.failed, "failed"),
        (summary.cancelled, "cancelled"),
        (summary.unfinished, "unfinished"),
    ];
    parts.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")));
    out.say(format!("{} in {}", parts.join(", "), words::span(took)))?;
    for failed in &summary.failures {
        let error = failed.error.as_deref().unwrap_or("no reason was given");
        let (name, error) = (words::one_line(&failed.name, 40), words::one_line(error, 100));
        out.say(format!("  {} {} {name}: {error}", words::short(failed.id), failed.state))?;
    }
    let more = summary.failed.saturating_sub(summary.failures.len() as u64);
    if more > 0 {
        out.say(format!("  and {more} more: runcue list --state failed,quarantined"))?;
    }
    if let Some(first) = summary.failures.first() {
        let id = words::short(first.id);
        let (why, wrote) =
            (format!("see why: runcue show {id}"), format!("what it wrote: runcue logs {id}"));
        out.say(fitted(&why, "    ", &wrote, width(is_terminal())))?;
    }
    if !summary.is_good() {
        out.say(format!("go on: {again}"))?;
    }
    Ok(())
}
