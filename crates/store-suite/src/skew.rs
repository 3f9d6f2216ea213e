//! Two callers of one server whose clocks are twelve minutes apart: one is five minutes behind the server, one seven
//! ahead. The server's clock counts, so they agree on leases, windows, delays and schedules; and what they are told
//! to compare with their own clock is told on that one.
//!
//! Only for stores whose clock is a server's. Time is real here, and what happened when is read from the events,
//! which have the server's instants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runcue_core::{
    ErrorKind, Event, EventKind, JobSpec, Lease, Missed, RetryPolicy, ScheduleName, ScheduleSpec,
    Timestamp, WorkerId,
};
use runcue_store::{ClaimRequest, Extend, Extended, Finish, Finished, Outcome, Store, SubmitBatch};

use crate::scene::{attempts, done, failed, id, job, job_using, rated, secs, worker};

const BEHIND: Duration = Duration::from_secs(5 * 60);
const AHEAD: Duration = Duration::from_secs(7 * 60);
/// Anything that takes longer than this has not happened. Far less than the clocks are apart.
const BOUND: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Somebody with a store and a clock of its own.
struct Caller {
    store: Arc<dyn Store>,
    worker: WorkerId,
    /// What its clock said at an instant.
    noted: (Timestamp, Instant),
}

impl Caller {
    fn now(&self) -> Timestamp {
        self.noted.0.plus(self.noted.1.elapsed())
    }

    async fn submit(&self, jobs: Vec<JobSpec>) {
        self.store.submit(self.now(), SubmitBatch::of(jobs)).await.unwrap();
    }

    async fn claim(&self, max: usize, lease: Duration) -> Vec<Lease> {
        let request = ClaimRequest { lease, ..ClaimRequest::new(self.worker, max) };
        let claimed = self.store.claim(self.now(), request).await.unwrap();
        claimed.jobs.into_iter().map(|(_, lease)| lease).collect()
    }

    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Finished {
        let end = Finish { lease: lease.clone(), outcome };
        self.store.finish(self.now(), vec![end]).await.unwrap().remove(0)
    }

    /// The events of a kind.
    async fn events(&self, kind: EventKind) -> Vec<Event> {
        let events = self.store.events(0, 10_000).await.unwrap();
        events.into_iter().filter(|event| event.kind == kind).collect()
    }
}

/// The two callers, the one behind first, and what the server's clock said before.
async fn callers(stores: [Arc<dyn Store>; 2]) -> ([Caller; 2], Timestamp) {
    let first = job(1_000);
    stores[0].submit(Timestamp::ZERO, SubmitBatch::of(vec![first])).await.unwrap();
    let server = stores[0].events(0, 1).await.unwrap()[0].at;
    let noted = Instant::now();
    let [behind, ahead] = stores;
    let behind = Caller { store: behind, worker: worker(1), noted: (server.minus(BEHIND), noted) };
    let ahead = Caller { store: ahead, worker: worker(2), noted: (server.plus(AHEAD), noted) };
    let lease = behind.claim(1, secs(30)).await.remove(0);
    behind.finish(&lease, done()).await;
    ([behind, ahead], server)
}

/// Asks again and again until there is an answer.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begun.elapsed() < BOUND, "waited in vain: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// A lease lasts as long as it should for whoever holds it and whoever looks, and is over for both.
pub async fn leases_are_the_same_for_clocks_apart(stores: [Arc<dyn Store>; 2]) {
    let (callers, _) = callers(stores).await;
    let span = secs(2);
    for (n, [holder, other]) in
        [[&callers[0], &callers[1]], [&callers[1], &callers[0]]].into_iter().enumerate()
    {
        let number = n as u128 + 1;
        holder.submit(vec![job(number)]).await;
        let asked = holder.now();
        let lease = holder.claim(1, span).await.remove(0);
        let told = lease.until.since(asked);
        assert!(told > secs(0) && told <= span + secs(1), "told on its own clock: {told:?}");
        let reaped = other.store.reap(other.now(), Vec::new()).await.unwrap();
        assert_eq!(reaped.requeued, [], "it has only begun");
        let asked = holder.now();
        let extend = Extend { lease: lease.clone(), lease_for: span, progress: None };
        let extended = holder.store.extend(asked, vec![extend]).await.unwrap().remove(0);
        let Extended::Held { until: held, .. } = extended else { panic!("{extended:?}") };
        let told = held.since(asked);
        assert!(told > secs(0) && told <= span + secs(1), "told on its own clock: {told:?}");
        until("the other takes it back", async || {
            let reaped = other.store.reap(other.now(), Vec::new()).await.unwrap();
            reaped.requeued.contains(&id(number)).then_some(())
        })
        .await;
        let at = |events: Vec<Event>| {
            events.iter().rfind(|event| event.job == Some(id(number))).unwrap().at
        };
        let begun = at(other.events(EventKind::Started).await);
        let over = at(other.events(EventKind::Retrying).await);
        assert!(over.since(begun) >= span, "it was over after {:?}", over.since(begun));
        assert_eq!(holder.finish(&lease, done()).await, Finished::Lost);
        let lease = until("it can be claimed", async || other.claim(1, secs(30)).await.pop()).await;
        assert!(matches!(other.finish(&lease, done()).await, Finished::Now { .. }));
    }
}

