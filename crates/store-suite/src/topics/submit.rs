//! submit: a batch is accepted whole or refused whole, and a repeated one changes nothing.

use runcue_core::submission::{MAX_PAYLOAD, MAX_WORDS};
use runcue_core::{JobSpec, Json, StateWord, TraceParent, Wait};
use runcue_store::{StoreError, Submitted};

use crate::Maker;
use crate::scene::*;

async fn assert_empty(s: &Scene) {
    assert_eq!(s.store.stats(s.now).await.unwrap().counts.total(), 0);
    assert_eq!(s.store.last_event().await.unwrap(), 0);
}

/// A batch is answered job by job, in its order.
pub async fn a_batch_is_accepted_in_its_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(3), job(1), job(2)]).await;
    assert_eq!(s.claim_ids(9).await, [3, 1, 2]);
}

/// One bad job refuses all.
pub async fn one_bad_job_refuses_the_whole_batch(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let params = Json::trusted(format!("\"{}\"", "x".repeat(MAX_PAYLOAD)));
    let error = s.try_submit(vec![job(1), JobSpec { params, ..job(2) }]).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid { index: 1, .. }), "{error}");
    assert_empty(&s).await;
}

/// Every bound is checked.
pub async fn bounds_are_checked(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let many: Vec<String> = (0..=MAX_WORDS).map(|n| n.to_string()).collect();
    let labels = many.into_iter().collect();
    let error = s.try_submit(vec![JobSpec { labels, ..job(1) }]).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid { index: 0, .. }), "{error}");
    let error = s.try_submit(vec![JobSpec { retry: attempts(0), ..job(1) }]).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    assert_empty(&s).await;
}

/// References may point forward.
pub async fn references_inside_a_batch_go_in_any_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job_after(1, &[2]), job(2), job_after(3, &[1, 2])]).await;
    assert_eq!(s.drain_one_by_one(9).await, [2, 1, 3]);
}

/// A circle is refused and named.
pub async fn a_cycle_is_refused_and_named(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let error = s.try_submit(vec![job_after(1, &[2]), job_after(2, &[1]), job(3)]).await;
    let Err(StoreError::Cycle(path)) = error else { panic!("{error:?}") };
    assert_eq!(path.first(), path.last());
    assert_eq!(path.len(), 3);
    let error = s.try_submit(vec![job_after(1, &[1])]).await;
    assert!(matches!(error, Err(StoreError::Cycle(_))), "{error:?}");
    assert_empty(&s).await;
}

/// What does not exist cannot be waited for.
pub async fn an_unknown_prerequisite_is_refused(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let error = s.try_submit(vec![job(1), job_after(2, &[1, 9])]).await.unwrap_err();
    let named = matches!(error, StoreError::UnknownPrerequisite { index: 1, prerequisite } if prerequisite == id(9));
    assert!(named, "{error}");
    assert_empty(&s).await;
}

/// What is not defined cannot be used.
pub async fn an_unknown_service_is_refused(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let error = s.try_submit(vec![job(1), job_using(2, &["api"])]).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownService { index: 1, .. }), "{error}");
    assert_empty(&s).await;
}

/// A job that could never start is refused at once.
pub async fn a_job_that_never_fits_is_refused(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 5, 60)]).await;
    let error = s.try_submit(vec![job_costing(1, "api", 6)]).await.unwrap_err();
    assert!(matches!(error, StoreError::NeverFits { units: 6, most: 5, .. }), "{error}");
    s.submit([job_costing(1, "api", 5)]).await;
}

/// An id may appear once in a batch.
pub async fn an_id_twice_in_a_batch_is_refused(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let error = s.try_submit(vec![job(1), job(2), job(1)]).await.unwrap_err();
    assert!(
        matches!(error, StoreError::RepeatedId { index: 2, id: bad } if bad == id(1)),
        "{error}"
    );
    assert_empty(&s).await;
}

/// The reply was lost and the batch is sent again.
pub async fn the_same_batch_again_changes_nothing(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_after(2, &[1])]).await;
    let events = s.store.last_event().await.unwrap();
    let again = s.try_submit(vec![job(1), job_after(2, &[1])]).await.unwrap();
    assert_eq!(again, [Submitted::Existing(id(1)), Submitted::Existing(id(2))]);
    assert_eq!(s.store.last_event().await.unwrap(), events);
    assert_eq!(s.store.stats(s.now).await.unwrap().counts.queued, 2);
    assert_eq!(s.drain_one_by_one(9).await, [1, 2]);
    let again = s.try_submit(vec![job(1), job_after(2, &[1])]).await.unwrap();
    assert_eq!(again, [Submitted::Existing(id(1)), Submitted::Existing(id(2))]);
    assert_eq!(s.states(&[1, 2]).await, [StateWord::Completed; 2]);
    s.assert_nothing_ready().await;
}

/// Half of a batch may be known already.
pub async fn a_batch_may_add_to_known_jobs(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let answers = s.try_submit(vec![job(1), job_after(2, &[1])]).await.unwrap();
    assert_eq!(answers, [Submitted::Existing(id(1)), Submitted::New(id(2))]);
    assert_eq!(s.drain_one_by_one(9).await, [1, 2]);
}

/// Ten thousand jobs in one call, a tenth of them dependents.
pub async fn ten_thousand_jobs_go_in_at_once(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let each = |n: u128| if n.is_multiple_of(10) { job_after(n, &[n - 1]) } else { job(n) };
    s.submit((1..=10_000).map(each)).await;
    let stats = s.store.stats(s.now).await.unwrap();
    assert_eq!((stats.counts.queued, stats.blocked), (10_000, 1_000));
    assert_eq!(s.claim(10_000).await.len(), 9_000);
    s.check().await;
}

/// Everything that was asked for is kept.
pub async fn a_job_is_kept_as_it_was_submitted(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([unlimited("api"), unlimited("db")]).await;
    s.submit([job(9)]).await;
    let spec = JobSpec {
        queue: queue("nightly"),
        target: Some("s3://bucket/ü".to_owned()),
        params: Json::parse(r#"{"a":[1,2.5,null],"b":"\u00fc"}"#).unwrap(),
        priority: -7,
        labels: words(&["x", "y"]),
        project: Some("p".to_owned()),
        timeout: Some(secs(90)),
        dependency_timeout: Some(secs(5)),
        idempotency_key: Some("once".to_owned()),
        run_at: Some(at(10)),
        expires_at: Some(at(1_000)),
        key: Some(key("customer")),
        solver_url: Some("https://x/solver".to_owned()),
        solver_checksum: Some("ab".to_owned()),
        traceparent: TraceParent::new(7, 8, true),
        group: Some(group("g")),
        ..JobSpec { depends_on: vec![id(9)], ..job_using(1, &["api", "db"]) }
    };
    s.submit([spec.clone()]).await;
    let kept = s.job(1).await;
    assert_eq!(*kept.spec, spec);
    assert_eq!(kept.life.state, runcue_core::State::Queued(Wait::Prerequisites(1)));
    assert_eq!((kept.life.attempt, kept.life.created_at), (0, s.now));
}
