//! Why a job waits: every reason, the most important first.

use runcue_core::why::Reason;
use runcue_core::{Capabilities, ErrorKind, JobSpec, QueueSpec, Requires, ServiceSpec, StateWord};
use runcue_store::{Outcome, StoreError, WorkerSpec};

use crate::Maker;
use crate::scene::*;

async fn with_worker(maker: &impl Maker) -> Scene {
    let s = Scene::new(maker).await;
    hello(&s).await;
    s
}

async fn hello(s: &Scene) {
    let spec = WorkerSpec {
        id: worker(1),
        name: "w".to_owned(),
        host: "h".to_owned(),
        pid: 1,
        slots: 1,
        offers: Capabilities { cores: 2, ram_gb: 4.0, tags: words(&[]) },
    };
    s.store.upsert_worker(s.now, spec).await.unwrap();
}

async fn why(s: &Scene, n: u128) -> Vec<Reason> {
    s.store.why(s.now, id(n)).await.unwrap()
}

/// A job that does not wait says what it is.
pub async fn a_job_that_does_not_wait(maker: impl Maker) {
    let s = with_worker(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    let running = Reason::NotWaiting { state: StateWord::Running, error: None };
    assert_eq!(why(&s, 1).await, [running]);
    s.finish(&lease, failed(ErrorKind::Permanent)).await;
    let error = Some("boom".to_owned());
    assert_eq!(why(&s, 1).await, [Reason::NotWaiting { state: StateWord::Failed, error }]);
    let error = s.store.why(s.now, id(9)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(missing) if missing == id(9)));
}

/// Dependencies, with their number and names.
pub async fn prerequisites(maker: impl Maker) {
    let s = with_worker(&maker).await;
    s.submit([job(1), job(2), job(3), job_after(4, &[1, 2, 3])]).await;
    s.run_job(1).await;
    let reason = Reason::Prerequisites { left: 2, jobs: vec![id(2), id(3)] };
    assert_eq!(why(&s, 4).await[0], reason);
}

/// A time that has not come: run_at or the next try.
pub async fn not_yet(maker: impl Maker) {
    let s = with_worker(&maker).await;
    s.submit([JobSpec { run_at: Some(at(60)), ..job(1) }, job(2)]).await;
    let lease = s.take_job(2).await;
    s.fail(&lease).await;
    assert_eq!(why(&s, 1).await[0], Reason::NotYet { at: at(60), retry: false });
    assert_eq!(why(&s, 2).await[0], Reason::NotYet { at: at(1), retry: true });
}

/// Its group or its queue is paused.
pub async fn paused(maker: impl Maker) {
    let s = with_worker(&maker).await;
    s.submit([JobSpec { queue: queue("q"), ..job_of(1, "g") }]).await;
    s.store.set_group_paused(s.now, group("g"), true).await.unwrap();
    let spec = QueueSpec { name: queue("q"), paused: true, ..QueueSpec::default() };
    s.store.upsert_queues(s.now, vec![spec]).await.unwrap();
    let reasons = why(&s, 1).await;
    assert!(reasons.contains(&Reason::GroupPaused { group: group("g") }), "{reasons:?}");
    assert!(reasons.contains(&Reason::QueuePaused { queue: queue("q") }), "{reasons:?}");
}

async fn block_of(s: &Scene, n: u128) -> (String, Option<runcue_core::Timestamp>) {
    let reasons = why(s, n).await;
    match &reasons[0] {
        Reason::Service { block, until, .. } => (block.clone(), *until),
        other => panic!("{other:?}"),
    }
}

/// Every way a service can be closed, and until when.
pub async fn a_service_without_room(maker: impl Maker) {
    let s = with_worker(&maker).await;
    let keyed = per_key(Some(1), vec![rate(2, 20)]);
    s.services([
        slots("slots", 1),
        rated("rate", 1, 10),
        ServiceSpec { per_key: keyed, ..unlimited("keyed") },
        ServiceSpec { paused: true, ..unlimited("paused") },
        unlimited("held"),
        ServiceSpec {
            circuit_threshold: Some(1),
            circuit_timeout: secs(40),
            ..unlimited("broken")
        },
    ])
    .await;
    let of_key = |n| JobSpec { key: Some(key("x")), ..job_using(n, &["keyed"]) };
    s.submit([job_using(1, &["slots"]), job_using(2, &["rate"]), of_key(3)]).await;
    s.submit([job_using(4, &["held"]), job_using(5, &["broken"])]).await;
    let leases = s.claim(5).await;
    s.finish(&leases[3], Outcome::RateLimited { retry_after: secs(30), service: None }).await;
    s.fail(&leases[4]).await;
    s.submit([job_using(11, &["slots"]), job_using(12, &["rate"]), of_key(13)]).await;
    s.submit([job_using(14, &["held"]), job_using(15, &["broken"]), job_using(16, &["paused"])])
        .await;
    assert_eq!(block_of(&s, 11).await, ("full".to_owned(), None));
    assert_eq!(block_of(&s, 12).await, ("rate_limited".to_owned(), Some(at(10))));
    assert_eq!(block_of(&s, 13).await, ("key_full".to_owned(), None));
    assert_eq!(block_of(&s, 14).await, ("held".to_owned(), Some(at(30))));
    assert_eq!(block_of(&s, 15).await, ("circuit_open".to_owned(), Some(at(40))));
    assert_eq!(block_of(&s, 16).await, ("paused".to_owned(), None));
    s.done(&leases[2]).await;
    let lease = s.take_job(13).await;
    s.done(&lease).await;
    s.submit([of_key(23)]).await;
    assert_eq!(block_of(&s, 23).await, ("key_rate_limited".to_owned(), Some(at(20))));
    let mut later = s;
    later.wait(40);
    hello(&later).await;
    assert_eq!(later.claim(1).await.len(), 1);
    assert_eq!(block_of(&later, 15).await.0, "probe_out");
}

/// No worker at all, or none that fits.
pub async fn no_worker(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let requires = Requires { cores: Some(64), ..Requires::default() };
    s.submit([JobSpec { requires, ..job(1) }, job(2)]).await;
    assert_eq!(why(&s, 2).await[0], Reason::NoWorker);
    hello(&s).await;
    assert_eq!(why(&s, 1).await[0], Reason::NoWorkerFits);
    assert_eq!(why(&s, 2).await[0], Reason::Next);
    s.wait(600);
    assert_eq!(why(&s, 2).await[0], Reason::NoWorker, "nobody was heard of for ten minutes");
}

/// Its place in its lane.
pub async fn behind_others(maker: impl Maker) {
    let s = with_worker(&maker).await;
    s.submit([job(1), job(2), job(3), JobSpec { priority: 1, ..job(4) }]).await;
    assert_eq!(why(&s, 4).await, [Reason::Next]);
    assert_eq!(why(&s, 1).await, [Reason::Behind { ahead: 1 }]);
    assert_eq!(why(&s, 3).await, [Reason::Behind { ahead: 3 }]);
}
