//! The machine in turns where daemons listen to each other: the contract again, and what they may believe.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp, WorkerId};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_suite::Maker;
use runcue_store_suite::scene::{job_using, slots};

use super::Servers;

const NOW: Timestamp = Timestamp::from_millis(1_000);

async fn submit(store: &Arc<dyn Store>, n: u128) {
    let job = JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    store.submit(NOW, SubmitBatch::of(vec![job])).await.unwrap();
}

/// Claims a job and ends it.
async fn work(store: &Arc<dyn Store>, n: u128) {
    let request = ClaimRequest::new(WorkerId::from_u128(7), 10);
    let jobs = store.claim(NOW, request).await.unwrap().jobs;
    let ids: Vec<JobId> = jobs.iter().map(|(job, _)| job.id()).collect();
    assert_eq!(ids, [JobId::from_u128(n)]);
    let outcome = Outcome::Done { result: None, result_key: None };
    let ends = jobs.into_iter().map(|(_, lease)| Finish { lease, outcome: outcome.clone() });
    store.finish(NOW, ends.collect()).await.unwrap();
}

/// One that has submitted three jobs, and another that was told of them and has ended them.
async fn acquainted(servers: &Servers) -> (Arc<dyn Store>, Arc<dyn Store>) {
    let one = servers.open().await;
    let two = servers.second_handle(&one).await.unwrap();
    for n in 1..=3 {
        submit(&one, n).await;
        work(&two, n).await;
    }
    (one, two)
}

#[tokio::test]
async fn what_was_told_is_not_asked_for() {
    let servers = Servers::new().telling();
    let (one, two) = acquainted(&servers).await;
    let begun = || servers.latest.lock().unwrap().begun.load(Ordering::Relaxed);
    let before = begun();
    for n in 4..=9 {
        submit(&one, n).await;
        work(&two, n).await;
    }
    assert_eq!(begun(), before);
    assert_eq!(one.stats(NOW).await.unwrap().counts.completed, 9);
}

/// Whoever is told without end, and never asks, keeps no more of it than it should, and asks when it needs it.
#[tokio::test]
async fn whoever_is_told_more_than_it_can_keep_asks() {
    let servers = Servers::new().telling();
    let (one, two) = acquainted(&servers).await;
    let begun = || servers.latest.lock().unwrap().begun.load(Ordering::Relaxed);
    let before = begun();
    // Each of them tells of a group, a queue, a lane and a job.
    for n in 4..=1_504 {
        submit(&one, n).await;
    }
    assert_eq!(begun(), before, "whoever submits has heard nothing meanwhile");
    assert_eq!(two.stats(NOW).await.unwrap().counts.queued, 1_501);
    assert_eq!(begun(), before + 1, "it was told of more than it keeps");
    submit(&one, 2_000).await;
    assert_eq!(two.stats(NOW).await.unwrap().counts.queued, 1_502);
    assert_eq!(begun(), before + 1, "and relies on what it is told again");
}

/// A claim is no news by itself; it is told with the next.
#[tokio::test]
async fn a_place_that_was_taken_quietly_is_taken_for_all() {
    let servers = Servers::new().telling();
    let one = servers.open().await;
    let two = servers.second_handle(&one).await.unwrap();
    let begun = || servers.latest.lock().unwrap().begun.load(Ordering::Relaxed);
    one.upsert_services(NOW, vec![slots("api", 1)]).await.unwrap();
    let using = |n: u128| SubmitBatch::of(vec![job_using(n, &["api"])]);
    let request = || ClaimRequest::new(WorkerId::from_u128(7), 1);
    let finish = async |store: &Arc<dyn Store>| {
        let (_, lease) = store.claim(NOW, request()).await.unwrap().jobs.remove(0);
        let outcome = Outcome::Done { result: None, result_key: None };
        store.finish(NOW, vec![Finish { lease, outcome }]).await.unwrap();
    };
    for n in 1..=6 {
        one.submit(NOW, using(n)).await.unwrap();
        finish(if n % 2 == 0 { &one } else { &two }).await;
    }
    one.submit(NOW, using(7)).await.unwrap();
    assert!(two.claim(NOW, request()).await.unwrap().jobs.len() == 1);
    let before = begun();
    two.submit(NOW, using(8)).await.unwrap();
    assert!(one.claim(NOW, request()).await.unwrap().jobs.is_empty());
    assert_eq!(begun(), before, "what was told was not relied on");
}

/// A revision that nobody has written is not waited for, and does not drown out those that come.
#[tokio::test]
async fn a_revision_from_nowhere_does_not_silence_the_news() {
    let servers = Servers::new().telling();
    let one = servers.open().await;
    let two = servers.second_handle(&one).await.unwrap();
    submit(&one, 1).await;
    work(&two, 1).await;
    servers.latest.lock().unwrap().tell(&u64::MAX.to_string());
    // Whoever is woken looks for jobs.
    let request = ClaimRequest::new(WorkerId::from_u128(7), 10);
    assert!(two.claim(NOW, request).await.unwrap().jobs.is_empty());
    for n in 2..=4 {
        let version = two.changed(0).await;
        submit(&one, n).await;
        assert!(two.changed(version).await > version);
        work(&two, n).await;
    }
}

/// What was not heard is asked for, and afterwards others are believed again.
#[tokio::test]
async fn a_message_that_is_lost_is_made_up_for() {
    let servers = Servers::new().telling();
    let one = servers.open().await;
    let two = servers.second_handle(&one).await.unwrap();
    let listeners =
        || std::mem::take(&mut *servers.latest.lock().unwrap().listeners.lock().unwrap());
    for n in 1..=3 {
        submit(&one, n).await;
        work(&two, n).await;
    }
    let heard = listeners();
    submit(&one, 4).await;
    servers.latest.lock().unwrap().listeners.lock().unwrap().extend(heard);
    submit(&one, 5).await;
    let request = ClaimRequest::new(WorkerId::from_u128(7), 10);
    let jobs = two.claim(NOW, request).await.unwrap().jobs;
    let ids: Vec<JobId> = jobs.iter().map(|(job, _)| job.id()).collect();
    assert_eq!(ids, [JobId::from_u128(4), JobId::from_u128(5)]);
}

/// Whoever knows the channel and not the secret is not believed, even if the revision comes out right.
#[tokio::test]
async fn what_nobody_has_signed_is_not_believed() {
    let servers = Servers::new().telling();
    let one = servers.open().await;
    let two = servers.second_handle(&one).await.unwrap();
    for n in 1..=3 {
        submit(&one, n).await;
        work(&two, n).await;
    }
    let server = servers.latest.lock().unwrap().clone();
    let revision = server.rows.lock().unwrap().revision();
    let signature = "0".repeat(64);
    let next = revision + 1;
    server.tell(&format!(r#"{next} {signature} {{"from":{revision},"to":{next}}}"#));
    submit(&one, 4).await;
    submit(&two, 5).await;
    assert_eq!(one.stats(NOW).await.unwrap().counts.queued, 2);
    assert_eq!(server.rows.lock().unwrap().jobs.len(), 5);
}

runcue_store_suite::contract_suite!(Servers::new().telling());
runcue_store_suite::durable_suite!(Servers::new().telling());
runcue_store_suite::model_suite!(Servers::new().telling(), 60);

mod losing {
    use super::Servers;

    runcue_store_suite::durable_suite!(Servers::losing(3).telling());
    runcue_store_suite::model_suite!(Servers::losing(9).telling(), 8);
}
