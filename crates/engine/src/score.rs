//! The scored path: which of the jobs that could run now are to run, and in what order, when the application
//! has a say. The store still decides whether each of them may.
//!
//! Jobs whose prerequisites the application does not confirm are passed over, and the store is asked for
//! what stands behind them, page by page, until there are enough. One dispatch looks at a few pages; if it
//! ends before the jobs do, what it passed over stays passed over for a while and the next one goes on
//! behind it. So however many jobs are turned down, they hide none for ever and stall nobody.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_core::{GroupName, JobId, Seq, Timestamp};
use runcue_store::{Candidate, Candidates, ClaimRequest, Result};

use crate::callbacks::{Answer, Call, DependencyFn, PriorityContext, PriorityFn};
use crate::dispatch::earliest;
use crate::shared::Shared;

/// The score of a job whose callback gave none.
const DEFAULT: f64 = 0.5;
/// How long an answer holds.
const FRESH: Duration = Duration::from_millis(100);
/// How long we leave a job alone whose callback hung or panicked.
const SPARED: Duration = Duration::from_secs(10);
/// At least so many candidates are looked at, so that there is a choice.
const CHOICE: usize = 256;
/// So many pages one dispatch looks at, each twice as long as the one before.
const PAGES: u32 = 4;
/// How long jobs stay passed over after a dispatch that did not get to the end.
const PASSED: Duration = Duration::from_secs(2);

/// Answers of callbacks that still hold.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    scores: HashMap<JobId, (f64, Timestamp)>,
    satisfied: HashMap<JobId, (bool, Timestamp)>,
    /// Jobs that were turned down.
    passed: HashMap<Seq, Timestamp>,
}

impl Scores {
    fn kept(&self, now: Timestamp) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.scores.retain(|_, (_, until)| *until > now);
        kept.satisfied.retain(|_, (_, until)| *until > now);
        kept.passed.retain(|_, until| *until > now);
        kept
    }
}

/// What to claim.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// The jobs, best first.
    pub(crate) jobs: Vec<JobId>,
    /// When to look again by itself.
    pub(crate) wake: Option<Timestamp>,
}

/// The jobs to claim.
pub(crate) async fn choose(
    shared: &Shared,
    now: Timestamp,
    request: &ClaimRequest,
) -> Result<Choice> {
    let look = ClaimRequest { max: request.max.saturating_mul(4).max(CHOICE), ..request.clone() };
    let found = match &shared.callbacks.dependency {
        Some(check) => confirmed(shared, now, check, look, request.max).await?,
        None => shared.ask(shared.store.candidates(now, look, HashSet::new())).await?,
    };
    let jobs = match &shared.callbacks.priority {
        Some(priority) => ordered(shared, now, priority, found.jobs).await?,
        None => in_turn(found.jobs),
    };
    Ok(Choice { jobs, wake: found.wake })
}

/// Candidates whose prerequisites the application confirms: as many as are wanted, if there are.
async fn confirmed(
    shared: &Shared,
    now: Timestamp,
    check: &Arc<DependencyFn>,
    mut look: ClaimRequest,
    wanted: usize,
) -> Result<Candidates> {
    let mut passed: HashSet<Seq> = shared.scores.kept(now).passed.keys().copied().collect();
    let mut found = Candidates::default();
    // What was chosen already is not to come again with the next page either.
    let mut seen = passed.clone();
    for page in 1..=PAGES {
        let next = shared.ask(shared.store.candidates(now, look.clone(), seen.clone())).await?;
        found.wake = earliest(found.wake, next.wake);
        if next.jobs.is_empty() {
            return Ok(found);
        }
        seen.extend(next.jobs.iter().map(|candidate| candidate.job.seq));
        let verdicts = satisfied(shared, now, check, &next.jobs).await;
        let unfinished = verdicts.contains(&None);
        for (candidate, verdict) in next.jobs.into_iter().zip(verdicts) {
            match verdict {
                Some(true) => found.jobs.push(candidate),
                Some(false) => drop(passed.insert(candidate.job.seq)),
                None => {}
            }
        }
        if found.jobs.len() >= wanted {
            break;
        }
        if unfinished || page == PAGES {
            // The next dispatch, which comes soon, goes on from here.
            let until = now.plus(PASSED);
            let later = passed.iter().map(|seq| (*seq, until));
            shared.scores.kept(now).passed.extend(later);
            found.wake = earliest(found.wake, Some(now.plus(FRESH)));
            break;
        }
        look.max = look.max.saturating_mul(2);
    }
    Ok(found)
}

/// Whether the application says that all prerequisites of each candidate are satisfied; nothing where there
/// was no time to ask.
async fn satisfied(
    shared: &Shared,
    now: Timestamp,
    check: &Arc<DependencyFn>,
    candidates: &[Candidate],
) -> Vec<Option<bool>> {
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
        let (answer, holds) = match answer {
            Answer::Given(answer) => (answer, FRESH),
            Answer::Failed => (false, SPARED),
            Answer::NotReached => continue,
        };
        kept.satisfied.insert(id, (answer, now.plus(holds)));
        answers.insert(id, answer);
    }
    drop(kept);
    let verdict = |candidate: &Candidate| {
        let needed = &candidate.job.spec.depends_on;
        if needed.iter().any(|id| answers.get(id) == Some(&false)) {
            return Some(false);
        }
        needed.iter().all(|id| answers.contains_key(id)).then_some(true)
    };
    candidates.iter().map(verdict).collect()
}

/// The candidates in the order in which a plain claim would take them: groups take turns, the best of each
/// first.
fn in_turn(candidates: Vec<Candidate>) -> Vec<JobId> {
    let mut places: HashMap<Option<GroupName>, usize> = HashMap::new();
    let mut queues: Vec<Vec<(Reverse<i32>, Seq, JobId)>> = Vec::new();
    for Candidate { job, .. } in candidates {
        let place = *places.entry(job.spec.group.clone()).or_insert_with(|| {
            queues.push(Vec::new());
            queues.len() - 1
        });
        queues[place].push((Reverse(job.spec.priority), job.seq, job.id()));
    }
    let mut turns: Vec<(usize, usize, JobId)> = Vec::new();
    for (place, queue) in queues.iter_mut().enumerate() {
        queue.sort_unstable();
        turns.extend(queue.iter().enumerate().map(|(round, (_, _, id))| (round, place, *id)));
    }
    turns.sort_by_key(|(round, place, _)| (*round, *place));
    turns.into_iter().map(|(_, _, id)| id).collect()
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
            let (score, holds) = match answer {
                Answer::Given(score) => (clamp(score), FRESH),
                Answer::Failed => (DEFAULT, SPARED),
                Answer::NotReached => continue,
            };
            kept.scores.insert(id, (score, now.plus(holds)));
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

fn clamp(score: f64) -> f64 {
    if score.is_nan() { DEFAULT } else { score.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_outside_the_range_are_brought_into_it() {
        let scores = [f64::NAN, -1.0, 7.0, 0.25].map(clamp);
        assert_eq!(scores, [0.5, 0.0, 1.0, 0.25]);
    }
}
