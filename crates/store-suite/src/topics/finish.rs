//! finish: only the holder of the lease may end an attempt, and a repeated end changes nothing.

use runcue_core::{ErrorKind, Json, StateWord};
use runcue_store::{Extended, Finish, Finished, Outcome};

use crate::Maker;
use crate::scene::*;

fn with_result(text: &str, key: Option<&str>) -> Outcome {
    Outcome::Done { result: Some(Json::parse(text).unwrap()), result_key: key.map(str::to_owned) }
}

/// Every late write of a lost lease is refused and changes nothing.
pub async fn late_writes_are_refused_after_reclaim(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([slots("api", 1)]).await;
    s.submit([job_using(1, &["api"])]).await;
    let old = s.take_job(1).await;
    s.wait(31);
    assert_eq!(s.reap().await.requeued, [id(1)]);
    let late = || {
        vec![
            done(),
            failed(ErrorKind::Transient),
            failed(ErrorKind::Permanent),
            Outcome::RateLimited { retry_after: secs(60), service: None },
            Outcome::HandBack,
            Outcome::Stopped,
        ]
    };
    for reclaimed in [false, true] {
        let new = if reclaimed { Some(s.take_job(1).await) } else { None };
        let (before, events) = (s.job(1).await, s.store.last_event().await.unwrap());
        for outcome in late() {
            assert_eq!(s.finish(&old, outcome).await, Finished::Lost);
        }
        assert_eq!(s.extend(&old, 30).await, Extended::Lost);
        assert_eq!(s.job(1).await, before);
        assert_eq!(s.store.last_event().await.unwrap(), events);
        assert_eq!(s.service("api").await.in_use, u32::from(reclaimed));
        assert_eq!(s.service("api").await.held_until, None);
        if let Some(new) = new {
            s.done(&new).await;
        }
    }
    assert_eq!(s.finish(&old, done()).await, Finished::Lost);
    assert_eq!(s.state(1).await, StateWord::Completed);
}

/// A lease differs by every part: attempt, worker and token.
pub async fn a_forged_lease_is_refused(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    let lease = s.take_job(1).await;
    let mut forged = vec![lease.clone(); 4];
    forged[0].attempt += 1;
    forged[1].worker = worker(99);
    forged[2].token.0 += 1;
    forged[3].job = id(2);
    for lease in &forged {
        assert_eq!(s.finish(lease, done()).await, Finished::Lost);
        assert_eq!(s.extend(lease, 30).await, Extended::Lost);
    }
    assert_eq!(s.states(&[1, 2]).await, [StateWord::Running, StateWord::Queued]);
    s.done(&lease).await;
}

/// A job that is handed back and taken again by the same worker has a new lease.
pub async fn a_lease_ends_with_its_hand_back(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let old = s.take_job(1).await;
    s.finish(&old, Outcome::HandBack).await;
    let new = s.take_job(1).await;
    assert_eq!((old.attempt, new.attempt), (1, 1));
    assert_eq!(s.finish(&old, done()).await, Finished::Lost);
    assert_eq!(s.state(1).await, StateWord::Running);
}

/// The result is kept.
pub async fn the_result_is_kept(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    let text = r#"{"score": 0.25, "text":"ü"}"#;
    assert_eq!(s.finish(&lease, with_result(text, None)).await, ended(StateWord::Completed));
    let life = s.job(1).await.life;
    assert_eq!(life.result.unwrap().as_str(), text);
    assert_eq!(life.finished_at, Some(s.now));
}

/// The same result again is welcome and changes nothing; another one is refused.
pub async fn a_repeated_result_changes_nothing(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    s.finish(&lease, with_result("1", Some("hash"))).await;
    let (before, events) = (s.job(1).await, s.store.last_event().await.unwrap());
    s.wait(5);
    assert_eq!(s.finish(&lease, with_result("1", Some("hash"))).await, Finished::Repeated);
    assert_eq!(s.finish(&lease, with_result("2", Some("other"))).await, Finished::Lost);
    assert_eq!(s.finish(&lease, with_result("1", None)).await, Finished::Lost);
    assert_eq!(s.job(1).await, before);
    assert_eq!(s.store.last_event().await.unwrap(), events);
}

/// One answer per entry, good leases beside lost ones.
pub async fn a_batch_answers_each_entry(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=5).map(job)).await;
    let leases = s.claim(4).await;
    s.finish(&leases[3], Outcome::HandBack).await;
    let end = |n: usize, outcome| Finish { lease: leases[n].clone(), outcome };
    let mut unknown = leases[0].clone();
    unknown.job = id(77);
    let ends = vec![
        end(3, done()),
        end(0, done()),
        end(1, failed(ErrorKind::Permanent)),
        Finish { lease: unknown, outcome: done() },
        end(2, failed(ErrorKind::Transient)),
        end(0, done()),
    ];
    let answers = s.store.finish(s.now, ends).await.unwrap();
    let expected = [
        Finished::Lost,
        ended(StateWord::Completed),
        ended(StateWord::Failed),
        Finished::Lost,
        retried(at(1)),
        Finished::Lost,
    ];
    assert_eq!(answers, expected);
    s.check().await;
}

/// A job may be finished before its first heartbeat.
pub async fn a_job_may_be_finished_before_its_first_heartbeat(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let mut request = s.request(1);
    request.start = false;
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    s.done(&lease).await;
}
