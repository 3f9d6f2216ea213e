//! Starts that never were: a worker that gives a job back before it began frees its places in all windows, and
//! only the holder of the attempt can.

use std::time::Duration;

use runcue_core::{JobSpec, Lease, ServiceSpec, StateWord};
use runcue_store::{ClaimRequest, Finished, Outcome};

use super::services::assert_within;
use crate::Maker;
use crate::scene::*;

/// Claims a job that may start within two seconds.
async fn claim_ahead(s: &Scene) -> Lease {
    let request = ClaimRequest { start_within: secs(2), ..s.request(1) };
    let (_, lease) = s.claim_as(request).await.pop().unwrap();
    lease
}

async fn used(s: &Scene, name: &str) -> Vec<u64> {
    s.service(name).await.used.into_iter().map(|(_, used)| used).collect()
}

/// The places of a job that was given back before it began are free at once: of each rate, in units, and the
/// attempt is not counted.
pub async fn places_that_were_never_used_are_given_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let rates = vec![rate(5, 10), rate(5, 60)];
    s.services([ServiceSpec { rates, ..unlimited("api") }, rated("tokens", 1, 60)]).await;
    let services = [job_costing(0, "api", 4), job_using(0, &["tokens"])];
    let services: Vec<_> = services.into_iter().flat_map(|job| job.services).collect();
    s.submit([JobSpec { services: services.clone(), ..job(1) }]).await;
    let lease = claim_ahead(&s).await;
    assert_eq!((used(&s, "api").await, used(&s, "tokens").await), (vec![4, 4], vec![1]));
    s.wait(3);
    assert_eq!(s.finish(&lease, Outcome::Unstarted).await, ended(StateWord::Queued));
    assert_eq!((used(&s, "api").await, used(&s, "tokens").await), (vec![0, 0], vec![0]));
    let again = claim_ahead(&s).await;
    assert_eq!(again.attempt, 1, "the first attempt did not count");
    s.done(&again).await;
    assert_eq!((used(&s, "api").await, used(&s, "tokens").await), (vec![4, 4], vec![1]));
    s.check().await;
}

/// The same for the windows of a key; others keep theirs.
pub async fn places_in_the_windows_of_a_key_are_given_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = ServiceSpec { per_key: per_key(None, vec![rate(1, 60)]), ..unlimited("api") };
    s.services([ServiceSpec { rates: vec![rate(9, 60)], ..limits }]).await;
    let of = |n, name| JobSpec { key: Some(key(name)), ..job_using(n, &["api"]) };
    s.submit([of(1, "k"), of(2, "l"), of(3, "k"), of(4, "l")]).await;
    let first = claim_ahead(&s).await;
    claim_ahead(&s).await;
    s.assert_nothing_ready().await;
    s.wait(3);
    s.finish(&first, Outcome::Unstarted).await;
    assert_eq!(s.claim_ids(9).await, [1], "the other key has used its place");
    assert_eq!(used(&s, "api").await, [2]);
}

/// A job that may have begun has used its places, however it is given back.
pub async fn a_job_that_began_keeps_its_places(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.services([rated("api", 1, 60)]).await;
    s.submit([job_using(1, &["api"])]).await;
    let lease = claim_ahead(&s).await;
    assert_eq!(s.finish(&lease, Outcome::HandBack).await, ended(StateWord::Queued));
    assert_eq!(used(&s, "api").await, [1]);
    s.assert_nothing_ready().await;
}

/// Whoever has lost the attempt gives nothing back: the places are another's, or were used.
pub async fn a_former_holder_gives_no_place_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 2, 3600)]).await;
    s.submit([job_using(1, &["api"])]).await;
    let former = claim_ahead(&s).await;
    s.wait(60);
    s.reap().await;
    let present = claim_ahead(&s).await;
    assert_eq!(s.finish(&former, Outcome::Unstarted).await, Finished::Lost);
    assert_eq!(used(&s, "api").await, [2]);
    s.finish(&present, Outcome::Unstarted).await;
    assert_eq!(s.finish(&present, Outcome::Unstarted).await, Finished::Lost, "and only once");
    assert_eq!(used(&s, "api").await, [1], "what the former did with its own nobody knows");
}

/// A heartbeat, which knows the instants of the holder's clock only, does not hide the place.
pub async fn a_heartbeat_before_it_does_not_matter(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 1, 60)]).await;
    s.submit([job_using(1, &["api"])]).await;
    let lease = claim_ahead(&s).await;
    let shifted = Lease { start_by: Some(at(77)), ..lease };
    s.wait(1);
    s.extend(&shifted, 30).await;
    s.finish(&shifted, Outcome::Unstarted).await;
    assert_eq!(used(&s, "api").await, [0]);
    s.take_job(1).await;
}

/// With every third start given back, the window of those that were holds and is used to the full.
pub async fn windows_hold_and_are_full_with_starts_given_back(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.services([rated("api", 4, 10)]).await;
    s.submit((1..=40).map(|n| job_using(n, &["api"]))).await;
    let (mut starts, mut claims) = (Vec::new(), 0);
    for _ in 0..300 {
        let request = ClaimRequest { start_within: Duration::from_millis(500), ..s.request(9) };
        for (_, lease) in s.claim_as(request).await {
            claims += 1;
            if claims % 3 == 0 {
                s.finish(&lease, Outcome::Unstarted).await;
            } else {
                starts.push((lease.start_by.unwrap(), 1));
                s.done(&lease).await;
            }
        }
        s.wait_for(Duration::from_millis(370));
    }
    assert_eq!(starts.len(), 40, "of {claims} claims");
    assert_within(&starts, 4, secs(10));
    // A full window ends with the last of its starts; the next begins as soon as somebody looks again.
    let took = starts[39].0.since(starts[0].0);
    assert!(took <= secs(9 * 12), "{took:?}");
    s.check().await;
}

/// What was given back is known to the other handle, and after a restart.
pub async fn places_given_back_are_known_to_all(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let limits = ServiceSpec { per_key: per_key(None, vec![rate(1, 60)]), ..rated("api", 3, 60) };
    s.services([limits]).await;
    let of = |n| JobSpec { key: Some(key("k")), ..job_costing(n, "api", 1) };
    s.submit([of(1), of(2)]).await;
    let mut other = s.beside(&maker).await;
    let lease = claim_ahead(&s).await;
    other.assert_nothing_ready().await;
    s.wait(3);
    other.wait(3);
    s.finish(&lease, Outcome::Unstarted).await;
    let lease = claim_ahead(&other).await;
    s.assert_nothing_ready().await;
    s.wait(3);
    other.wait(3);
    other.finish(&lease, Outcome::Unstarted).await;
    s = s.reopened(&maker).await;
    assert_eq!(used(&s, "api").await, [0]);
    assert_eq!(s.claim_ids(9).await, [1]);
    s = s.reopened(&maker).await;
    assert_eq!(used(&s, "api").await, [1]);
    s.assert_nothing_ready().await;
    s.check().await;
}
