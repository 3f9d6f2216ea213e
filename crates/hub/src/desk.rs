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
/// How often everything is looked at when no news comes.
const POLL: Duration = Duration::from_secs(1);
/// The pause after a look that found nothing: a busy store has news all the time.
const REST: Duration = Duration::from_millis(2);

type Jobs = Vec<(Job, Lease)>;

struct Waiting {
    request: ClaimRequest,
    reply: oneshot::Sender<Jobs>,
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
    pub async fn claim(&self, request: ClaimRequest, wait: Duration) -> runcue_store::Result<Jobs> {
        let claimed = self.store.claim(self.clock.now(), request.clone()).await?;
        if !claimed.jobs.is_empty() || wait.is_zero() {
            return Ok(claimed.jobs);
        }
        let (reply, answer) = oneshot::channel();
        self.add(Waiting { request, reply });
        self.bell.notify_one();
        match tokio::time::timeout(wait, answer).await {
            Ok(Ok(jobs)) => Ok(jobs),
            // Nothing came in time, or the hub ends; whoever still wants work asks again.
            Ok(Err(_)) | Err(_) => Ok(Vec::new()),
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
    pub async fn run(&self, end: CancellationToken) {
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
    async fn look(&self) -> Look {
        let kinds: Vec<String> = {
            let mut waiting = self.waiting();
            for of_kind in waiting.values_mut() {
                of_kind.retain(|one| !one.reply.is_closed());
            }
            waiting.retain(|_, of_kind| !of_kind.is_empty());
            waiting.keys().cloned().collect()
        };
        let mut look = Look::default();
        for kind in kinds {
            // The first alone, then as many more as there seems to be work for.
            let mut batch = 1;
            while self.serve(&kind, batch, &mut look).await {
                batch = AT_ONCE;
            }
        }
        look
    }

    /// Serves some of a kind; answers whether there may be work for more of them.
    async fn serve(&self, kind: &str, batch: usize, look: &mut Look) -> bool {
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
            if let Err(jobs) = one.reply.send(claimed.jobs) {
                self.hand_back(jobs).await;
            }
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
    pub async fn hand_back(&self, jobs: Jobs) {
        let back = |(_, lease): (Job, Lease)| Finish { lease, outcome: Outcome::Unstarted };
        let ends = jobs.into_iter().map(back).collect();
        if let Err(error) = self.store.finish(self.clock.now(), ends).await {
            tracing::warn!(%error, "jobs of a worker that went away come back when their leases lapse");
        }
    }
}
