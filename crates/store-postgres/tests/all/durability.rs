//! What the server's settings mean for what it has acknowledged, and what is known of it.

use runcue_store::Store;
use runcue_store_postgres::{SCHEMA, open_url};
use runcue_test_servers::Postgres;

#[tokio::test]
async fn what_a_crash_can_lose_is_said_in_plain_words() {
    let server = Postgres::settings().durable().start().unwrap();
    for (setting, words) in [
        ("on", "synchronous_commit on: survives power loss"),
        ("local", "synchronous_commit on: survives power loss"),
        ("off", "synchronous_commit off: the last moments may be lost when the server crashes"),
        ("remote_write", "survives power loss, and on standbys where there are any"),
        ("remote_apply", "survives power loss, and on standbys where there are any"),
    ] {
        let set = format!("ALTER DATABASE postgres SET synchronous_commit = {setting}");
        server.sql(&set).unwrap();
        let store = open_url(&server.url()).unwrap();
        assert!(store.durability().contains(words), "{setting}: {}", store.durability());
        let known = store.particulars().await.unwrap();
        assert_eq!(known.schema, Some(SCHEMA));
        assert!(known.server.unwrap().starts_with("PostgreSQL 1"));
        assert!(known.now.is_some());
    }
}

/// However the sessions commit: what the machine has not written, it loses.
#[test]
fn a_server_that_does_not_sync_says_so_whatever_else_is_set() {
    let server = Postgres::settings().start().unwrap();
    for setting in ["on", "off"] {
        server.sql(&format!("ALTER DATABASE postgres SET synchronous_commit = {setting}")).unwrap();
        let store = open_url(&server.url()).unwrap();
        let words = "fsync off: survives a crash of the server's processes, not of its machine";
        assert_eq!(store.durability(), words);
    }
}
