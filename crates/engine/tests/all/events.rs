//! The event stream: complete, in order, resumable, with results.

use runcue_core::EventKind;
use runcue_engine::{Failure, NewJob, Task, testing};

use crate::support::{quick, retry, secs};

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_misses_nothing() {
    let flaky = Task::new("flaky").unwrap().retry(retry(2)).handler(|work| async move {
        if work.attempt() == 1 { Err(Failure::transient("no")) } else { Ok(()) }
    });
    let cue = testing::cue().task(flaky).task(quick("t")).build().await.unwrap();
    let jobs = (0..300).map(|n| NewJob::of(if n % 3 == 0 { "flaky" } else { "t" }));
    cue.submit_all(jobs.collect()).await.unwrap();
    cue.start();
    let (mut read, mut position) = (Vec::new(), 0);
    let mut ended = 0;
    while ended < 300 {
        // A new reader every few events, from where the last one was.
        let mut events = cue.events_after(position);
        for _ in 0..7 {
            let event = events.next().await.unwrap();
            if event.kind == EventKind::QueueStatus {
                continue;
            }
            position = event.seq;
            ended += usize::from(event.kind == EventKind::Completed);
            read.push(event.seq);
        }
        assert_eq!(events.position(), position);
    }
    assert_eq!(read, (1..=read.len() as u64).collect::<Vec<_>>(), "each once, in order");
}

#[tokio::test(start_paused = true)]
async fn completed_events_carry_the_result() {
    let task = Task::new("t").unwrap().handler(|work| async move { Ok(work.params::<u32>()? * 2) });
    let cue = testing::cue().task(task).build().await.unwrap();
    let mut events = cue.events().await.unwrap();
    cue.start();
    let id = cue.submit(NewJob::of("t").params(&21).unwrap()).await.unwrap();
    let mut kinds = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        if event.job != Some(id) {
            continue;
        }
        kinds.push(event.kind.short());
        if event.kind.is_final() {
            assert_eq!(event.result::<u32>().unwrap(), 42);
            break;
        }
    }
    assert_eq!(kinds, ["queued", "started", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_cue_and_after_everything_was_read() {
    let cue = testing::cue().task(quick("t")).build().await.unwrap();
    cue.start();
    let mut events = cue.events_after(0);
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    cue.wait(id).await.unwrap();
    cue.stop().await.unwrap();
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.kind);
    }
    assert_eq!(last, Some(EventKind::Completed));
}

#[tokio::test(start_paused = true)]
async fn the_state_of_the_queue_is_told_every_so_often() {
    let cue = testing::cue().task(quick("t")).status_every(secs(5)).build().await.unwrap();
    cue.pause_group("g").await.unwrap();
    cue.submit(NewJob::of("t").group("g")).await.unwrap();
    let mut events = cue.events().await.unwrap();
    cue.start();
    let mut seen = 0;
    while cue.clock().now().since(runcue_core::Timestamp::ZERO).as_secs() % 3600 < 60 {
        let event = events.next().await.unwrap();
        if event.kind == EventKind::QueueStatus {
            seen += 1;
            let status = event.message.clone().unwrap();
            assert!(status.contains(r#""queued":1"#), "{status}");
        }
    }
    assert!((10..=14).contains(&seen), "{seen} in a minute");
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_at_most_once_a_second() {
    let task = Task::new("t").unwrap().handler(|work| async move {
        for n in 0..1_000_u16 {
            work.progress(f32::from(n) / 10.0, format!("step {n}"));
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Ok(())
    });
    let cue = testing::cue().task(task).build().await.unwrap();
    cue.start();
    let mut events = cue.events_after(0);
    let id = cue.submit(NewJob::of("t")).await.unwrap();
    let mut told = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        match event.kind {
            EventKind::Progress => told.push((event.at, event.percent.unwrap())),
            EventKind::Completed => break,
            _ => {}
        }
    }
    assert!((9..=11).contains(&told.len()), "{} in ten seconds", told.len());
    assert!(told.windows(2).all(|pair| pair[1].0.since(pair[0].0) >= secs(1)));
    assert!(told.windows(2).all(|pair| pair[1].1 > pair[0].1));
    assert!(cue.get(id).await.unwrap().life.progress.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_too_late_is_told_what_it_missed() {
    let cue = testing::cue().task(quick("t")).build().await.unwrap();
    for _ in 0..3 {
        cue.submit(NewJob::of("t")).await.unwrap();
    }
    cue.drain().await.unwrap();
    let last = cue.store().last_event().await.unwrap();
    tokio::time::sleep(secs(8 * 24 * 3600)).await;
    let pruned = cue.store().prune(cue.clock().now(), Default::default(), false).await.unwrap();
    assert_eq!(pruned.events, last);
    // All that it had not seen is gone.
    let mut late = cue.events_after(2);
    let told = late.next().await.unwrap();
    assert_eq!((told.kind, told.seq), (EventKind::Missed, last));
    assert_eq!(told.message.as_deref(), Some("events 3 to 9 are no longer kept"));
    // And so when something has happened since; told once, then it goes on.
    cue.submit(NewJob::of("t")).await.unwrap();
    assert_eq!(late.next().await.unwrap().seq, last + 1);
    let mut late = cue.events_after(5);
    assert_eq!(late.next().await.unwrap().kind, EventKind::Missed);
    assert_eq!(late.next().await.unwrap().kind, EventKind::Queued);
    // Whoever is up to date, or begins, has missed nothing.
    for seen in [0, last] {
        assert_eq!(cue.events_after(seen).next().await.unwrap().kind, EventKind::Queued);
    }
}
