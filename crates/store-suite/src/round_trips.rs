//! What batches cost on a server in round trips, counted between the store and it: so many, however many jobs
//! there are.

use std::time::Duration;

use runcue_store::{ClaimRequest, Extend, Finish, Finished, Outcome, Store, SubmitBatch};
use tokio::time::timeout;

use crate::scene::{BEGINNING, group, job, job_after, job_using, secs, slots, worker};

/// Jobs in a batch.
const MANY: u128 = 600;
/// Round trips that any batch may take. A large message may be answered while it is still on its way, and other
/// connections of the store have something to say now and then.
const MOST: u64 = 20;

/// Submits, claims, extends and finishes jobs of many groups, services and lanes, half of which have a dependent,
/// through two handles on one queue in turn. `trips` counts the round trips of both.
pub async fn no_round_trip_per_job(one: &dyn Store, two: &dyn Store, trips: impl Fn() -> u64) {
    let now = BEGINNING;
    let count = |what: &str, before: u64| {
        let taken = trips() - before;
        assert!(taken <= MOST, "{taken} round trips to {what}");
    };
    let services: Vec<_> = (0..20).map(|n| slots(&format!("service {n}"), 1000)).collect();
    one.upsert_services(now, services).await.unwrap();
    // The first rounds are for whatever is done once: statements, scripts, lanes.
    let few = [(one, two, 6), (two, one, 6)];
    let many = [(one, two, MANY), (two, one, MANY), (one, one, MANY)];
    for (round, (first, second, jobs)) in few.into_iter().chain(many).enumerate() {
        let count = |what: &str, before: u64| {
            if jobs == MANY {
                count(what, before);
            }
        };
        let begin = 10_000 * (round as u128 + 1);
        let submission = (begin..begin + jobs).map(|n| {
            let mut spec = match (n - begin) % 3 {
                0 => job(n),
                1 => job_using(n, &[&format!("service {}", n % 20)]),
                _ => job_after(n, &[n - 1]),
            };
            spec.group = Some(group(&format!("group {}", n % 30)));
            spec
        });
        let submission = SubmitBatch::of(submission.collect());
        let before = trips();
        first.submit(now, submission).await.unwrap();
        count("submit", before);
        let mut left = jobs;
        while left > 0 {
            let before = trips();
            let request = ClaimRequest::new(worker(1), MANY as usize);
            let claimed = second.claim(now, request).await.unwrap().jobs;
            count("claim", before);
            assert!(!claimed.is_empty(), "{left} jobs are left");
            left -= claimed.len() as u128;
            let extends = claimed.iter().map(|(_, lease)| Extend {
                lease: lease.clone(),
                lease_for: secs(60),
                progress: None,
            });
            let before = trips();
            second.extend(now, extends.collect()).await.unwrap();
            count("extend", before);
            let end = |(_, lease)| Finish {
                lease,
                outcome: Outcome::Done { result: None, result_key: None },
            };
            let ends: Vec<Finish> = claimed.into_iter().map(end).collect();
            let before = trips();
            let finished = first.finish(now, ends).await.unwrap();
            count("finish", before);
            assert!(finished.iter().all(|answer| matches!(answer, Finished::Now { .. })));
        }
    }
}

/// How long to wait for news at the most.
const BOUND: Duration = Duration::from_secs(30);

async fn news(store: &dyn Store, since: u64) {
    timeout(BOUND, store.changed(since)).await.expect("nothing was heard");
}

/// A job that comes while a daemon waits is claimed in one round trip, and its submission takes one, too: what each has
/// changed is told with the news. The handles must not look by themselves meanwhile.
pub async fn one_round_trip_from_news_to_claim(
    one: &dyn Store,
    two: &dyn Store,
    trips: impl Fn() -> u64,
) {
    let (mut submissions, mut claims) = (Vec::new(), Vec::new());
    for n in 1..=20 {
        one.changed(0).await;
        let version = two.changed(0).await;
        let before = trips();
        one.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
        submissions.push(trips() - before);
        news(two, version).await;
        let before = trips();
        let claimed = two.claim(BEGINNING, ClaimRequest::new(worker(1), 5)).await.unwrap();
        claims.push(trips() - before);
        let (_, lease) = claimed.jobs.into_iter().next().unwrap();
        let version = one.changed(0).await;
        let outcome = Outcome::Done { result: None, result_key: None };
        two.finish(BEGINNING, vec![Finish { lease, outcome }]).await.unwrap();
        news(one, version).await;
    }
    // The first ones are for whatever is done once; and a handle that hears of its own change may go on too early.
    let single = |trips: &[u64]| trips[8..].iter().filter(|trips| **trips == 1).count();
    assert!(single(&submissions) >= 6, "round trips of submissions: {submissions:?}");
    assert!(single(&claims) >= 6, "round trips of claims: {claims:?}");
}