/// No window is overfilled, and none is kept shut, by what a caller takes for the time.
pub async fn windows_are_the_same_for_clocks_apart(stores: [Arc<dyn Store>; 2]) {
    const LIMIT: usize = 2;
    let (callers, _) = callers(stores).await;
    let window = secs(2);
    let service = rated("api", LIMIT as u64, window.as_secs());
    callers[0].store.upsert_services(callers[0].now(), vec![service]).await.unwrap();
    callers[1].submit((1..=6).map(|n| job_using(n, &["api"])).collect()).await;
    let mut claimed = [0; 2];
    until("all are claimed", async || {
        // Whoever claimed less comes first, so that both have a share in every window.
        let next = usize::from(claimed[1] < claimed[0]);
        for n in [next, 1 - next] {
            for lease in callers[n].claim(1, secs(30)).await {
                callers[n].finish(&lease, done()).await;
                claimed[n] += 1;
            }
        }
        (claimed[0] + claimed[1] == 6).then_some(())
    })
    .await;
    assert!(claimed[0] > 0 && claimed[1] > 0, "{claimed:?}");
    let starts = callers[0].events(EventKind::Started).await;
    let starts: Vec<Timestamp> =
        starts.iter().filter(|event| event.job < Some(id(1_000))).map(|event| event.at).collect();
    assert_eq!(starts.len(), 6);
    for (first, over) in starts.iter().zip(&starts[LIMIT..]) {
        assert!(over.since(*first) >= window, "three starts in {:?}", over.since(*first));
    }
}

/// A pause after a failed attempt, and a job for later, are over at the same instant for both.
pub async fn delays_are_the_same_for_clocks_apart(stores: [Arc<dyn Store>; 2]) {
    let (callers, _) = callers(stores).await;
    let pause = secs(2);
    for (n, [one, other]) in
        [[&callers[0], &callers[1]], [&callers[1], &callers[0]]].into_iter().enumerate()
    {
        let number = n as u128 + 1;
        let retry = RetryPolicy { base_delay: pause, ..attempts(3) };
        one.submit(vec![JobSpec { retry, ..job(number) }]).await;
        let lease = one.claim(1, secs(30)).await.remove(0);
        let asked = one.now();
        let Finished::Now { retry_at: Some(again), .. } =
            one.finish(&lease, failed(ErrorKind::Transient)).await
        else {
            panic!("it is tried again")
        };
        let told = again.since(asked);
        assert!(told > secs(0) && told <= pause + secs(1), "told on its own clock: {told:?}");
        let lease = until("its pause is over", async || other.claim(1, secs(30)).await.pop()).await;
        other.finish(&lease, done()).await;
        let of = |event: &&Event| event.job == Some(id(number));
        let paused = other.events(EventKind::Retrying).await.iter().find(of).unwrap().at;
        let begun = other.events(EventKind::Started).await.iter().rfind(of).unwrap().at;
        assert!(begun.since(paused) >= pause, "after {:?}", begun.since(paused));

        // An instant is one on the server's clock, whoever names it.
        let run_at = begun.plus(pause);
        let number = number + 10;
        one.submit(vec![JobSpec { run_at: Some(run_at), ..job(number) }]).await;
        let lease = until("its time has come", async || {
            let early = one.claim(1, secs(30)).await.pop();
            if early.is_some() { early } else { other.claim(1, secs(30)).await.pop() }
        })
        .await;
        one.finish(&lease, done()).await;
        let of = |event: &&Event| event.job == Some(id(number));
        let begun = other.events(EventKind::Started).await.iter().find(of).unwrap().at;
        assert!(begun >= run_at, "{begun} is before {run_at}");
    }
}

/// Each instant of a schedule fires once, when the server's clock has come to it.
pub async fn schedules_are_the_same_for_clocks_apart(stores: [Arc<dyn Store>; 2]) {
    let (callers, server) = callers(stores).await;
    let name = ScheduleName::new("tick").unwrap();
    let tick =
        ScheduleSpec { missed: Missed::All, ..ScheduleSpec::new(name, "* * * * * *", job(0)) };
    callers[1].store.upsert_schedules(callers[1].now(), vec![tick]).await.unwrap();
    let mut fired = Vec::new();
    until("it has fired five times", async || {
        for caller in &callers {
            let asked = caller.now();
            let answer = caller.store.fire(asked).await.unwrap();
            let wake = answer.wake.unwrap();
            assert!(wake.since(asked) <= secs(2), "{:?} from now", wake.since(asked));
            assert!(asked.since(wake) <= secs(2), "{:?} ago", asked.since(wake));
            fired.extend(answer.jobs);
        }
        (fired.len() >= 5).then_some(())
    })
    .await;
    assert!(fired[0].at > server && fired[0].at.since(server) < BOUND, "by the server's clock");
    for pair in fired.windows(2) {
        assert_eq!(pair[1].at, pair[0].at.plus(secs(1)), "each second once, none left out");
    }
    for event in callers[0].events(EventKind::Queued).await {
        if let Some(firing) = fired.iter().find(|firing| Some(firing.job) == event.job) {
            assert!(event.at >= firing.at, "{} fired early, at {}", firing.at, event.at);
        }
    }
}
