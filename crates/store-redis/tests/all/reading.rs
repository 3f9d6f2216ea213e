//! Ready jobs that are read behind a commit over the same connection: what comes of it, and when it does not count.

use std::collections::HashSet;
use std::sync::Arc;

use runcue_core::{JobId, LaneId, Seq, Timestamp};
use runcue_store::overlay::{
    Backend, CommitId, Committed, Haste, Questions, Rank, ReadyQuestion, WriteSet,
};
use runcue_store::{ClaimRequest, Store, SubmitBatch};
use runcue_store_redis::{Options, RedisBackend, open_url};
use runcue_store_suite::scene::{drain, job};
use runcue_test_servers::Redis;

const JOBS: u128 = 2_500;

async fn full_queue() -> Redis {
    let server = Redis::settings().start().unwrap();
    let store = open_url(&server.url()).unwrap();
    let batch = SubmitBatch::of((1..=JOBS).map(job).collect());
    store.submit(Timestamp::ZERO, batch).await.unwrap();
    store.close().await.unwrap();
    server
}

/// A daemon in its turn, and the revision that it knows.
fn daemon(server: &Redis) -> (RedisBackend, u64) {
    daemon_with(server, true)
}

/// The same, whose commits are transactions, or else scripts.
fn daemon_with(server: &Redis, transactions: bool) -> (RedisBackend, u64) {
    let mut options = Options::parse(&server.url()).unwrap();
    options.transactions = transactions;
    let mut backend = RedisBackend::new(options, 1);
    backend.connect().unwrap();
    let begun = backend.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    commit(&mut backend, begun);
    (backend, begun + 1)
}

/// Answers what was told during the commit, if anything was.
fn commit(backend: &mut RedisBackend, follows: u64) -> Option<Vec<u64>> {
    let id = Some(CommitId(u128::from(follows)));
    let writes = WriteSet { id, follows, in_turn: true, keeps_turn: true, ..WriteSet::default() };
    let mut told = None;
    let committed = backend.commit_and_tell(&writes, &mut |read| told = read);
    assert!(matches!(committed.unwrap(), Committed::Done { kept: true, .. }));
    told.map(|jobs| jobs.iter().map(|job| job.seq.0).collect())
}

/// So many jobs behind the first ones, which are known.
fn behind(known: u64, limit: usize) -> ReadyQuestion {
    let edge = Rank { priority: 0, seq: Seq(known) };
    let known = usize::try_from(known).unwrap();
    let (lane, behind) = (LaneId(1), Some(edge));
    ReadyQuestion { lane, from: None, behind, known, max_priority: None, limit }
}

fn places(backend: &mut RedisBackend) -> Option<Vec<u64>> {
    Some(backend.end_reading()?.iter().map(|job| job.seq.0).collect())
}

#[tokio::test]
async fn jobs_behind_those_that_are_known_come_with_a_commit() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon(&server);
    assert_eq!(places(&mut backend), None, "nothing was asked for");
    backend.begin_reading(&behind(100, 1_200), begun);
    assert_eq!(commit(&mut backend, begun), None, "nothing was begun before it");
    assert_eq!(places(&mut backend), Some((101..=1_300).collect()));
    assert_eq!(places(&mut backend), None, "once");
    // As far as there are any.
    backend.begin_reading(&behind(2_400, 1_000), begun + 1);
    commit(&mut backend, begun + 1);
    assert_eq!(places(&mut backend), Some((2_401..=2_500).collect()));
}

#[tokio::test]
async fn the_first_jobs_come_behind_the_turn_that_was_begun() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon(&server);
    backend.abandon();
    let first = ReadyQuestion { behind: None, ..behind(0, 1_200) };
    assert!(backend.read_when_begun(&first));
    let revision = backend.begin(begun, None, &Questions::default(), Haste::Much).unwrap().revision;
    assert_eq!(places(&mut backend), Some((1..=1_200).collect()));
    assert_eq!(places(&mut backend), None, "once");
    // Or they are told during a commit that has nothing to do with them.
    backend.abandon();
    assert!(backend.read_when_begun(&first));
    assert_eq!(
        backend.begin(revision, None, &Questions::default(), Haste::Much).unwrap().revision,
        revision
    );
    assert_eq!(commit(&mut backend, revision), Some((1..=1_200).collect()));
    assert_eq!(places(&mut backend), None, "once");
}

