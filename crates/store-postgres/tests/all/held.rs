//! How many jobs are held, for whoever comes later: from the commit that last said it of all lanes, and those since.

use runcue_core::{JobId, JobSpec, ServiceName, ServiceSpec, TaskName, Timestamp, Use, WorkerId};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_postgres::open_url;

#[tokio::test]
async fn whoever_comes_later_counts_the_same_jobs() {
    let database = runcue_test_servers::postgres().unwrap();
    let store = open_url(&database.url()).unwrap();
    let now = Timestamp::ZERO;
    let api = ServiceName::new("api").unwrap();
    let spec = ServiceSpec { max_concurrent: Some(500), ..ServiceSpec::new(api.clone()) };
    store.upsert_services(now, vec![spec]).await.unwrap();
    let jobs = (0..300).map(|n| {
        let task = TaskName::new(if n < 5 { "quiet" } else { ["one", "two"][n % 2] }).unwrap();
        let services = vec![Use::one(api.clone())];
        JobSpec { services, ..JobSpec::new(JobId::from_u128(n as u128), task) }
    });
    store.submit(now, SubmitBatch::of(jobs.collect())).await.unwrap();
    let mut held = Vec::new();
    // Each step is a commit, so that those which count all lanes come at every stage.
    let first = store.claim(now, ClaimRequest::new(WorkerId::from_u128(1), 5)).await.unwrap();
    held.extend(first.jobs.into_iter().map(|(_, lease)| lease));
    for step in 0..280 {
        let claimed = store.claim(now, ClaimRequest::new(WorkerId::from_u128(1), 1)).await.unwrap();
        held.extend(claimed.jobs.into_iter().map(|(_, lease)| lease));
        if step % 3 == 0 {
            // The first five are held all the time.
            let lease = held.remove(held.len().min(6) - 1);
            let end = Finish { lease, outcome: Outcome::Done { result: None, result_key: None } };
            store.finish(now, vec![end]).await.unwrap();
        }
        if step % 20 == 19 {
            let other = open_url(&database.url()).unwrap();
            let counted = other.services(now).await.unwrap()[0].in_use as usize;
            assert_eq!(counted, held.len(), "after step {step}");
            assert_eq!(other.check(now).await.unwrap(), Vec::<String>::new(), "after step {step}");
            other.close().await.unwrap();
        }
    }
    let rows = database.sql("SELECT count(*) FROM runcue.board_row WHERE kind = 4").unwrap();
    assert_eq!(rows.trim(), "1");
    // A count that is wrong is found.
    database.sql("UPDATE runcue.board_row SET body = '[[1, 9999]]' WHERE kind = 4").unwrap();
    database.sql("UPDATE runcue.turn SET held = '{}', held_jobs = '{}'").unwrap();
    let findings = store.check(now).await.unwrap();
    assert!(findings.iter().any(|finding| finding.contains("jobs held, they are")), "{findings:?}");
    store.close().await.unwrap();
}
