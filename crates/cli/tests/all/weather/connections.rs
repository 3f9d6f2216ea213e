//! A server that takes no more connections, and has ended those there were.

use runcue_test_servers::Postgres;

use super::spell::goes_on_after;

/// Limits do not hold for the superuser, so the daemon is somebody else.
#[test]
fn a_postgres_without_room_for_connections_is_named_and_work_goes_on_when_there_is_some() {
    let server = Postgres::settings().durable().start().unwrap();
    server.sql("CREATE ROLE somebody LOGIN").unwrap();
    server.sql("CREATE DATABASE queue OWNER somebody").unwrap();
    let url = format!("postgres://somebody@127.0.0.1:{}/queue", server.port());
    let limit = |most: i32| {
        let sql = format!("ALTER DATABASE queue CONNECTION LIMIT {most}");
        server.sql(&sql).unwrap();
    };
    let begin = || {
        limit(0);
        let end =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'queue'";
        let ended: u32 = server.sql(end).unwrap().parse().unwrap();
        assert!(ended > 0, "nobody was there");
    };
    goes_on_after(&url, begin, &["too many connections", "raise max_connections"], || limit(-1));
}
