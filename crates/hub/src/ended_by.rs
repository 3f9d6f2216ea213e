//! Who ran the last attempt of jobs that have ended. A job keeps the workers of its failed attempts; who completed it, or
//! had it when it was withdrawn, stands only in the event of its end. Owns the way to that event: what this hub has
//! read as it happened is remembered; events are in the order of time, so others are looked up by the instant of the
//! end, and not by reading them all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use runcue_core::{Event, Job, JobId, Timestamp, WorkerId};
use runcue_store::{Store, StoreError};

/// Clocks of several processes that write events may differ by this much.
const SKEW: Duration = Duration::from_millis(500);
/// Events that are read at once, and how often, before an end is given up.
const BATCH: usize = 1_000;
const BATCHES: usize = 10;
/// Questions to the store for all jobs that are shown together. What is not found by then may be the next time.
const QUESTIONS: usize = 200;
/// Answers of one generation; two are remembered.
const MOST: usize = 50_000;

type End = (JobId, Timestamp);

/// Who ended jobs, as far as it is known.
#[derive(Debug, Default)]
pub struct EndedBy {
    found: Mutex<Found>,
}

/// The latest answers, and those before them.
#[derive(Debug, Default)]
struct Found {
    young: HashMap<End, Option<WorkerId>>,
    old: HashMap<End, Option<WorkerId>>,
}

impl Found {
    fn get(&self, end: &End) -> Option<Option<WorkerId>> {
        self.young.get(end).or_else(|| self.old.get(end)).copied()
    }

    fn put(&mut self, end: End, worker: Option<WorkerId>) {
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(end, worker);
    }
}

/// What a job itself says about who ran its last attempt.
enum Said {
    /// All there is to say.
    Worker(Option<WorkerId>),
    /// Only the event of its end tells.
    Asks(End),
}

fn said(job: &Job) -> Said {
    let life = &job.life;
    let Some(at) = life.finished_at.filter(|_| life.attempt > 0) else { return Said::Worker(None) };
    match life.failures.last().filter(|failure| failure.attempt == life.attempt) {
        Some(failed) => Said::Worker(failed.worker_id),
        None => Said::Asks((job.id(), at)),
    }
}

impl EndedBy {
    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of events that pass.
    pub fn add(&self, events: &[Event]) {
        let ends = events.iter().filter(|event| event.kind.is_final() && event.worker.is_some());
        let mut found = self.found();
        for event in ends {
            if let Some(job) = event.job {
                found.put((job, event.at), event.worker);
            }
        }
    }

    /// The worker of each job's last attempt; nothing if it never ran, has not ended, or that is no longer kept.
    pub async fn of(
        &self,
        store: &dyn Store,
        jobs: &[Job],
    ) -> Result<Vec<Option<WorkerId>>, StoreError> {
        let mut search = Search { store, questions: QUESTIONS, after: None };
        let mut ends: Vec<End> = jobs.iter().filter_map(|job| self.unknown(job)).collect();
        ends.sort_unstable_by_key(|(_, at)| *at);
        for end in ends {
            // Others of the same time were found on the way.
            if self.found().get(&end).is_some() {
                continue;
            }
            if !search.find(self, end).await? {
                break;
            }
        }
        Ok(jobs.iter().map(|job| self.known(job)).collect())
    }

    fn unknown(&self, job: &Job) -> Option<End> {
        match said(job) {
            Said::Asks(end) if self.found().get(&end).is_none() => Some(end),
            _ => None,
        }
    }

    fn known(&self, job: &Job) -> Option<WorkerId> {
        match said(job) {
            Said::Worker(worker) => worker,
            Said::Asks(end) => self.found().get(&end).flatten(),
        }
    }
}

/// A look through the events for ends, in the order of time.
struct Search<'a> {
    store: &'a dyn Store,
    questions: usize,
    /// Everything up to this event happened before what is looked for; nothing before the first look.
    after: Option<u64>,
}