#[tokio::test]
async fn they_are_told_during_the_next_commit_or_taken_over_after_other_questions() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon(&server);
    backend.begin_reading(&behind(10, 300), begun);
    commit(&mut backend, begun);
    assert_eq!(commit(&mut backend, begun + 1), Some((11..=310).collect()));
    assert_eq!(places(&mut backend), None, "once");
    backend.begin_reading(&behind(20, 300), begun + 2);
    commit(&mut backend, begun + 2);
    let questions = Questions { seqs: (1..=450).map(Seq).collect(), ..Questions::default() };
    let asked: HashSet<u64> =
        backend.ask(&questions).unwrap().jobs.iter().map(|job| job.seq.0).collect();
    assert_eq!(asked, (1..=450).collect());
    assert_eq!(places(&mut backend), Some((21..=320).collect()));
}

/// As all are where transactions are forbidden.
#[tokio::test]
async fn they_come_with_a_commit_that_is_a_script() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon_with(&server, false);
    backend.begin_reading(&behind(100, 200), begun);
    assert_eq!(commit(&mut backend, begun), None);
    assert_eq!(commit(&mut backend, begun + 1), Some((101..=300).collect()));
    backend.begin_reading(&behind(100, 200), begun + 2);
    commit(&mut backend, begun + 2);
    assert_eq!(places(&mut backend), Some((101..=300).collect()));
}

#[tokio::test]
async fn what_is_read_of_another_revision_does_not_count() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon(&server);
    // As if somebody had written between the commit and the reading.
    backend.begin_reading(&behind(100, 200), begun - 1);
    commit(&mut backend, begun);
    assert_eq!(places(&mut backend), None);
}

#[tokio::test]
async fn a_row_that_is_not_as_it_should_be_makes_all_of_it_worthless() {
    let server = full_queue().await;
    let (mut backend, begun) = daemon(&server);
    server.command(&["HDEL", "runcue:{default}:life", "000000000080"]).unwrap();
    backend.begin_reading(&behind(100, 200), begun);
    commit(&mut backend, begun);
    assert_eq!(places(&mut backend), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_that_read_behind_their_commits_hand_out_every_job_once() {
    let server = full_queue().await;
    let handle = || -> Arc<dyn Store> { Arc::new(open_url(&server.url()).unwrap()) };
    let stores = [handle(), handle()];
    let drains = |n: u128| {
        let store = Arc::clone(&stores[usize::try_from(n % 2).unwrap()]);
        tokio::spawn(drain(store, Timestamp::ZERO, n + 1, 100))
    };
    // One alone at first, so that it reads ahead. Once it knows everything else, nothing but that uses this command.
    let worker = runcue_core::WorkerId::from_u128(9);
    let some = stores[0].claim(Timestamp::ZERO, ClaimRequest::new(worker, 5)).await.unwrap().jobs;
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let mut had = drains(0).await.unwrap();
    had.extend(some.iter().map(|(job, _)| job.id()));
    let used =
        "return string.find(redis.call('INFO', 'commandstats'), 'cmdstat_zrange:') and 1 or 0";
    let used = server.command(&["EVAL", used, "0"]).unwrap();
    assert_eq!(used, ":1", "nothing was read behind a commit");
    let more = SubmitBatch::of((JOBS + 1..=3 * JOBS).map(job).collect());
    stores[0].submit(Timestamp::ZERO, more).await.unwrap();
    for worker in (0..6).map(drains).collect::<Vec<_>>() {
        had.extend(worker.await.unwrap());
    }
    let once: HashSet<JobId> = had.iter().copied().collect();
    assert_eq!((had.len() as u128, once.len() as u128), (3 * JOBS, 3 * JOBS));
    for store in stores {
        store.close().await.unwrap();
    }
}
