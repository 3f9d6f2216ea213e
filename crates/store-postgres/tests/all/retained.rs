//! Jobs that come, end and are pruned for ever: the tables stop growing, and what has ended is not among what a claim looks
//! through.

use std::time::Duration;

use runcue_core::Timestamp;
use runcue_store::{ClaimRequest, Finish, Keep, Retention, Store, SubmitBatch};
use runcue_store_postgres::{Options, PostgresStore};
use runcue_store_suite::scene::{BEGINNING, done, job, secs, worker};
use runcue_test_servers::Postgres;

use crate::lease_runs::open;

fn opened(url: &str) -> PostgresStore {
    let mut options = Options::parse(url).unwrap();
    options.callers_clock = true;
    runcue_store_postgres::open(options).unwrap()
}

const PER_ROUND: u128 = 300;
/// Seconds from one round to the next.
const STEP: u64 = 60;

/// What the last two rounds have left is kept.
fn short() -> Retention {
    let keep = Keep { age: secs(2 * STEP), count: 1_000_000 };
    Retention {
        completed: keep,
        cancelled: keep,
        failed: keep,
        events: keep,
        usage: Duration::from_secs(1),
    }
}

async fn round(store: &PostgresStore, round: u128) {
    let now = BEGINNING.plus(secs(u64::try_from(round).unwrap() * STEP));
    let first = round * PER_ROUND;
    let batch = SubmitBatch::of((first..first + PER_ROUND).map(|n| job(n + 1)).collect());
    store.submit(now, batch).await.unwrap();
    // Some go on alone, most together.
    for most in [1, 20, PER_ROUND as usize] {
        let claimed = store.claim(now, ClaimRequest::new(worker(1), most)).await.unwrap();
        let end = |(_, lease)| Finish { lease, outcome: done() };
        store.finish(now, claimed.jobs.into_iter().map(end).collect()).await.unwrap();
    }
    let mut calls = 0;
    while !store.prune(now, short(), false).await.unwrap().is_empty() {
        calls += 1;
        assert!(calls < 20, "what is pruned is there again");
    }
}

/// As the server does by itself now and then.
fn vacuum(server: &Postgres) {
    let tables = "SELECT string_agg('runcue.' || tablename, ', ') FROM pg_tables WHERE schemaname = 'runcue'";
    server.sql(&format!("VACUUM {}", server.sql(tables).unwrap())).unwrap();
}

/// The space that all tables take, and the largest ones, for whoever wonders.
fn size(server: &Postgres) -> (u64, String) {
    let of = "pg_total_relation_size(format('runcue.%I', tablename)::regclass)";
    let from = "FROM pg_tables WHERE schemaname = 'runcue'";
    let all = server.sql(&format!("SELECT sum({of}) {from}")).unwrap().parse().unwrap();
    let each = format!("SELECT tablename || ' ' || {of} {from} ORDER BY {of} DESC LIMIT 6");
    (all, server.sql(&each).unwrap().replace('\n', ", "))
}

#[tokio::test]
async fn what_is_pruned_makes_room_for_what_comes() {
    const HALF: u128 = 20;
    // Nobody but the test says when room is made.
    let server = Postgres::settings().set("autovacuum", "off").start().unwrap();
    let store = opened(&server.url());
    let mut peaks = [(0, String::new()), (0, String::new())];
    for n in 0..2 * HALF {
        round(&store, n).await;
        if n % 4 == 3 {
            // The server gives back what is free at the end of a table, or does not.
            let peak = &mut peaks[usize::from(n >= HALF)];
            *peak = size(&server).max(std::mem::take(peak));
            vacuum(&server);
        }
    }
    let kept = store.stats(BEGINNING).await.unwrap().counts.total();
    assert_eq!(kept, 900, "of the last three rounds");
    assert!(peaks[1].0 as f64 <= peaks[0].0 as f64 * 1.3, "{peaks:?}");
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn jobs_that_have_ended_are_not_among_those_that_a_claim_looks_through() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open(&database);
    let now: Timestamp = BEGINNING;
    store.submit(now, SubmitBatch::of((1..=400).map(job).collect())).await.unwrap();
    // By ones, which leave rows in the midst of others, and by many, which leave together.
    let mut held = 0;
    for most in [1, 3, 100, 1, 50] {
        let claimed = store.claim(now, ClaimRequest::new(worker(1), most)).await.unwrap().jobs;
        let ends = claimed.into_iter().skip(most / 10);
        let ends: Vec<Finish> = ends.map(|(_, lease)| Finish { lease, outcome: done() }).collect();
        held += most - ends.len();
        store.finish(now, ends).await.unwrap();
        let hot = "SELECT seq FROM runcue.live UNION ALL SELECT unnest(seqs[taken + 1 :]) FROM runcue.ready_run";
        let all = "(SELECT count(*) FROM runcue.live) + (SELECT sum(cardinality(seqs) - taken) FROM runcue.ready_run)";
        let ended = format!("SELECT count(*) FROM ({hot}) AS hot JOIN runcue.done USING (seq)");
        assert_eq!(database.sql(&ended).unwrap(), "0");
        let open = format!("SELECT {all} + (SELECT count(*) FROM runcue.leased)");
        let counts = store.stats(now).await.unwrap().counts;
        assert_eq!(counts.leased + counts.running, held as u64);
        assert_eq!(database.sql(&open).unwrap(), (counts.queued + held as u64).to_string());
        let history = database.sql("SELECT count(*) FROM runcue.done").unwrap();
        assert_eq!(history, counts.completed.to_string());
    }
    // The last of them takes its row along.
    while let held @ [_, ..] =
        &store.claim(now, ClaimRequest::new(worker(1), 100)).await.unwrap().jobs[..]
    {
        let end =
            |(_, lease): &(_, runcue_core::Lease)| Finish { lease: lease.clone(), outcome: done() };
        store.finish(now, held.iter().map(end).collect()).await.unwrap();
    }
    assert_eq!(database.sql("SELECT count(*) FROM runcue.ready_run").unwrap(), "0");
    assert_eq!(store.check(now).await.unwrap(), Vec::<String>::new());
}
