//! Services: slots, exact windows, breakers and Retry-After, over hours of virtual time.

use std::time::Duration;

use runcue_core::breaker::Breaker;
use runcue_core::service::KeyLimits;
use runcue_core::{ServiceSpec, StateWord};
use runcue_engine::{Failure, NewJob, Task, testing};

use crate::support::{Crowd, Record, millis, rated, retry, secs, service, word};

#[tokio::test(start_paused = true)]
async fn a_rate_holds_in_every_window_of_a_virtual_hour() {
    let record = Record::default();
    let starts = record.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |work| {
        let starts = starts.clone();
        starts.add(tokio::time::Instant::now());
        // Some fast, some slow: the window counts starts, whatever becomes of them.
        let span = Duration::from_millis((work.id().as_u128() % 5_000) as u64);
        async move {
            tokio::time::sleep(span).await;
            Ok(())
        }
    });
    let api = rated("api", 10, secs(60));
    let cue = testing::cue().service(api).task(task).slots(20).build().await.unwrap();
    let jobs = (0..600).map(|_| NewJob::of("t")).collect();
    cue.submit_all(jobs).await.unwrap();
    cue.start();
    cue.drain().await.unwrap();
    let mut starts = record.all();
    starts.sort();
    assert_eq!(starts.len(), 600);
    for window in starts.windows(11) {
        let span = window[10] - window[0];
        assert!(span >= secs(60), "eleven starts within {span:?}");
    }
    let took = *starts.last().unwrap() - starts[0];
    assert!(took < secs(59 * 61), "and the rate is used: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_never_has_more_jobs_at_once_than_it_may() {
    let crowd = Crowd::default();
    let seen = crowd.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |work| {
        let crowd = seen.clone();
        async move {
            crowd.enter(millis(1 + (work.id().as_u128() % 97) as u64)).await;
            Ok(())
        }
    });
    let api = ServiceSpec { max_concurrent: Some(3), ..service("api") };
    let cue = testing::cue().service(api).task(task).slots(16).build().await.unwrap();
    cue.submit_all((0..200).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.start();
    cue.drain().await.unwrap();
    assert_eq!(cue.stats().await.unwrap().counts.completed, 200);
    assert_eq!(crowd.most(), 3, "never more, and all three are used");
}

#[tokio::test(start_paused = true)]
async fn one_job_per_key_at_a_time() {
    let crowds = [Crowd::default(), Crowd::default()];
    let seen = crowds.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |work| {
        let crowd = seen[work.params::<usize>().unwrap()].clone();
        async move {
            crowd.enter(millis(10)).await;
            Ok(())
        }
    });
    let per_key = Some(KeyLimits { max_concurrent: Some(1), rates: vec![] });
    let cue = testing::cue()
        .service(ServiceSpec { per_key, ..service("api") })
        .task(task)
        .build()
        .await
        .unwrap();
    let job = |n: usize| {
        let customer = n % 2;
        NewJob::of("t").key(format!("customer {customer}")).params(&customer).unwrap()
    };
    cue.submit_all((0..40).map(job).collect()).await.unwrap();
    cue.start();
    cue.drain().await.unwrap();
    assert_eq!(crowds.map(|crowd| crowd.most()), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_circuit_opens_and_a_real_job_closes_it_again() {
    let record = Record::default();
    let starts = record.clone();
    let begin = tokio::time::Instant::now();
    let task =
        Task::new("t").unwrap().service("api").unwrap().retry(retry(10)).handler(move |_| {
            let since = begin.elapsed();
            starts.add(since);
            async move { if since < secs(100) { Err(Failure::transient("down")) } else { Ok(()) } }
        });
    let api =
        ServiceSpec { circuit_threshold: Some(3), circuit_timeout: secs(300), ..service("api") };
    let cue = testing::cue().service(api).task(task).slots(1).build().await.unwrap();
    cue.submit_all((0..5).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.start();
    cue.drain().await.unwrap();
    assert_eq!(cue.stats().await.unwrap().counts.completed, 5);
    let starts = record.all();
    assert_eq!(starts.iter().filter(|at| **at < secs(100)).count(), 3, "then it was open");
    assert!(starts[3] >= secs(300), "the probe waits for the circuit: {:?}", starts[3]);
    let api = &cue.services().await.unwrap()[0];
    assert_eq!(api.breaker, Breaker::Closed { failures: 0 });
}

#[tokio::test(start_paused = true)]
async fn retry_after_keeps_the_attempt_and_the_service_waits() {
    let record = Record::default();
    let starts = record.clone();
    let begin = tokio::time::Instant::now();
    let task =
        Task::new("t").unwrap().service("api").unwrap().retry(retry(1)).handler(move |work| {
            starts.add((begin.elapsed().as_secs(), work.attempt()));
            async move {
                if begin.elapsed() < secs(30) {
                    return Err(Failure::rate_limited(secs(30), "api"));
                }
                Ok(work.attempt())
            }
        });
    let cue = testing::cue().service(service("api")).task(task).slots(1).build().await.unwrap();
    let ids = cue.submit_all(vec![NewJob::of("t"), NewJob::of("t")]).await.unwrap();
    cue.start();
    for id in ids {
        assert_eq!(cue.result::<u32>(id).await.unwrap(), 1, "no attempt was used up");
    }
    assert_eq!(record.all(), [(0, 1), (30, 1), (30, 1)], "the second job waits with the service");
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_takes_effect_while_running() {
    let crowd = Crowd::default();
    let seen = crowd.clone();
    let task = Task::new("t").unwrap().service("api").unwrap().handler(move |_| {
        let crowd = seen.clone();
        async move {
            crowd.enter(secs(10)).await;
            Ok(())
        }
    });
    let one = ServiceSpec { max_concurrent: Some(1), ..service("api") };
    let cue = testing::cue().service(one.clone()).task(task).build().await.unwrap();
    cue.submit_all((0..9).map(|_| NewJob::of("t")).collect()).await.unwrap();
    cue.start();
    tokio::time::sleep(secs(1)).await;
    assert_eq!(crowd.most(), 1);
    cue.service(ServiceSpec { max_concurrent: Some(4), ..one }).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    assert_eq!(crowd.most(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_group_does_not_starve_another() {
    let record = Record::default();
    let order = record.clone();
    let task = Task::new("t").unwrap().handler(move |work| {
        order.add(work.job().spec.group.clone().unwrap().to_string());
        async { Ok(()) }
    });
    let cue = testing::cue().task(task).slots(1).build().await.unwrap();
    cue.submit_all((0..1000).map(|_| NewJob::of("t").group("flood")).collect()).await.unwrap();
    let small = cue.submit(NewJob::of("t").group("small")).await.unwrap();
    cue.start();
    cue.wait(small).await.unwrap();
    let before = record.all().iter().take_while(|group| *group == "flood").count();
    assert!(before <= 1, "{before} jobs of the flood went first");
}

#[tokio::test(start_paused = true)]
async fn a_paused_group_waits_and_tells_why() {
    let cue = testing::cue().task(crate::support::quick("t")).build().await.unwrap();
    cue.start();
    cue.pause_group("g").await.unwrap();
    let id = cue.submit(NewJob::of("t").group("g")).await.unwrap();
    cue.drain().await.unwrap();
    assert_eq!(word(&cue.get(id).await.unwrap()), StateWord::Queued);
    assert_eq!(cue.why(id).await.unwrap()[0].to_string(), "group g is paused");
    cue.resume_group("g").await.unwrap();
    assert_eq!(word(&cue.wait(id).await.unwrap()), StateWord::Completed);
}
