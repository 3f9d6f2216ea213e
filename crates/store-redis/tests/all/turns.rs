//! Turns and revisions between daemons: a late writer changes nothing, one that was away catches up, and all
//! of it works on a node of a cluster.

use std::time::Duration;

use runcue_core::{JobId, TaskName};
use runcue_store::overlay::{Backend, CommitId, Committed, Haste, Questions, WriteSet};
use runcue_store::{ClaimRequest, Finish, Store, SubmitBatch};
use runcue_store_redis::{Options, RedisBackend, open_url};
use runcue_store_suite::scene::{BEGINNING, done, group, id, job, job_after, job_of, worker};
use runcue_test_servers::Redis;

const TURN: &str = "runcue:{default}:turn";

fn daemon(server: &Redis, n: u128) -> RedisBackend {
    let mut backend = RedisBackend::new(Options::parse(&server.url()).unwrap(), n);
    backend.connect().unwrap();
    backend
}

fn writes(commit: u128, follows: u64, in_turn: bool) -> WriteSet {
    WriteSet { id: Some(CommitId(commit)), follows, in_turn, ..WriteSet::default() }
}

fn is_done(committed: &Committed) -> bool {
    matches!(committed, Committed::Done { .. })
}

#[test]
fn a_daemon_that_was_frozen_past_its_turn_changes_nothing() {
    let server = Redis::settings().start().unwrap();
    let (mut frozen, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let opening = frozen.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    // As if its time had run out.
    assert_eq!(server.command(&["DEL", TURN]).unwrap(), ":1");
    // Nobody has written yet, but somebody else has the turn.
    other.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    let late = writes(1, opening.revision, true);
    assert_eq!(frozen.commit(&late).unwrap(), Committed::Behind);
    assert!(is_done(&other.commit(&writes(2, opening.revision, true)).unwrap()));
    // Nobody has the turn, but somebody else has written.
    assert_eq!(frozen.commit(&late).unwrap(), Committed::Behind);
    assert_eq!(frozen.commit(&writes(1, opening.revision, false)).unwrap(), Committed::Behind);
    assert_eq!(frozen.look().unwrap().0, opening.revision + 1);
}

#[test]
fn a_turn_that_ran_out_unnoticed_by_anybody_is_still_written() {
    let server = Redis::settings().start().unwrap();
    let mut slow = daemon(&server, 1);
    let opening = slow.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    assert_eq!(server.command(&["DEL", TURN]).unwrap(), ":1");
    assert!(is_done(&slow.commit(&writes(1, opening.revision, true)).unwrap()));
}

#[test]
fn a_commit_without_a_turn_waits_for_nobody_and_disturbs_nobody() {
    let server = Redis::settings().start().unwrap();
    let (mut alone, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let revision = alone.look().unwrap().0;
    assert!(is_done(&alone.commit(&writes(1, revision, false)).unwrap()));
    other.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    assert_eq!(alone.commit(&writes(2, revision + 1, false)).unwrap(), Committed::Behind);
    other.abandon();
    assert!(is_done(&alone.commit(&writes(3, revision + 1, false)).unwrap()));
}

/// Whoever is sending a large transaction at that moment need not send it again.
#[test]
fn neither_a_refused_commit_nor_a_new_connection_touches_what_others_watch() {
    let server = Redis::settings().start().unwrap();
    let (mut late, mut other) = (daemon(&server, 1), daemon(&server, 2));
    let revision = late.look().unwrap().0;
    assert!(is_done(&late.commit(&writes(1, revision, false)).unwrap()));
    assert!(is_done(&other.commit(&writes(2, revision + 1, false)).unwrap()));
    let mut watching = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut say = |words: &[&str]| -> redis::Value {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut watching).unwrap()
    };
    say(&["WATCH", "runcue:{default}:meta", TURN]);
    assert_eq!(late.commit(&writes(3, revision + 1, false)).unwrap(), Committed::Behind);
    let _new = daemon(&server, 3);
    say(&["MULTI"]);
    assert_ne!(say(&["EXEC"]), redis::Value::Nil);
    assert_eq!(server.command(&["KEYS", "*:try:*"]).unwrap(), "*0", "nothing is left of it");
}

#[test]
fn a_commit_that_did_not_go_through_never_will() {
    let server = Redis::settings().start().unwrap();
    let mut daemon = daemon(&server, 1);
    let revision = daemon.look().unwrap().0;
    assert!(is_done(&daemon.commit(&writes(1, revision, false)).unwrap()));
    assert!(daemon.settle(CommitId(1), revision).unwrap());
    assert!(!daemon.settle(CommitId(2), revision + 1).unwrap());
    // It was only late, and comes now.
    assert_eq!(daemon.commit(&writes(2, revision + 1, false)).unwrap(), Committed::Behind);
}

#[test]
fn a_daemon_that_waits_is_next() {
    let server = Redis::settings().start().unwrap();
    let mut daemon = daemon(&server, 1);
    let next = "runcue:{default}:next";
    assert_eq!(server.command(&["SET", next, "somebody", "PX", "500"]).unwrap(), "+OK");
    // The turn is free, but not for those who come now, until whoever waits is known to be gone.
    daemon.begin(0, None, &Questions::default(), Haste::Much).unwrap();
    assert_eq!(server.command(&["EXISTS", next]).unwrap(), ":0");
}

#[tokio::test]
async fn a_daemon_that_is_far_behind_reads_everything() {
    let server = Redis::settings().start().unwrap();
    let (one, two) = (open_url(&server.url()).unwrap(), open_url(&server.url()).unwrap());
    one.submit(BEGINNING, SubmitBatch::of(vec![job_of(1, "a")])).await.unwrap();
    // More commits than are told one by one, then one that is too large to be told at all.
    for n in 2..=1000 {
        let name = format!("group {n}");
        two.submit(BEGINNING, SubmitBatch::of(vec![job_of(n, &name)])).await.unwrap();
    }
    assert_eq!(one.stats(BEGINNING).await.unwrap().counts.queued, 1000);
    let many = (1001..=5000).map(|n| job_of(n, &format!("group {n}")));
    two.submit(BEGINNING, SubmitBatch::of(many.collect())).await.unwrap();
    assert_eq!(one.stats(BEGINNING).await.unwrap().counts.queued, 5000);
    two.set_group_paused(BEGINNING, group("group 5000"), true).await.unwrap();
    let request = ClaimRequest::new(worker(1), 6000);
    let claimed = one.claim(BEGINNING, request).await.unwrap().jobs;
    let mut ids: Vec<JobId> = claimed.iter().map(|(job, _)| job.id()).collect();
    ids.sort();
    assert_eq!(ids, (1..=4999).map(id).collect::<Vec<_>>());
    assert_eq!(one.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn daemons_that_claim_many_by_turns_get_each_job_once() {
    let server = Redis::settings().start().unwrap();
    let daemons = [open_url(&server.url()).unwrap(), open_url(&server.url()).unwrap()];
    let jobs = (1..=2000).map(job).chain([job_after(3000, &[7])]);
    daemons[0].submit(BEGINNING, SubmitBatch::of(jobs.collect())).await.unwrap();
    let mut claimed = Vec::new();
    for daemon in daemons.iter().cycle().take(10) {
        let request = ClaimRequest::new(worker(1), 300);
        claimed.extend(daemon.claim(BEGINNING, request).await.unwrap().jobs);
    }
    let ids: Vec<JobId> = claimed.iter().map(|(job, _)| job.id()).collect();
    assert_eq!(ids, (1..=2000).map(id).collect::<Vec<_>>());
    // Whether somebody waits for a job comes with it.
    let awaited = claimed.into_iter().filter(|(job, _)| job.has_dependents);
    let ends: Vec<Finish> = awaited.map(|(_, lease)| Finish { lease, outcome: done() }).collect();
    assert_eq!(ends.len(), 1);
    daemons[0].finish(BEGINNING, ends).await.unwrap();
    let last = daemons[1].claim(BEGINNING, ClaimRequest::new(worker(1), 300)).await.unwrap();
    assert_eq!(last.jobs.iter().map(|(job, _)| job.id()).collect::<Vec<_>>(), [id(3000)]);
}

#[tokio::test]
async fn all_of_a_queue_is_in_one_slot_of_a_cluster() {
    let server = Redis::settings().set("cluster-enabled", "yes").start().unwrap();
    assert_eq!(server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap(), "+OK");
    while !server.command(&["SET", "probe", "1"]).unwrap().starts_with("+OK") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let store = open_url(&format!("{}?space=night", server.url())).unwrap();
    let version = store.changed(0).await;
    let mut jobs: Vec<_> = (1..=2000).map(job).collect();
    jobs[1].depends_on = vec![id(1)];
    jobs[2].task = TaskName::new("other").unwrap();
    jobs[3].idempotency_key = Some("once".to_owned());
    store.submit(BEGINNING, SubmitBatch::of(jobs)).await.unwrap();
    assert!(store.changed(version).await > version);
    let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), 100)).await.unwrap().jobs;
    assert_eq!(claimed.len(), 100);
    assert_eq!(store.check(BEGINNING).await.unwrap(), Vec::<String>::new());
}
