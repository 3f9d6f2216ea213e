//! The scored path: which of the jobs that could run now are to run, and in what order, when the application
//! has a say. The store still decides whether each of them may.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_core::{JobId, Timestamp};
use runcue_store::{Candidate, ClaimRequest, Result};

use crate::callbacks::{Call, DependencyFn, PriorityContext, PriorityFn};
use crate::shared::Shared;

/// The score of a job whose callback gave none.
const DEFAULT: f64 = 0.5;
/// How long an answer holds.
const FRESH: Duration = Duration::from_millis(100);
/// How long we leave a job alone whose callback hung or panicked.
const SPARED: Duration = Duration::from_secs(10);
/// At least so many candidates are looked at, so that there is a choice.
const CHOICE: usize = 256;

/// Answers of callbacks that still hold.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    scores: HashMap<JobId, (f64, Timestamp)>,
    satisfied: HashMap<JobId, (bool, Timestamp)>,
}

impl Scores {
    fn kept(&self, now: Timestamp) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.scores.retain(|_, (_, until)| *until > now);
        kept.satisfied.retain(|_, (_, until)| *until > now);
        kept
    }
}

/// The jobs to claim, best first.
pub(crate) async fn choose(
    shared: &Shared,
    now: Timestamp,
    request: &ClaimRequest,
) -> Result<Vec<JobId>> {
    let look = ClaimRequest { max: request.max.saturating_mul(4).max(CHOICE), ..request.clone() };
    let mut candidates = shared.ask(shared.store.candidates(now, look)).await?;
    if let Some(check) = &shared.callbacks.dependency {
        candidates = satisfied(shared, now, check, candidates).await;
    }
    match &shared.callbacks.priority {
        Some(priority) => ordered(shared, now, priority, candidates).await,
        None => Ok(candidates.iter().map(|candidate| candidate.job.id()).collect()),
    }
}

/// Those whose prerequisites the application says are satisfied, every one.
async fn satisfied(
    shared: &Shared,
    now: Timestamp,
    check: &Arc<DependencyFn>,
    candidates: Vec<Candidate>,
) -> Vec<Candidate> {
    let needed: HashSet<JobId> =
        candidates.iter().flat_map(|candidate| candidate.job.spec.depends_on.clone()).collect();
    let mut answers: HashMap<JobId, bool> = HashMap::new();
    let mut unknown = Vec::new();
    {
        let kept = shared.scores.kept(now);
        for id in needed {
            match kept.satisfied.get(&id) {
                Some((answer, _)) => drop(answers.insert(id, *answer)),
                None => unknown.push(id),
            }
        }
    }
    let call = |id: &JobId| -> Call<bool> {
        let (check, id) = (Arc::clone(check), *id);
        Box::new(move || check(id))
    };
    let fresh = shared.callbacks.round(&shared.metrics, unknown.iter().map(call).collect()).await;
    let mut kept = shared.scores.kept(now);
    for (id, answer) in unknown.into_iter().zip(fresh) {
        let until = now.plus(if answer.is_some() { FRESH } else { SPARED });
        let answer = answer.unwrap_or(false);
        kept.satisfied.insert(id, (answer, until));
        answers.insert(id, answer);
    }
    drop(kept);
    let met = |candidate: &Candidate| {
        candidate.job.spec.depends_on.iter().all(|id| answers.get(id).copied().unwrap_or(false))
    };
    candidates.into_iter().filter(met).collect()
}

/// The candidates by score; equals stay in the order they came.
async fn ordered(
    shared: &Shared,
    now: Timestamp,
    priority: &Arc<PriorityFn>,
    candidates: Vec<Candidate>,
) -> Result<Vec<JobId>> {
    let order: Vec<JobId> = candidates.iter().map(|candidate| candidate.job.id()).collect();
    let unknown: Vec<Candidate> = {
        let kept = shared.scores.kept(now);
        let new = |candidate: &Candidate| !kept.scores.contains_key(&candidate.job.id());
        candidates.into_iter().filter(new).collect()
    };
    if !unknown.is_empty() {
        let depth = shared.ask(shared.store.stats(now)).await?.counts.queued;
        let ids: Vec<JobId> = unknown.iter().map(|candidate| candidate.job.id()).collect();
        let calls = unknown.into_iter().map(|candidate| score(priority, candidate, depth, now));
        let fresh = shared.callbacks.round(&shared.metrics, calls.collect()).await;
        let mut kept = shared.scores.kept(now);
        for (id, answer) in ids.into_iter().zip(fresh) {
            let until = now.plus(if answer.is_some() { FRESH } else { SPARED });
            kept.scores.insert(id, (clamp(answer), until));
        }
    }
    let kept = shared.scores.kept(now);
    let score_of = |id: &JobId| kept.scores.get(id).map_or(DEFAULT, |(score, _)| *score);
    let mut scored: Vec<(f64, JobId)> = order.iter().map(|id| (score_of(id), *id)).collect();
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(scored.into_iter().map(|(_, id)| id).collect())
}

fn score(
    priority: &Arc<PriorityFn>,
    candidate: Candidate,
    queue_depth: u64,
    now: Timestamp,
) -> Call<f64> {
    let priority = Arc::clone(priority);
    Box::new(move || {
        let pressure = candidate.pressure.into_iter();
        let service_pressure: BTreeMap<String, f64> =
            pressure.map(|(name, load)| (name.as_str().to_owned(), load)).collect();
        priority(&PriorityContext {
            work: &candidate.job,
            queue_depth,
            service_pressure: &service_pressure,
            wait_time: now.since(candidate.job.life.queued_at),
        })
    })
}

fn clamp(answer: Option<f64>) -> f64 {
    match answer {
        Some(score) if !score.is_nan() => score.clamp(0.0, 1.0),
        _ => DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_outside_the_range_are_brought_into_it() {
        let scores = [None, Some(f64::NAN), Some(-1.0), Some(7.0), Some(0.25)].map(clamp);
        assert_eq!(scores, [0.5, 0.5, 0.0, 1.0, 0.25]);
    }
}
