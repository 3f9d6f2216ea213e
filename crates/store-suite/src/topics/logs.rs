//! Output of jobs: kept in order, bounded, and only from who holds the job.

use runcue_core::Lease;
use runcue_store::{LogChunk, LogStream};

use crate::Maker;
use crate::scene::*;

fn chunk(lease: &Lease, text: &str) -> LogChunk {
    LogChunk {
        n: 0,
        job: lease.job,
        attempt: lease.attempt,
        token: lease.token,
        stream: LogStream::Stdout,
        at: BEGINNING,
        text: text.to_owned(),
    }
}

async fn texts(s: &Scene, n: u128, after: u64) -> Vec<String> {
    let chunks = s.store.logs(id(n), after).await.unwrap();
    chunks.into_iter().map(|chunk| chunk.text).collect()
}

/// In the order written, resumable by number.
pub async fn output_is_kept_in_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job(2)]).await;
    let leases = s.claim(2).await;
    let both = vec![chunk(&leases[0], "a"), chunk(&leases[1], "x"), chunk(&leases[0], "b")];
    s.store.append_logs(s.now, both).await.unwrap();
    s.store.append_logs(s.now, vec![chunk(&leases[0], "c")]).await.unwrap();
    assert_eq!(texts(&s, 1, 0).await, ["a", "b", "c"]);
    assert_eq!(texts(&s, 2, 0).await, ["x"]);
    let first = s.store.logs(id(1), 0).await.unwrap();
    assert!(first.windows(2).all(|pair| pair[0].n < pair[1].n));
    assert_eq!(texts(&s, 1, first[0].n).await, ["b", "c"]);
    assert_eq!((first[0].stream, first[0].attempt), (LogStream::Stdout, 1));
}

/// Output of a lost lease is not kept.
pub async fn output_of_a_lost_lease_is_not_kept(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let old = s.take_job(1).await;
    s.store.append_logs(s.now, vec![chunk(&old, "before")]).await.unwrap();
    s.wait(31);
    s.reap().await;
    let new = s.take_job(1).await;
    s.store.append_logs(s.now, vec![chunk(&old, "late"), chunk(&new, "after")]).await.unwrap();
    assert_eq!(texts(&s, 1, 0).await, ["before", "after"]);
}

/// A job that floods keeps its latest output only.
pub async fn output_is_bounded_and_the_oldest_goes_first(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    let block = "x".repeat(64 * 1024);
    for n in 0..64 {
        let text = format!("{n}:{block}");
        s.store.append_logs(s.now, vec![chunk(&lease, &text)]).await.unwrap();
    }
    let kept = texts(&s, 1, 0).await;
    let size: usize = kept.iter().map(String::len).sum();
    assert!(size <= 3 * 1024 * 1024, "{size} bytes are kept");
    assert!(kept.last().unwrap().starts_with("63:"));
    assert!(!kept.iter().any(|text| text.starts_with("0:")));
}

/// Output survives the end of the job and goes with it.
pub async fn output_stays_as_long_as_the_job(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let lease = s.take_job(1).await;
    s.store.append_logs(s.now, vec![chunk(&lease, "a")]).await.unwrap();
    s.done(&lease).await;
    assert_eq!(texts(&s, 1, 0).await, ["a"]);
    s.wait(8 * 24 * 3600);
    s.store.prune(s.now, Default::default(), false).await.unwrap();
    assert_eq!(texts(&s, 1, 0).await, Vec::<String>::new());
}
