//! The desk: claims that wait until there is work. Owns who waits, and wakes as few of them as there is work for:
//! when there is news, the first of each kind of worker asks the store; if it goes away empty, so would all
//! others of its kind, and they are not asked. A thousand idle workers cost one claim per piece of news.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use runcue_core::{Job, Lease, Timestamp};
use runcue_engine::Clock;
use runcue_store::{ClaimRequest, Claimed, Finish, Outcome, Store};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// How many waiting claims of one kind are put to the store at the same time, which commits them together.
const AT_ONCE: usize = 8;
/// How many kinds are looked for at the same time: machines of different sizes are of different kinds, and the claims
/// of all of them are committed together.
const KINDS: usize = 64;
/// How often everything is looked at when no news comes.
const POLL: Duration = Duration::from_secs(1);
/// The pause after a look that found nothing: a busy store has news all the time.
const REST: Duration = Duration::from_millis(2);

/// Jobs on their way to a worker. If it is gone before they are there, nobody has seen them, and they go back at once.
pub struct OnTheWay {
    desk: Arc<Desk>,
    jobs: Vec<(Job, Lease)>,
}

impl OnTheWay {
    /// The jobs, which are the worker's from now on.
    pub fn into_jobs(mut self) -> Vec<(Job, Lease)> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let (desk, jobs) = (Arc::clone(&self.desk), std::mem::take(&mut self.jobs));
        tokio::spawn(async move { desk.hand_back(jobs).await });
    }
}

struct Waiting {
    request: ClaimRequest,
    reply: oneshot::Sender<OnTheWay>,
}

/// Claims that wait.
pub struct Desk {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// By kind: what they accept and what they offer.
    waiting: Mutex<BTreeMap<String, VecDeque<Waiting>>>,
    bell: Notify,
}

/// What a look at the waiting claims gave.
#[derive(Debug, Default)]
struct Look {
    found: bool,
    wake: Option<Timestamp>,
}

