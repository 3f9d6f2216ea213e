//! The server's clock is the one that counts, however wrong those of its callers are.

use std::sync::Arc;

use runcue_store::Store;
use runcue_store_suite::skew;
use runcue_test_servers::Database;

fn two_handles() -> (Database, [Arc<dyn Store>; 2]) {
    let place = runcue_test_servers::postgres().unwrap();
    let open =
        || -> Arc<dyn Store> { Arc::new(runcue_store_postgres::open_url(&place.url()).unwrap()) };
    let stores = [open(), open()];
    (place, stores)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_the_same_for_clocks_apart() {
    let (_place, stores) = two_handles();
    skew::leases_are_the_same_for_clocks_apart(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_the_same_for_clocks_apart() {
    let (_place, stores) = two_handles();
    skew::windows_are_the_same_for_clocks_apart(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_are_the_same_for_clocks_apart() {
    let (_place, stores) = two_handles();
    skew::delays_are_the_same_for_clocks_apart(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_the_same_for_clocks_apart() {
    let (_place, stores) = two_handles();
    skew::schedules_are_the_same_for_clocks_apart(stores).await;
}
