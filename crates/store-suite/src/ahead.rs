//! Claims that a store on a server makes before it is asked (`ClaimRequest::again`): who is given them, and what becomes of
//! those that nobody comes for; also those that it makes along with a submission. The instants are the server's.

use std::time::Duration;

use runcue_core::{
    Event, EventKind, Job, Lease, Rate, ServiceSpec, StateWord, Timestamp, WorkerId,
};
use runcue_store::{ClaimRequest, Finish, Finished, Store, SubmitBatch};
use tokio::time::timeout;

use crate::scene::{done, id, job, job_using, slots, worker};

/// What has not happened by then does not happen.
const BOUND: Duration = Duration::from_secs(30);
/// The callers' own clocks say nothing here.
const NOW: Timestamp = Timestamp::ZERO;

fn again(n: u128, max: usize) -> ClaimRequest {
    ClaimRequest { again: true, ..ClaimRequest::new(worker(n), max) }
}

async fn submit(store: &dyn Store, n: u128) {
    store.submit(NOW, SubmitBatch::of(vec![job(n)])).await.unwrap();
}

/// The numbers of the jobs that a claim is given, which are the claimer's, and begun once.
async fn claimed(store: &dyn Store, request: ClaimRequest) -> Vec<u128> {
    let worker = request.worker;
    let claimed = store.claim(NOW, request).await.unwrap();
    let number = |(job, lease): &(Job, Lease)| {
        assert_eq!((lease.worker, lease.attempt), (worker, 1));
        job.id().as_u128()
    };
    claimed.jobs.iter().map(number).collect()
}