impl Search<'_> {
    async fn events(&mut self, after: u64, limit: usize) -> Result<Option<Vec<Event>>, StoreError> {
        let Some(left) = self.questions.checked_sub(1) else { return Ok(None) };
        self.questions = left;
        self.store.events(after, limit).await.map(Some)
    }

    /// Looks for an end, and takes note of all it passes; answers whether there are questions left.
    async fn find(&mut self, found: &EndedBy, end: End) -> Result<bool, StoreError> {
        let Some(mut after) = self.before(end.1.minus(SKEW)).await? else { return Ok(false) };
        self.after = Some(after);
        for _ in 0..BATCHES {
            let Some(events) = self.events(after, BATCH).await? else { return Ok(false) };
            found.add(&events);
            if found.found().get(&end).is_some() {
                return Ok(true);
            }
            match events.last() {
                Some(last) if last.at <= end.1.plus(SKEW) => after = last.seq,
                _ => break,
            }
        }
        found.found().put(end, None);
        Ok(true)
    }

    /// A number of an event before all that happened from an instant on.
    async fn before(&mut self, at: Timestamp) -> Result<Option<u64>, StoreError> {
        let (mut low, mut high) = (self.after.unwrap_or(0), self.store.last_event().await?);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(next) = self.events(middle, 1).await? else { return Ok(None) };
            match next.first() {
                // What is no longer kept happened before, too.
                Some(event) if event.at < at => low = event.seq.min(high),
                _ => high = middle,
            }
        }
        Ok(Some(low))
    }
}

#[cfg(test)]
mod tests {
    use runcue_core::{JobSpec, TaskName};
    use runcue_store::{ClaimRequest, Finish, ListRequest, MemoryStore, Outcome, SubmitBatch};

    use super::*;

    /// Jobs that ended one after the other, each run by a worker of its number, with so many seconds between.
    async fn ended(store: &MemoryStore, count: u32, seconds: u64) -> Vec<Job> {
        let mut now = Timestamp::from_millis(1_000_000);
        for n in 1..=u128::from(count) {
            now = now.plus(Duration::from_secs(seconds));
            let spec = JobSpec::new(JobId::from_u128(n), TaskName::new("a").unwrap());
            store.submit(now, SubmitBatch::of(vec![spec])).await.unwrap();
            let request = ClaimRequest::new(WorkerId::from_u128(n), 1);
            let (_, lease) = store.claim(now, request).await.unwrap().jobs.pop().unwrap();
            let outcome = Outcome::Done { result: None, result_key: None };
            store.finish(now, vec![Finish { lease, outcome }]).await.unwrap();
        }
        let all = ListRequest { limit: 10_000, ..ListRequest::default() };
        store.list(all).await.unwrap().rows
    }

    fn its_own(job: &Job) -> Option<WorkerId> {
        Some(WorkerId::from_u128(job.id().as_u128()))
    }

    #[tokio::test]
    async fn who_ended_each_job_of_a_page_is_found_in_the_events() {
        for seconds in [0, 1] {
            let store = MemoryStore::new();
            let jobs = ended(&store, 300, seconds).await;
            let found = EndedBy::default().of(&store, &jobs).await.unwrap();
            assert_eq!(found, jobs.iter().map(its_own).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_page_of_ends_far_apart_is_found_in_several_goes_of_bounded_work() {
        let store = MemoryStore::new();
        let jobs = ended(&store, 6_000, 60).await;
        let sparse: Vec<Job> = jobs.into_iter().step_by(340).collect();
        let ended_by = EndedBy::default();
        let known = |found: &[Option<WorkerId>]| found.iter().flatten().count();
        let (mut before, mut goes) = (0, 0);
        while before < sparse.len() {
            let found = ended_by.of(&store, &sparse).await.unwrap();
            assert!(known(&found) > before, "every go finds some");
            assert!(
                sparse.iter().zip(&found).all(|(job, one)| one.is_none() || *one == its_own(job))
            );
            (before, goes) = (known(&found), goes + 1);
        }
        assert!(goes > 1, "one question must not cost as much as it likes");
    }

    #[tokio::test]
    async fn an_end_whose_event_is_gone_is_nobodys() {
        let store = MemoryStore::new();
        let jobs = ended(&store, 10, 1).await;
        let retention = runcue_store::Retention {
            events: runcue_store::Keep { age: Duration::from_secs(3600), count: 3 },
            ..runcue_store::Retention::default()
        };
        store.prune(Timestamp::from_millis(1_020_000), retention, false).await.unwrap();
        let ended_by = EndedBy::default();
        for _ in 0..2 {
            let found = ended_by.of(&store, &jobs).await.unwrap();
            assert_eq!(found[0], its_own(&jobs[0]));
            assert_eq!(found[9], None);
        }
    }
}
