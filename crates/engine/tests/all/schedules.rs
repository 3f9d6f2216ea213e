//! Jobs by the clock, in virtual time: on time, once, also while every slot is busy.

use std::sync::Arc;

use runcue_core::{Missed, Overlap, Timestamp};
use runcue_engine::{Clock, Cue, NewJob, Schedule, Task, VirtualClock, Work, testing};
use runcue_store::MemoryStore;

use crate::support::*;

/// A task that records the instants its jobs were to run at.
fn noting(name: &str, record: &Record<i64>) -> Task {
    let record = record.clone();
    Task::new(name).unwrap().handler(move |work: Work| {
        let at = work.job().spec.run_at.unwrap_or_default();
        record.add(at.as_micros() / 1_000_000);
        async { Ok(()) }
    })
}

/// Lets virtual time pass.
async fn pass(seconds: u64) {
    tokio::time::sleep(secs(seconds)).await;
}

/// The full minutes in a span of the engine's clock.
fn minutes(from: Timestamp, until: Timestamp) -> Vec<i64> {
    let (from, until) = (from.as_micros() / 1_000_000, until.as_micros() / 1_000_000);
    (from + 1..=until).filter(|second| second % 60 == 0).collect()
}

#[tokio::test(start_paused = true)]
async fn a_started_cue_fires_on_time_and_runs_the_jobs() {
    let record = Record::default();
    let cue = testing::cue().task(noting("tick", &record)).build().await.unwrap();
    cue.start();
    let begin = cue.clock().now();
    cue.schedule(Schedule::new("tick", "* * * * *", NewJob::of("tick"))).await.unwrap();
    pass(601).await;
    assert_eq!(record.all(), minutes(begin, cue.clock().now()));
    assert!(record.all().len() >= 10);
    let info = cue.schedules().await.unwrap().remove(0);
    assert_eq!(info.fired, record.all().len() as u64);
    assert!(cue.remove_schedule("tick").await.unwrap());
    pass(300).await;
    assert_eq!(info.fired, record.all().len() as u64);
    cue.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn firings_are_on_time_while_every_slot_is_busy() {
    let cue = testing::cue().slots(1).task(endless("long")).task(quick("tick"));
    let cue = cue.build().await.unwrap();
    cue.start();
    cue.submit(NewJob::of("long")).await.unwrap();
    let begin = cue.clock().now();
    cue.schedule(Schedule::new("tick", "* * * * *", NewJob::of("tick"))).await.unwrap();
    pass(601).await;
    let info = cue.schedules().await.unwrap().remove(0);
    assert_eq!(info.fired, minutes(begin, cue.clock().now()).len() as u64);
    assert_eq!(cue.stats().await.unwrap().counts.queued, info.fired);
}

#[tokio::test(start_paused = true)]
async fn two_engines_on_one_store_fire_each_tick_once() {
    let (record, store) = (Record::default(), Arc::new(MemoryStore::new()));
    let clock = VirtualClock::default();
    let mut cues = Vec::new();
    for _ in 0..2 {
        let builder = Cue::builder_on(store.clone()).clock(clock);
        let cue = builder.task(noting("tick", &record)).build().await.unwrap();
        cue.start();
        cues.push(cue);
    }
    let begin = clock.now();
    let schedule = Schedule::new("tick", "*/10 * * * * *", NewJob::of("tick"));
    for cue in &cues {
        cue.schedule(schedule.clone()).await.unwrap();
    }
    pass(301).await;
    let (first, last) = (begin.as_micros() / 1_000_000, clock.now().as_micros() / 1_000_000);
    let expected: Vec<i64> = (first + 1..=last).filter(|second| second % 10 == 0).collect();
    let mut found = record.all();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn the_defaults_of_its_task_are_the_jobs() {
    let task = quick("tick").timeout(secs(7)).retry(retry(5));
    let cue = testing::cue().task(task).build().await.unwrap();
    let schedule = Schedule::new("tick", "0 3 * * *", NewJob::of("tick").priority(4))
        .zone("Europe/Berlin")
        .missed(Missed::Once)
        .overlap(Overlap::Skip)
        .paused(true);
    cue.schedule(schedule).await.unwrap();
    let spec = cue.schedules().await.unwrap().remove(0).spec;
    assert_eq!((spec.job.timeout, spec.job.retry.max_attempts), (Some(secs(7)), 5));
    assert_eq!((spec.job.priority, spec.zone.as_str(), spec.paused), (4, "Europe/Berlin", true));
    assert_eq!((spec.missed, spec.overlap), (Missed::Once, Overlap::Skip));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_cannot_be_is_refused() {
    let cue = testing::cue().task(quick("tick")).build().await.unwrap();
    let bad = Schedule::new("tick", "now and then", NewJob::of("tick"));
    let error = cue.schedule(bad).await.unwrap_err().to_string();
    assert!(error.contains("schedule tick") && error.contains("*/5 * * * *"), "{error}");
    let late = Schedule::new("tick", "* * * * *", NewJob::of("tick").delay(secs(5)));
    let error = cue.schedule(late).await.unwrap_err().to_string();
    assert!(error.contains("run_at"), "{error}");
}
