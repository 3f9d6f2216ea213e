//! Whether a worker is alive is told by the lock its process holds, never by its number.

use runcue_core::{Capabilities, Timestamp, WorkerId};
use runcue_store::{Store, WorkerSpec};
use runcue_store_sqlite::{Options, SqliteStore};

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn worker(n: u128) -> WorkerSpec {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("worker-{n}");
    WorkerSpec {
        id: WorkerId::from_u128(n),
        name,
        host,
        pid: 1,
        slots: 1,
        offers: Capabilities::default(),
    }
}

#[tokio::test]
async fn a_worker_is_gone_when_its_lock_is_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(Options::new(directory.path().join("queue.db"))).unwrap();
    let (first, second) = (open(), open());
    first.upsert_worker(now(), worker(1)).await.unwrap();
    second.upsert_worker(now(), worker(2)).await.unwrap();
    assert_eq!(second.gone_workers().await.unwrap(), []);
    assert_eq!(first.gone_workers().await.unwrap(), []);
    // As after a kill: the lock is let go of and nobody has said goodbye.
    drop(first);
    assert_eq!(second.gone_workers().await.unwrap(), [WorkerId::from_u128(1)]);
    second.reap(now(), vec![WorkerId::from_u128(1)]).await.unwrap();
    assert_eq!(second.gone_workers().await.unwrap(), []);
    assert_eq!(second.workers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_worker_of_another_machine_is_not_judged() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(directory.path().join("queue.db"))).unwrap();
    let elsewhere = WorkerSpec { host: "elsewhere.invalid".into(), ..worker(1) };
    store.upsert_worker(now(), elsewhere).await.unwrap();
    assert_eq!(store.gone_workers().await.unwrap(), []);
}
