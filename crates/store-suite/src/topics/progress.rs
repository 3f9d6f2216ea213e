//! Progress: what a job says of itself while it runs.

use runcue_core::{Lease, Progress};
use runcue_store::Extend;

use crate::Maker;
use crate::scene::*;

async fn report(s: &Scene, lease: &Lease, percent: f32) {
    let progress = Some(Progress { percent, message: format!("at {percent}") });
    let beat = Extend { lease: lease.clone(), lease_for: secs(30), progress };
    s.store.extend(s.now, vec![beat]).await.unwrap();
}

/// The latest report is kept, and the next attempt begins without one.
pub async fn the_latest_report_is_kept_for_the_attempt(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    report(&s, &lease, 10.0).await;
    report(&s, &lease, 42.5).await;
    let progress = s.job(1).await.life.progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_str()), (42.5, "at 42.5"));
    s.extend(&lease, 30).await;
    assert!(s.job(1).await.life.progress.is_some(), "a plain heartbeat does not erase it");
    s.fail(&lease).await;
    s.wait(1);
    s.take_job(1).await;
    assert_eq!(s.job(1).await.life.progress, None);
}

/// A report under a lost lease is not kept.
pub async fn a_report_of_a_lost_lease_is_not_kept(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let old = s.take_job(1).await;
    s.wait(31);
    s.reap().await;
    s.take_job(1).await;
    report(&s, &old, 99.0).await;
    assert_eq!(s.job(1).await.life.progress, None);
}
