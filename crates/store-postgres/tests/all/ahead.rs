//! Claims that are made before they are asked for, on PostgreSQL.

use runcue_store_postgres::{PostgresStore, open_url};
use runcue_test_servers::Postgres;

fn pair() -> (Postgres, PostgresStore, PostgresStore) {
    let server = Postgres::settings().start().unwrap();
    let (one, two) = (open_url(&server.url()).unwrap(), open_url(&server.url()).unwrap());
    (server, one, two)
}

runcue_store_suite::ahead_suite!(pair());
