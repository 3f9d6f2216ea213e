//! Many who open a queue that is not there yet, at once: all of them come up, on one queue.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};
use std::thread;

use redis::Commands;
use runcue_core::JobId;
use runcue_store::{Store, SubmitBatch};
use runcue_store_redis::{RedisStore, SCHEMA, open_url};
use runcue_store_suite::scene::{BEGINNING, drain, id, job};

const HANDLES: u128 = 8;

/// A handle opens, submits and works, as soon as all the others do.
async fn come_up(url: &str, n: u128, together: &Barrier) -> (Arc<RedisStore>, Vec<JobId>) {
    together.wait();
    let store = Arc::new(open_url(url).unwrap());
    let jobs = (0..5).map(|k| job(100 * n + k)).collect();
    store.submit(BEGINNING, SubmitBatch::of(jobs)).await.unwrap();
    let had = drain(store.clone(), BEGINNING, n, 2).await;
    (store, had)
}

#[test]
fn many_handles_open_an_empty_queue_at_once() {
    for _ in 0..5 {
        let place = runcue_test_servers::redis().unwrap();
        let (url, together) = (place.url(), Barrier::new(HANDLES.try_into().unwrap()));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (runtime, url, together) = (&runtime, &url, &together);
        let came: Vec<(Arc<RedisStore>, Vec<JobId>)> = thread::scope(|scope| {
            let open = |n| scope.spawn(move || runtime.block_on(come_up(url, n, together)));
            let threads: Vec<_> = (1..=HANDLES).map(open).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let had: Vec<JobId> = came.iter().flat_map(|(_, had)| had).copied().collect();
        let all: HashSet<JobId> = had.iter().copied().collect();
        let submitted = (1..=HANDLES).flat_map(|n| (0..5).map(move |k| id(100 * n + k)));
        assert_eq!(had.len(), all.len(), "a job ran twice");
        assert_eq!(all, submitted.collect());
        runtime.block_on(async {
            for (store, _) in &came {
                assert_eq!(store.stats(BEGINNING).await.unwrap().counts.completed, 40);
                assert_eq!(store.trouble(), None);
            }
            assert_eq!(came[0].0.check(BEGINNING).await.unwrap(), Vec::<String>::new());
        });
        let mut server = redis::Client::open(url.split('?').next().unwrap()).unwrap();
        let meta = format!("{}:{{default}}:meta", place.name());
        assert_eq!(server.hget(meta, "schema"), Ok(SCHEMA));
    }
}