/// A job as another handle sees it, once it is in a state.
async fn once(store: &dyn Store, n: u128, state: StateWord) -> Job {
    let look = async {
        loop {
            let found = store.get(vec![id(n)]).await.unwrap().pop().flatten();
            if let Some(job) = found.filter(|job| job.life.state.word() == state) {
                return job;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, look).await.expect("the job never came to that state")
}

/// Lets a worker ask in vain until its store knows that it is up to date, and submits jobs until one of them is claimed
/// before anybody has asked for it. Answers that one.
async fn claimed_ahead(submitter: &dyn Store, listener: &dyn Store, from: u128) -> u128 {
    listener.changed(0).await;
    // Those that listen rely on what they are told once they have begun a turn or two.
    for n in from..from + 100 {
        assert_eq!(claimed(listener, again(1, 4)).await, []);
        submit(submitter, n).await;
        let running = once(submitter, n, StateWord::Running);
        if let Ok(job) = timeout(Duration::from_millis(200), running).await {
            let lease = job.life.state.lease().unwrap();
            assert_eq!((lease.worker, lease.attempt), (worker(1), 1));
            return n;
        }
        assert_eq!(claimed(listener, again(1, 4)).await, [n]);
        end(listener, n).await;
    }
    panic!("no job was claimed ahead");
}

async fn end(store: &dyn Store, n: u128) {
    let job = once(store, n, StateWord::Running).await;
    let lease = job.life.state.lease().unwrap().clone();
    let finished = store.finish(NOW, vec![Finish { lease, outcome: done() }]).await.unwrap();
    assert!(matches!(finished[..], [Finished::Now { state: StateWord::Completed, .. }]));
}

/// Whoever asks in the same words is given what was claimed ahead, once, and finishes it.
pub async fn whoever_asks_again_is_given_what_was_claimed_meanwhile(
    submitter: &dyn Store,
    listener: &dyn Store,
) {
    let mut from = 1;
    for _ in 0..3 {
        let n = claimed_ahead(submitter, listener, from).await;
        assert_eq!(claimed(listener, again(1, 5)).await, [n], "for as many or more");
        assert_eq!(claimed(listener, again(1, 5)).await, [], "once");
        end(listener, n).await;
        from = n + 1;
    }
}

/// Another worker on the same handle is not given it, and has it when it has gone back.
pub async fn nobody_else_is_given_it(submitter: &dyn Store, listener: &dyn Store) {
    let n = claimed_ahead(submitter, listener, 1).await;
    let others = async {
        loop {
            // It may have gone back at any moment: then it is that worker's own, as for the first time.
            match claimed(listener, again(2, 4)).await[..] {
                [] => tokio::task::yield_now().await,
                [had] => return had,
                _ => panic!("there is one job"),
            }
        }
    };
    assert_eq!(timeout(BOUND, others).await.expect("it did not go back"), n);
}

/// What nobody comes for goes back, and has never begun. It is claimed ahead no second time.
pub async fn what_nobody_comes_for_goes_back(submitter: &dyn Store, listener: &dyn Store) {
    let n = claimed_ahead(submitter, listener, 1).await;
    let job = once(submitter, n, StateWord::Queued).await;
    assert_eq!((job.life.attempt, job.life.crashes), (0, 0));
    assert!(job.life.failures.is_empty());
    submit(submitter, n + 1).await;
    let stats = async {
        // Nobody has asked since, so nobody is waited for.
        listener.changed(0).await;
        listener.stats(NOW).await.unwrap()
    };
    assert_eq!(stats.await.counts.queued, 2);
    assert_eq!(claimed(submitter, ClaimRequest::new(worker(3), 4)).await, [n, n + 1]);
}

/// Whoever wants fewer jobs than were claimed is not given more than it wants.
pub async fn nobody_is_given_more_than_was_asked_for(submitter: &dyn Store, listener: &dyn Store) {
    let n = claimed_ahead(submitter, listener, 1).await;
    assert_eq!(claimed(listener, again(1, 4)).await, [n]);
    assert_eq!(claimed(listener, again(1, 4)).await, []);
    submitter.submit(NOW, SubmitBatch::of(vec![job(n + 1), job(n + 2)])).await.unwrap();
    once(submitter, n + 2, StateWord::Running).await;
    assert!(claimed(listener, again(1, 1)).await.len() <= 1);
}

/// A use of a service that never was is in no window.
pub async fn what_goes_back_has_used_nothing(submitter: &dyn Store, listener: &dyn Store) {
    let hourly = ServiceSpec {
        rates: vec![Rate { limit: 1, window: Duration::from_secs(3600) }],
        ..slots("hourly", 9)
    };
    submitter.upsert_services(NOW, vec![hourly]).await.unwrap();
    let n = claimed_ahead(submitter, listener, 1).await;
    assert_eq!(claimed(listener, again(1, 4)).await, [n]);
    assert_eq!(claimed(listener, again(1, 4)).await, []);
    let job = job_using(n + 1, &["hourly"]);
    submitter.submit(NOW, SubmitBatch::of(vec![job])).await.unwrap();
    once(submitter, n + 1, StateWord::Running).await;
    once(submitter, n + 1, StateWord::Queued).await;
    assert_eq!(claimed(submitter, ClaimRequest::new(worker(3), 4)).await, [n + 1]);
}

/// A store that is closed hands it back before.
pub async fn a_store_that_is_closed_hands_it_back(submitter: &dyn Store, listener: &dyn Store) {
    let n = claimed_ahead(submitter, listener, 1).await;
    listener.close().await.unwrap();
    let job = submitter.get(vec![id(n)]).await.unwrap().pop().flatten().unwrap();
    assert_eq!((job.life.state.word(), job.life.attempt), (StateWord::Queued, 0));
}

/// Whose a job is that is submitted here and that nobody claims: what was claimed along has an event, whatever becomes of it.
async fn claimed_along(store: &dyn Store, other: &dyn Store, n: u128) -> Option<WorkerId> {
    submit(store, n).await;
    let events = other.events(0, 1000).await.unwrap();
    let started = |event: &&Event| event.kind == EventKind::Started && event.job == Some(id(n));
    events.iter().find(started).and_then(|event| event.worker)
}

/// Who submits a job to a daemon whose engine waits for one finds it claimed, by the commit that submitted it. The
/// engine is given it when it asks, and another job is the next engine's that waits.
pub async fn a_job_is_claimed_along_with_its_submission(other: &dyn Store, store: &dyn Store) {
    for n in 1..4 {
        assert_eq!(claimed(store, again(1, 4)).await, []);
        let before = store.changed(0).await;
        assert_eq!(claimed_along(store, other, n).await, Some(worker(1)));
        // Whoever waits for news is woken by it, and asks.
        timeout(BOUND, store.changed(before)).await.expect("nobody was told");
        assert_eq!(claimed(store, again(1, 4)).await, [n]);
        assert_eq!(claimed(other, ClaimRequest::new(worker(2), 4)).await, []);
        end(store, n).await;
    }
    assert_eq!(claimed(store, again(1, 4)).await, []);
    store.submit(NOW, SubmitBatch::of((4..10).map(job).collect())).await.unwrap();
    assert_eq!(claimed(store, again(1, 4)).await, [4, 5, 6, 7], "no more than it has room for");
    assert_eq!(claimed(other, ClaimRequest::new(worker(2), 4)).await, [8, 9]);
}

/// What was claimed along and nobody comes for goes back as well.
pub async fn what_was_claimed_along_goes_back(other: &dyn Store, store: &dyn Store) {
    assert_eq!(claimed(store, again(1, 4)).await, []);
    assert_eq!(claimed_along(store, other, 1).await, Some(worker(1)));
    assert_eq!(claimed_along(store, other, 2).await, None, "one claim for each that was asked for");
    let job = once(other, 1, StateWord::Queued).await;
    assert_eq!((job.life.attempt, job.life.crashes), (0, 0));
    assert_eq!(claimed_along(store, other, 3).await, None, "nobody has asked since");
    assert_eq!(claimed(other, ClaimRequest::new(worker(2), 4)).await, [1, 2, 3]);
}

/// Nothing is claimed for whoever does not wait, nor of many jobs, nor against a limit.
pub async fn nothing_else_is_claimed_along(other: &dyn Store, store: &dyn Store) {
    assert_eq!(claimed(store, ClaimRequest::new(worker(1), 4)).await, []);
    assert_eq!(
        claimed_along(store, other, 1).await,
        None,
        "it has not said that it will ask again"
    );
    assert_eq!(claimed(store, again(1, 1)).await, [1]);
    assert_eq!(claimed_along(store, other, 2).await, None, "it has no room");
    assert_eq!(claimed(store, again(1, 1)).await, [2]);
    other.upsert_services(NOW, vec![slots("one", 1)]).await.unwrap();
    let two = vec![job_using(3, &["one"]), job_using(4, &["one"])];
    assert_eq!(claimed(store, again(1, 4)).await, []);
    store.submit(NOW, SubmitBatch::of(two)).await.unwrap();
    assert_eq!(claimed(store, again(1, 4)).await, [3], "there is one place");
    let many = SubmitBatch::of((5..105).map(job).collect());
    assert_eq!(claimed(store, again(1, 4)).await, []);
    store.submit(NOW, many).await.unwrap();
    assert_eq!(claimed(other, ClaimRequest::new(worker(2), 200)).await.len(), 100);
}

/// The tests of this file on two handles of a queue, of which `$pair` makes a new one each time with whatever it needs.
#[macro_export]
macro_rules! ahead_suite {
    ($pair:expr) => {
        $crate::ahead_suite!(
            $pair;
            whoever_asks_again_is_given_what_was_claimed_meanwhile,
            nobody_else_is_given_it,
            what_nobody_comes_for_goes_back,
            nobody_is_given_more_than_was_asked_for,
            what_goes_back_has_used_nothing,
            a_store_that_is_closed_hands_it_back,
            a_job_is_claimed_along_with_its_submission,
            what_was_claimed_along_goes_back,
            nothing_else_is_claimed_along,
        );
    };
    ($pair:expr; $($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (_server, one, two) = $pair;
                $crate::ahead::$name(&one, &two).await;
            }
        )*
    };
}
