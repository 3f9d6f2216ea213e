//! Round trips: none per job, and one from the news to the claim, on PostgreSQL.

use std::time::Duration;

use runcue_core::{JobFilter, JobId};
use runcue_store::{ClaimRequest, Finish, Keep, Retention, Store, SubmitBatch};
use runcue_store_postgres::{Options, PostgresStore};
use runcue_store_suite::round_trips::{no_round_trip_per_job, one_round_trip_from_news_to_claim};
use runcue_store_suite::scene::{BEGINNING, done, id, job, secs, worker};
use runcue_test_servers::{Counter, Postgres};

/// Two handles on a queue, behind a counter.
async fn counted() -> (Postgres, Counter, PostgresStore, PostgresStore) {
    let server = Postgres::settings().start().unwrap();
    let counter = Counter::to(server.port()).unwrap();
    let through = format!("127.0.0.1:{}", counter.port());
    let url = server.url().replace(&format!("127.0.0.1:{}", server.port()), &through);
    let open = || {
        let mut options = Options::parse(&url).unwrap();
        options.callers_clock = true;
        options.look = Duration::from_secs(24 * 3600);
        runcue_store_postgres::open(options).unwrap()
    };
    let (one, two) = (open(), open());
    one.stats(runcue_store_suite::scene::BEGINNING).await.unwrap();
    assert!(counter.trips() > 0, "{url}");
    (server, counter, one, two)
}

#[tokio::test]
async fn batches_take_as_many_round_trips_as_one_job() {
    let (_server, counter, one, two) = counted().await;
    no_round_trip_per_job(&one, &two, || counter.trips()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_not_asked_for() {
    let (_server, counter, one, two) = counted().await;
    one_round_trip_from_news_to_claim(&one, &two, || counter.trips()).await;
}

/// Round trips that a call about any number of jobs may take.
const MOST: u64 = 20;

/// Everything that is done to many jobs by somebody or something other than their worker.
#[tokio::test]
async fn what_is_done_to_many_jobs_at_once_takes_as_many_round_trips_as_for_one() {
    let (_server, counter, one, two) = counted().await;
    // The first rounds are for whatever is done once.
    for (round, many) in [(1, 5), (2, 5), (3, 300), (4, 600)] {
        let count = |what: &str, before: u64| {
            let taken = counter.trips() - before;
            assert!(many < 100 || taken <= MOST, "{taken} round trips to {what} {many}");
        };
        let now = BEGINNING.plus(secs(round * 3600));
        let first = u128::from(round) * 10_000;
        let all: Vec<JobId> = (first..first + many).map(id).collect();
        one.submit(now, SubmitBatch::of((first..first + many).map(job).collect())).await.unwrap();
        let filter = || JobFilter::of_ids(all.iter().copied());

        let before = counter.trips();
        assert_eq!(u128::from(two.cancel(now, filter(), true).await.unwrap()), many);
        count("cancel", before);
        let before = counter.trips();
        assert_eq!(u128::from(one.retry(now, filter()).await.unwrap()), many);
        count("retry", before);

        // Their worker is gone, and those of another have lapsed.
        let half = usize::try_from(many / 2).unwrap();
        let request =
            |n, most| ClaimRequest { lease: secs(60), ..ClaimRequest::new(worker(n), most) };
        let gone = two.claim(now, request(1, half)).await.unwrap().jobs.len();
        let late = two.claim(now, request(2, 1000)).await.unwrap().jobs.len();
        assert_eq!((gone + late) as u128, many);
        let before = counter.trips();
        let reaped = one.reap(now, vec![worker(1)]).await.unwrap();
        count("reap", before);
        assert_eq!(reaped.requeued.len(), gone);
        let now = now.plus(secs(120));
        let before = counter.trips();
        let reaped = two.reap(now, Vec::new()).await.unwrap();
        count("reap late", before);
        assert_eq!(reaped.requeued.len(), late);

        let now = now.plus(secs(600));
        let claimed = one.claim(now, request(3, 1000)).await.unwrap().jobs;
        assert_eq!(claimed.len() as u128, many);
        let end = |(_, lease)| Finish { lease, outcome: done() };
        one.finish(now, claimed.into_iter().map(end).collect()).await.unwrap();
        let keep = Keep { age: secs(60), count: 0 };
        let retention = Retention { completed: keep, events: keep, ..Retention::default() };
        let now = now.plus(secs(120));
        let before = counter.trips();
        let pruned = two.prune(now, retention, false).await.unwrap();
        count("prune", before);
        assert_eq!(u128::from(pruned.jobs.values().sum::<u64>()), many);
        assert!(pruned.events > 0);
    }
}
