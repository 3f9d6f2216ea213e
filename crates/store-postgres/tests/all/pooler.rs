//! Behind a pooler that lends connections for one transaction at a time: everything works, without listening.

use std::sync::Arc;

use runcue_store_postgres::{PostgresStore, open_url};
use runcue_test_servers::{Pooler, Postgres};

use crate::load::during;

fn opened(url: &str) -> Arc<PostgresStore> {
    Arc::new(open_url(&format!("{url}?pooler=on")).unwrap())
}

/// Several daemons share fewer connections than they have clients; backends are ended under them, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_behind_a_pooler_lose_nothing_and_do_nothing_twice() {
    let server = Postgres::settings().start().unwrap();
    let pooler = Pooler::to(&server).unwrap();
    let url = pooler.url(&server.url());
    during(vec![opened(&url), opened(&url), opened(&url)], async |load| {
        for _ in 0..4 {
            load.reach(load.count() + 100).await;
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
            tokio::task::block_in_place(|| server.sql(sql).unwrap());
        }
        load.reach(load.count() + 100).await;
    })
    .await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let most: u32 = server.sql(sql).unwrap().parse().unwrap();
    assert!(most <= 4, "{most} connections: nothing is lent");
}

/// Whoever forgets to say so: it is noticed, and sessions that others use too are left as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_nobody_told_of_is_noticed() {
    let server = Postgres::settings().start().unwrap();
    let pooler = Pooler::to(&server).unwrap();
    let url = pooler.url(&server.url());
    let stores = vec![Arc::new(open_url(&url).unwrap()), Arc::new(open_url(&url).unwrap())];
    during(stores, async |load| load.reach(load.count() + 200).await).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for setting in ["plan_cache_mode", "idle_in_transaction_session_timeout", "enable_seqscan"] {
        let rows = client.simple_query(&format!("SHOW {setting}")).await.unwrap();
        let shown = rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        assert!(matches!(shown.as_deref(), Some("auto" | "0" | "on")), "{setting}: {shown:?}");
    }
}
