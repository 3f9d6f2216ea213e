//! What daemons tell each other is signed with a secret that only the owner of the queue can read.

use runcue_core::Timestamp;
use runcue_store::{ClaimRequest, Store, SubmitBatch};
use runcue_store_postgres::open_url;
use runcue_store_suite::scene::{job, worker};

const GUEST: &str = "guest_of_told";

/// Whoever was granted everything on all tables, and does not own them, can neither read the secret nor put another in its
/// place. The queue works for them all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_with_every_right_on_the_tables_does_not_know_the_secret() {
    let database = runcue_test_servers::postgres().unwrap();
    let owner = open_url(&database.url()).unwrap();
    owner.submit(Timestamp::ZERO, SubmitBatch::of(vec![job(1)])).await.unwrap();
    assert_eq!(
        database.sql("SELECT count(*), max(length(secret)) FROM runcue.secret").unwrap(),
        "1|16"
    );
    let make = format!(
        "CREATE ROLE {GUEST} LOGIN; GRANT USAGE ON SCHEMA runcue TO {GUEST}; \
         GRANT ALL ON ALL TABLES IN SCHEMA runcue TO {GUEST}; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA runcue TO {GUEST}"
    );
    database.sql(&make).unwrap();
    let as_guest = |sql: &str| database.sql(&format!("SET ROLE {GUEST}; {sql}"));
    assert_eq!(as_guest("SELECT count(*) FROM runcue.secret").unwrap().lines().last(), Some("0"));
    assert!(as_guest("INSERT INTO runcue.secret (one, secret) VALUES (false, 'mine')").is_err());
    assert_eq!(
        as_guest("UPDATE runcue.secret SET secret = 'mine' RETURNING 1")
            .unwrap()
            .matches('1')
            .count(),
        0
    );

    let url = database.url();
    let (_, address) = url.split_once('@').unwrap();
    let url = format!("postgres://{GUEST}@{address}");
    let guest = open_url(&url).unwrap();
    for n in 2..=12 {
        guest.submit(Timestamp::ZERO, SubmitBatch::of(vec![job(n)])).await.unwrap();
        owner.submit(Timestamp::ZERO, SubmitBatch::of(vec![job(n + 100)])).await.unwrap();
    }
    let claimed = guest.claim(Timestamp::ZERO, ClaimRequest::new(worker(1), 50)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 23);
    guest.close().await.unwrap();
    owner.close().await.unwrap();
    database.sql(&format!("DROP OWNED BY {GUEST}; DROP ROLE {GUEST}")).unwrap();
}
