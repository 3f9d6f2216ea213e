//! What goes wrong between a daemon and its server: work flows again by itself, nothing acknowledged is lost,
//! nothing is done twice.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
use runcue_store::overlay::{Backend, Haste, Questions};
use runcue_store::{Store, SubmitBatch, Submitted};
use runcue_store_postgres::{Options, PostgresBackend, PostgresStore, open_url};
use runcue_test_servers::{Fault, Postgres, Proxy};

use crate::load::during;

fn opened(url: &str) -> Arc<PostgresStore> {
    Arc::new(open_url(url).unwrap())
}

/// Half of the replies are lost after the commit went through, half of the commits before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_commits_and_lost_replies_are_told_apart() {
    let database = runcue_test_servers::postgres().unwrap();
    let proxy = Proxy::to(database.port()).unwrap();
    let through =
        database.url().replace(&format!(":{}/", database.port()), &format!(":{}/", proxy.port()));
    let stores = vec![opened(&through), opened(&database.url())];
    during(stores, async |load| {
        for n in 0..10 {
            let fault = if n % 2 == 0 { Fault::LoseReply } else { Fault::LoseRequest };
            let before = proxy.faults();
            proxy.arm(b"write_turn", fault, 1);
            tokio::task::block_in_place(|| proxy.await_faults(before + 1));
            load.reach(load.count() + 50).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_backends_are_replaced() {
    let database = runcue_test_servers::postgres().unwrap();
    let stores = vec![opened(&database.url()), opened(&database.url())];
    during(stores, async |load| {
        for _ in 0..8 {
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE application_name = 'runcue' AND datname = current_database()";
            tokio::task::block_in_place(|| database.sql(sql).unwrap());
            load.reach(load.count() + 50).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_has_everything_when_it_comes_back() {
    let mut server = Postgres::settings().durable().start().unwrap();
    let stores = vec![opened(&server.url()), opened(&server.url())];
    during(stores, async |load| {
        for _ in 0..3 {
            tokio::task::block_in_place(|| {
                server.kill9();
                server.restart().unwrap();
            });
            load.reach(load.count() + 100).await;
        }
    })
    .await;
}

/// Longer than a request waits for its reply: it is given up, and settled when the server is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_waited_for() {
    let server = Postgres::settings().start().unwrap();
    let stores = vec![opened(&server.url()), opened(&server.url())];
    during(stores, async |_| {
        server.freeze();
        tokio::time::sleep(Duration::from_secs(11)).await;
        server.thaw();
    })
    .await;
}

/// Whoever takes the turn and says nothing more loses it, behind a pooler too.
#[test]
fn a_silent_daemon_does_not_hold_up_the_others() {
    for more in ["", "?pooler=on"] {
        let database = runcue_test_servers::postgres().unwrap();
        let store = opened(&database.url());
        let options = Options::parse(&format!("{}{more}", database.url())).unwrap();
        let mut silent = PostgresBackend::new(options).unwrap();
        silent.connect().unwrap();
        silent.begin(0, None, &Questions::default(), Haste::Much).unwrap();
        let job = JobSpec::new(JobId::from_u128(1), TaskName::new("work").unwrap());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let answer =
            runtime.block_on(store.submit(Timestamp::ZERO, SubmitBatch::of(vec![job]))).unwrap();
        assert_eq!(answer, [Submitted::New(JobId::from_u128(1))]);
    }
}
