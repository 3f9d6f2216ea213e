//! A store that is away, loses its answers or is slow: the engine goes on by itself, every completion gets
//! through, and no finished job runs again.

use std::sync::Arc;

use runcue_core::{EventKind, JobId, StateWord};
use runcue_engine::{Cue, CueBuilder, NewJob, Task, VirtualClock};
use runcue_store::Store;

use crate::faulty::{Fault, Faulty};
use crate::support::{Record, millis, recording, secs, until_running, word};

/// Everything that writes.
const WRITES: [&str; 6] = ["claim", "extend", "finish", "reap", "append_logs", "upsert_worker"];

fn over(store: &Arc<Faulty>) -> CueBuilder {
    let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
    Cue::builder_on(store).clock(VirtualClock::default()).ids(runcue_engine::SeededIds::new(7))
}

/// A task that takes so many seconds and records its jobs.
fn noted(record: &Record<JobId>, seconds: u64) -> Task {
    let record = record.clone();
    Task::new("t").unwrap().handler(move |work| {
        record.add(work.id());
        async move {
            tokio::time::sleep(secs(seconds)).await;
            Ok(())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn claims_go_on_when_the_store_is_back() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 1)).build().await.unwrap();
    store.always(&["claim"], Fault::Refused);
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    tokio::time::sleep(secs(600)).await;
    assert!(record.all().is_empty());
    let tries = store.calls("claim");
    assert!((100..200).contains(&tries), "it neither gives up nor storms: {tries} tries");
    store.mend();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
    assert_eq!(record.all(), [id]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_comes_back_when_its_lease_lapses() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 1)).build().await.unwrap();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    store.next("claim", [Some(Fault::ReplyLost)]);
    cue.start();
    let job = cue.wait(id).await.unwrap();
    assert_eq!(word(&job), StateWord::Completed);
    assert_eq!((job.life.attempt, job.life.crashes), (2, 1));
    assert_eq!(record.all(), [id], "nobody began the lost one");
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_kept_and_its_lease_held_until_the_store_takes_it_in() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 1)).slots(4).build().await.unwrap();
    let ids = cue.submit_all((0..4).map(|_| NewJob::of("t")).collect()).await.unwrap();
    store.always(&["finish"], Fault::Refused);
    cue.start();
    // Twenty leases long.
    tokio::time::sleep(secs(600)).await;
    assert_eq!(cue.stats().await.unwrap().counts.running, 4);
    let tries = store.calls("finish");
    assert!((100..200).contains(&tries), "it neither gives up nor storms: {tries} tries");
    store.mend();
    for job in cue.wait_all(ids.clone()).await.unwrap() {
        assert_eq!((word(&job), job.life.attempt), (StateWord::Completed, 1));
    }
    assert_eq!(record.all(), ids, "each once");
    cue.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_was_lost_is_not_done_again() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 1)).build().await.unwrap();
    store.next("finish", [Some(Fault::ReplyLost), Some(Fault::ReplyLost), Some(Fault::Refused)]);
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    let next = cue.submit(NewJob::of("t")).await.unwrap();
    cue.wait(next).await.unwrap();
    let job = cue.wait(id).await.unwrap();
    assert_eq!((word(&job), job.life.attempt), (StateWord::Completed, 1));
    tokio::time::sleep(secs(120)).await;
    assert_eq!(record.all(), [id, next], "each once");
    cue.stop().await.unwrap();
    assert_eq!(cue.store().check(cue.clock().now()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_fail_for_less_than_a_lease_cost_nothing() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 300)).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    for _ in 0..5 {
        store.always(&["extend", "upsert_worker"], Fault::Refused);
        tokio::time::sleep(secs(15)).await;
        store.mend();
        tokio::time::sleep(secs(15)).await;
    }
    let job = cue.wait(id).await.unwrap();
    assert_eq!((word(&job), job.life.attempt, job.life.crashes), (StateWord::Completed, 1, 0));
    assert_eq!(record.all(), [id]);
}