impl Desk {
    /// A desk nobody waits at.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, waiting: Mutex::default(), bell: Notify::new() }
    }

    /// Claims now or, if there is nothing, as soon as there is, for as long as is waited.
    pub async fn claim(
        self: &Arc<Self>,
        request: ClaimRequest,
        wait: Duration,
    ) -> runcue_store::Result<OnTheWay> {
        let claimed = self.claim_now(request.clone()).await?;
        if !claimed.jobs.is_empty() || wait.is_zero() {
            return Ok(claimed);
        }
        let (reply, answer) = oneshot::channel();
        self.add(Waiting { request, reply });
        self.bell.notify_one();
        match tokio::time::timeout(wait, answer).await {
            Ok(Ok(found)) => Ok(found),
            // Nothing came in time, or the hub ends; whoever still wants work asks again.
            Ok(Err(_)) | Err(_) => Ok(claimed),
        }
    }

    /// Claims in a task of its own, because a claimer may go away at any time and what is being written is written.
    async fn claim_now(self: &Arc<Self>, request: ClaimRequest) -> runcue_store::Result<OnTheWay> {
        let (reply, answer) = oneshot::channel();
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let claimed = desk.store.claim(desk.clock.now(), request).await;
            // Nobody there to read it: it goes back by itself.
            let _ = reply.send(claimed.map(|claimed| OnTheWay { jobs: claimed.jobs, desk }));
        });
        match answer.await {
            Ok(claimed) => claimed,
            Err(_) => {
                Err(runcue_store::StoreError::Unavailable("the claim was given up".to_owned()))
            }
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, VecDeque<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, one: Waiting) {
        let kind = format!("{:?} {:?}", one.request.filter, one.request.offers);
        self.waiting().entry(kind).or_default().push_back(one);
    }

    /// How many claims wait.
    pub fn len(&self) -> usize {
        let waiting = self.waiting();
        waiting.values().flatten().filter(|one| !one.reply.is_closed()).count()
    }

    /// Serves the waiting until the end.
    pub async fn run(self: &Arc<Self>, end: CancellationToken) {
        let mut seen = self.store.changed(0).await;
        loop {
            let look = self.look().await;
            if !look.found {
                tokio::time::sleep(REST).await;
            }
            let wake = look.wake.map(|at| at.since(self.clock.now()));
            tokio::select! {
                () = end.cancelled() => break,
                () = self.bell.notified() => {}
                version = self.news(seen) => seen = version,
                () = tokio::time::sleep(wake.map_or(POLL, |wake| wake.min(POLL))) => {}
            }
        }
        self.waiting().clear();
    }

    /// News matter only while somebody waits.
    async fn news(&self, seen: u64) -> u64 {
        if self.waiting().is_empty() {
            return std::future::pending().await;
        }
        self.store.changed(seen).await
    }

    /// Lets the waiting claim, each kind until one of it goes away with less than it wanted.
    async fn look(self: &Arc<Self>) -> Look {
        let kinds: Vec<String> = {
            let mut waiting = self.waiting();
            for of_kind in waiting.values_mut() {
                of_kind.retain(|one| !one.reply.is_closed());
            }
            waiting.retain(|_, of_kind| !of_kind.is_empty());
            waiting.keys().cloned().collect()
        };
        let mut look = Look::default();
        for kinds in kinds.chunks(KINDS) {
            for of_kind in join_all(kinds.iter().map(|kind| self.look_for(kind))).await {
                look.found |= of_kind.found;
                look.wake = look.wake.into_iter().chain(of_kind.wake).min();
            }
        }
        look
    }

    async fn look_for(self: &Arc<Self>, kind: &str) -> Look {
        let mut look = Look::default();
        // The first alone, then as many more as there seems to be work for.
        let mut batch = 1;
        while self.serve(kind, batch, &mut look).await {
            batch = AT_ONCE;
        }
        look
    }

    /// Serves some of a kind; answers whether there may be work for more of them.
    async fn serve(self: &Arc<Self>, kind: &str, batch: usize, look: &mut Look) -> bool {
        let taken: Vec<Waiting> = {
            let mut waiting = self.waiting();
            let Some(of_kind) = waiting.get_mut(kind) else { return false };
            let batch = batch.min(of_kind.len());
            of_kind.drain(..batch).collect()
        };
        if taken.is_empty() {
            return false;
        }
        let now = self.clock.now();
        let claims = taken.iter().map(|one| self.store.claim(now, one.request.clone()));
        let answers = join_all(claims).await;
        let (mut more, mut back) = (true, Vec::new());
        for (one, answer) in taken.into_iter().zip(answers) {
            let claimed = answer.unwrap_or_else(|error| {
                tracing::warn!(%error, "a waiting claim could not be made");
                Claimed::default()
            });
            look.wake = look.wake.into_iter().chain(claimed.wake).min();
            more &= claimed.jobs.len() == one.request.max;
            if claimed.jobs.is_empty() {
                back.push(one);
                continue;
            }
            look.found = true;
            // Nobody there to read it: it goes back by itself.
            let _ = one.reply.send(OnTheWay { desk: Arc::clone(self), jobs: claimed.jobs });
        }
        if !back.is_empty() {
            let mut waiting = self.waiting();
            let of_kind = waiting.entry(kind.to_owned()).or_default();
            for one in back.into_iter().rev() {
                of_kind.push_front(one);
            }
        }
        more
    }

    /// The claimer went away while its claim was made: nobody has seen these jobs.
    async fn hand_back(&self, jobs: Vec<(Job, Lease)>) {
        let back = |(_, lease): (Job, Lease)| Finish { lease, outcome: Outcome::Unstarted };
        let ends = jobs.into_iter().map(back).collect();
        if let Err(error) = self.store.finish(self.clock.now(), ends).await {
            tracing::warn!(%error, "jobs of a worker that went away come back when their leases lapse");
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use runcue_core::{JobId, JobSpec, State, TaskName, Wait, WorkerId};
    use runcue_engine::SystemClock;
    use runcue_store::{MemoryStore, SubmitBatch};

    use super::*;

    const JOB: JobId = JobId::from_u128(1);

    async fn desk() -> Arc<Desk> {
        let (store, clock) = (MemoryStore::new(), SystemClock::default());
        let job = JobSpec::new(JOB, TaskName::new("a").unwrap());
        store.submit(clock.now(), SubmitBatch::of(vec![job])).await.unwrap();
        Arc::new(Desk::new(Arc::new(store), Arc::new(clock)))
    }

    /// What has happened to the job, in words.
    async fn story(desk: &Desk) -> Vec<&'static str> {
        let events = desk.store.events(0, 100).await.unwrap();
        events.iter().map(|event| event.kind.short()).collect()
    }

    /// Waits until something was told of the job last.
    async fn until(desk: &Desk, last: &str) {
        let mut seen = 0;
        let wait = async {
            while story(desk).await.last() != Some(&last) {
                seen = desk.store.changed(seen).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect(last);
    }

    async fn is_back_unused(desk: &Desk) {
        until(desk, "retrying").await;
        let job = desk.store.get(vec![JOB]).await.unwrap().pop().flatten().unwrap();
        assert_eq!((job.life.state, job.life.attempt), (State::Queued(Wait::Turn), 0));
    }

    #[tokio::test]
    async fn a_claimer_that_leaves_while_its_claim_is_made_leaves_nothing_behind() {
        let desk = desk().await;
        let request = ClaimRequest::new(WorkerId::from_u128(1), 1);
        let mut claim = Box::pin(desk.claim(request, Duration::ZERO));
        assert!(poll!(&mut claim).is_pending());
        drop(claim);
        is_back_unused(&desk).await;
    }

    #[tokio::test]
    async fn a_claimer_that_leaves_before_it_reads_its_answer_leaves_nothing_behind() {
        let desk = desk().await;
        let request = ClaimRequest::new(WorkerId::from_u128(1), 1);
        let mut claim = Box::pin(desk.claim(request, Duration::ZERO));
        assert!(poll!(&mut claim).is_pending());
        until(&desk, "started").await;
        drop(claim);
        is_back_unused(&desk).await;
    }
}
