//! What is to be done about each job of a file, given what the store has of it. Pure but for [`Found::look`],
//! which asks the store.

use std::collections::{HashMap, VecDeque};

use runcue_core::{Job, JobId, JobSpec, StateWord, Timestamp};
use runcue_store::Store;

use super::{Plan, Planned, Redo, Source, translate};
use crate::stored_task::Origin;
use crate::trouble::Trouble;

/// How many jobs are asked for at a time.
const PAGE: usize = 5_000;

/// What is to be done about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It was never submitted.
    Submit,
    /// It waits or runs already.
    GoOn,
    /// It is done.
    Done,
    /// It ended badly and is sent round again as it is.
    Retry,
    /// It is to be done differently than it was submitted; what still waits of it is withdrawn.
    Replace {
        /// The waiting job.
        queued: Option<JobId>,
    },
    /// It was done and is done again.
    Again,
}

impl Step {
    /// Whether a job is submitted.
    pub fn submits(&self) -> bool {
        matches!(self, Self::Submit | Self::Replace { .. } | Self::Again)
    }
}

/// The latest generation of each job of a file that the store has, by place in the file.
#[derive(Debug, Default)]
pub struct Found {
    latest: HashMap<usize, (u32, Job)>,
}

impl Found {
    /// Looks every job up, generation after generation.
    pub async fn look(store: &dyn Store, source: &Source) -> Result<Self, Trouble> {
        let mut found = Self::default();
        let mut wanted: Vec<usize> = (0..source.file.jobs.len()).collect();
        let mut generation = 0;
        while !wanted.is_empty() {
            let mut further = Vec::new();
            for page in wanted.chunks(PAGE) {
                let id = |n: &usize| source.key.id(&source.file.jobs[*n].id, generation);
                let jobs = store.get(page.iter().map(id).collect()).await?;
                for (n, job) in page.iter().zip(jobs) {
                    if let Some(job) = job {
                        found.latest.insert(*n, (generation, job));
                        further.push(*n);
                    }
                }
            }
            wanted = further;
            generation += 1;
        }
        Ok(found)
    }

    /// When the first of them that is still known was submitted.
    pub fn since(&self) -> Option<Timestamp> {
        self.latest.values().map(|(_, job)| job.life.created_at).min()
    }

    /// Whether nothing of the file was ever submitted.
    pub fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }
}

pub(super) fn compare(
    source: &Source,
    found: &Found,
    redo: Redo,
    now: Timestamp,
) -> Result<Plan, Trouble> {
    let defs = &source.file.jobs;
    let places: HashMap<&str, usize> =
        defs.iter().enumerate().map(|(n, def)| (def.id.as_str(), n)).collect();
    let before: Vec<Vec<usize>> = defs
        .iter()
        .map(|def| {
            def.depends_on.iter().filter_map(|id| places.get(id.as_str()).copied()).collect()
        })
        .collect();
    let mut planned: Vec<Option<Planned>> = vec![None; defs.len()];
    let mut plan = Plan { jobs: Vec::new(), changed: Vec::new(), specs: HashMap::new() };
    for index in in_order(&before) {
        let firsts: Vec<&Planned> =
            before[index].iter().filter_map(|n| planned[*n].as_ref()).collect();
        let depends_on: Vec<JobId> = firsts.iter().map(|first| first.id).collect();
        let redone = firsts.iter().any(|first| first.step == Step::Again);
        let decided = decide(source, found, index, depends_on, redo, redone, now)?;
        if decided.changed {
            plan.changed.push(index);
        }
        if let Some(spec) = decided.spec {
            plan.specs.insert(decided.planned.id, spec);
        }
        planned[index] = Some(decided.planned);
    }
    plan.changed.sort_unstable();
    plan.jobs = planned.into_iter().flatten().collect();
    Ok(plan)
}

/// Prerequisites before their dependents. The reader has refused circles.
fn in_order(before: &[Vec<usize>]) -> Vec<usize> {
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    for (n, firsts) in before.iter().enumerate() {
        for first in firsts {
            after[*first].push(n);
        }
    }
    let mut ready: VecDeque<usize> = (0..before.len()).filter(|n| left[*n] == 0).collect();
    let mut order = Vec::with_capacity(before.len());
    while let Some(n) = ready.pop_front() {
        order.push(n);
        for next in &after[n] {
            left[*next] -= 1;
            if left[*next] == 0 {
                ready.push_back(*next);
            }
        }
    }
    order
}

struct Decided {
    planned: Planned,
    spec: Option<JobSpec>,
    changed: bool,
}

fn decide(
    source: &Source,
    found: &Found,
    index: usize,
    depends_on: Vec<JobId>,
    redo: Redo,
    redone: bool,
    now: Timestamp,
) -> Result<Decided, Trouble> {
    let def = &source.file.jobs[index];
    let submit = |generation: u32, step: Step, changed: bool| -> Result<Decided, Trouble> {
        let id = source.key.id(&def.id, generation);
        let spec = translate::job(source, def, id, depends_on.clone(), now)?;
        Ok(Decided { planned: Planned { index, id, step }, spec: Some(spec), changed })
    };
    let Some((generation, job)) = found.latest.get(&index) else {
        return submit(0, Step::Submit, false);
    };
    let keep = |step: Step, changed: bool| {
        Ok(Decided { planned: Planned { index, id: job.id(), step }, spec: None, changed })
    };
    match job.life.state.word() {
        StateWord::Completed => {
            let then = Origin::of(&job.spec).map(|origin| origin.fingerprint);
            let changed = then.is_some_and(|then| then != def.fingerprint());
            let again = redone || redo == Redo::Everything || (changed && redo == Redo::Changed);
            if again {
                submit(generation + 1, Step::Again, changed)
            } else {
                keep(Step::Done, changed)
            }
        }
        StateWord::Leased | StateWord::Running => keep(Step::GoOn, false),
        state => {
            let mut wanted = translate::job(source, def, job.id(), depends_on.clone(), now)?;
            // Instants that are counted from the submission stay what they were.
            wanted.run_at = job.spec.run_at;
            wanted.expires_at = job.spec.expires_at;
            let waits = state == StateWord::Queued;
            // A deadline that has passed would end it again at once.
            let expired = job.spec.expires_at.is_some_and(|at| at <= now);
            match (wanted == *job.spec && !expired, waits) {
                (true, true) => keep(Step::GoOn, false),
                (true, false) => keep(Step::Retry, false),
                (false, waits) => {
                    let queued = waits.then(|| job.id());
                    submit(generation + 1, Step::Replace { queued }, false)
                }
            }
        }
    }
}