#[tokio::test(start_paused = true)]
async fn lapsed_leases_are_taken_back_when_the_store_is_back() {
    let (store, record) = (Faulty::new(), Record::default());
    let first = over(&store).task(noted(&record, 3600)).build().await.unwrap();
    first.start();
    let id = first.submit(NewJob::of("t")).await.unwrap();
    until_running(&first, id).await;
    // As if that process were gone: it never says another word.
    drop(first);
    let second = over(&store)
        .ids(runcue_engine::SeededIds::new(8))
        .task(noted(&record, 1))
        .build()
        .await
        .unwrap();
    store.always(&["reap", "gone_workers"], Fault::Refused);
    second.start();
    tokio::time::sleep(secs(300)).await;
    assert_eq!(record.all(), [id], "nobody took it back yet");
    store.mend();
    let job = second.wait(id).await.unwrap();
    assert_eq!((word(&job), job.life.attempt, job.life.crashes), (StateWord::Completed, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_is_survived_in_the_middle_of_work() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 7)).slots(5).build().await.unwrap();
    let ids = cue.submit_all((0..40).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.start();
    tokio::time::sleep(secs(10)).await;
    // Shorter than a lease, so nothing has to run twice.
    store.always(&WRITES, Fault::Refused);
    store.always(&["events", "get", "stats", "last_event"], Fault::Refused);
    tokio::time::sleep(secs(15)).await;
    store.mend();
    cue.wait_all(ids.clone()).await.unwrap();
    let mut ran = record.all();
    ran.sort_unstable();
    let mut expected = ids;
    expected.sort_unstable();
    assert_eq!(ran, expected, "each once");
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_no_job_is_lost_and_no_finished_one_runs_again() {
    for seed in 0..20 {
        let (store, record) = (Faulty::new(), Record::default());
        let cue =
            over(&store).task(noted(&record, 2).retry(patient())).slots(6).build().await.unwrap();
        let ids = cue.submit_all((0..60).map(|_| NewJob::of("t")).collect()).await.unwrap();
        store.odds(seed, 4);
        cue.start();
        tokio::time::sleep(secs(120)).await;
        store.mend();
        for job in cue.wait_all(ids.clone()).await.unwrap() {
            assert_eq!(word(&job), StateWord::Completed, "seed {seed}");
        }
        cue.stop().await.unwrap();
        let events = cue.store().events(0, 100_000).await.unwrap();
        for id in ids {
            let story = events.iter().filter(|event| event.job == Some(id));
            let story: Vec<EventKind> = story.map(|event| event.kind).collect();
            assert_eq!(story.last(), Some(&EventKind::Completed), "seed {seed}: {story:?}");
            let ends = story.iter().filter(|kind| **kind == EventKind::Completed).count();
            assert_eq!(ends, 1, "seed {seed}: {story:?}");
        }
        let findings = cue.store().check(cue.clock().now()).await.unwrap();
        assert_eq!(findings, Vec::<String>::new(), "seed {seed}");
    }
}

/// Lost claims count as crashes, of which this test makes many.
fn patient() -> runcue_core::RetryPolicy {
    runcue_core::RetryPolicy { max_crashes: 1_000, ..crate::support::retry(1_000) }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_store_is_away_ends_in_bounded_time() {
    let (store, record) = (Faulty::new(), Record::default());
    let cue = over(&store).task(noted(&record, 1)).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    store.always(&WRITES, Fault::Refused);
    let begin = tokio::time::Instant::now();
    let _ = cue.stop().await;
    assert!(begin.elapsed() < secs(120), "{:?}", begin.elapsed());
}

/// In real time, because virtual time stands still while the store is asked.
#[tokio::test]
async fn a_slow_store_only_makes_it_slow() {
    let (store, record) = (Faulty::new(), Record::default());
    let verbs = ["claim", "finish", "extend", "reap", "events", "get"];
    store.always(&verbs, Fault::Late(millis(20)));
    let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
    let cue = Cue::builder_on(shared).task(recording("t", &record)).slots(4).build().await.unwrap();
    cue.start();
    let job = |n: u32| NewJob::of("t").target(n.to_string());
    let ids = cue.submit_all((0..30).map(job).collect()).await.unwrap();
    cue.wait_all(ids).await.unwrap();
    let mut ran: Vec<u32> = record.all().iter().map(|n| n.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..30).collect::<Vec<_>>());
    cue.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn output_of_jobs_that_end_while_the_store_is_away_is_there_when_it_is_back() {
    let store = Faulty::new();
    let task = Task::new("t").unwrap().handler(|work| async move {
        work.log("before");
        tokio::time::sleep(secs(5)).await;
        work.log("meanwhile");
        Ok(())
    });
    let cue = over(&store).task(task).build().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    until_running(&cue, id).await;
    store.always(&["append_logs", "finish"], Fault::Refused);
    tokio::time::sleep(secs(20)).await;
    store.mend();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
    let logs = store.logs(id, 0).await.unwrap();
    let text: String = logs.into_iter().map(|chunk| chunk.text).collect();
    assert_eq!(text, "before\nmeanwhile\n");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_output_is_never_taken_ends_all_the_same() {
    let store = Faulty::new();
    let task = Task::new("t").unwrap().handler(|work| async move {
        work.log("lost");
        Ok(())
    });
    let cue = over(&store).task(task).build().await.unwrap();
    store.always(&["append_logs"], Fault::Refused);
    cue.start();
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
}
