//! Ready jobs are read beside a commit, on a connection of its own that may be lost at any time.

use std::collections::HashSet;
use std::sync::Arc;

use runcue_core::{JobId, LaneId, Seq, Timestamp};
use runcue_store::overlay::{
    Backend, CommitId, Committed, Haste, Questions, Rank, ReadyQuestion, WriteSet,
};
use runcue_store::{Store, SubmitBatch};
use runcue_store_postgres::{Options, PostgresBackend, open_url};
use runcue_store_suite::scene::{drain, job};
use runcue_test_servers::Database;

const JOBS: u128 = 8_000;
const MOST: usize = 300;

/// Connections that read beside a commit, by what they asked last.
fn beside(database: &Database, what: &str) -> String {
    let sql = format!(
        "SELECT {what} FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid() AND query LIKE '%1::bigint, (SELECT max(revision)%'"
    );
    database.sql(&sql).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_are_read_beside_a_commit_are_handed_out_once() {
    let database = runcue_test_servers::postgres().unwrap();
    let submitter = open_url(&database.url()).unwrap();
    let store: Arc<dyn Store> = Arc::new(open_url(&database.url()).unwrap());
    let (mut had, mut jobs) = (Vec::new(), 0);
    let (mut seen, mut ended) = (0, 0);
    // A quick drain may be over before anybody has seen that connection.
    while jobs < 20 * JOBS && (seen == 0 || ended == 0) {
        for from in (jobs..jobs + JOBS).step_by(1000) {
            let batch = SubmitBatch::of((from..from + 1000).map(|n| job(n + 1)).collect());
            submitter.submit(Timestamp::ZERO, batch).await.unwrap();
        }
        jobs += JOBS;
        let drain = |n| tokio::spawn(drain(Arc::clone(&store), Timestamp::ZERO, n, MOST));
        let workers: Vec<_> = (1..=3).map(drain).collect();
        // It goes away in the middle of the work, again and again, and is missed by nobody.
        while workers.iter().any(|worker| !worker.is_finished()) {
            seen += beside(&database, "count(*)").parse::<u32>().unwrap();
            ended += beside(&database, "count(pg_terminate_backend(pid))").parse::<u32>().unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        for worker in workers {
            had.extend(worker.await.unwrap());
        }
    }
    assert!(seen > 0 && ended > 0, "nothing was read beside a commit");
    let once: HashSet<JobId> = had.iter().copied().collect();
    assert_eq!((had.len() as u128, once.len() as u128), (jobs, jobs));
    assert_eq!(u128::from(submitter.stats(Timestamp::ZERO).await.unwrap().counts.completed), jobs);
    store.close().await.unwrap();
    submitter.close().await.unwrap();
}

/// A daemon in its turn that reads 200 jobs behind the first 100 with every commit.
struct Reading {
    backend: PostgresBackend,
    revision: u64,
}

impl Reading {
    /// What is read with the next commit, which is said to follow a revision so many before the one it does.
    fn read(&mut self, before: u64) -> Option<Vec<u64>> {
        self.begin(before);
        let told = self.commit();
        told.or_else(|| Some(self.backend.end_reading()?.iter().map(|job| job.seq.0).collect()))
    }

    fn begin(&mut self, before: u64) {
        let (lane, behind) = (LaneId(1), Some(Rank { priority: 0, seq: Seq(100) }));
        let question =
            ReadyQuestion { lane, from: None, behind, known: 100, max_priority: None, limit: 200 };
        self.backend.begin_reading(&question, self.revision - before);
    }

    /// Answers what was told during a commit.
    fn commit(&mut self) -> Option<Vec<u64>> {
        let (id, follows) = (Some(CommitId(self.revision.into())), self.revision);
        let (in_turn, keeps_turn) = (true, true);
        let writes = WriteSet { id, follows, in_turn, keeps_turn, ..WriteSet::default() };
        let mut told = None;
        let committed = self.backend.commit_and_tell(&writes, &mut |read| told = read).unwrap();
        assert!(matches!(committed, Committed::Done { kept: true, .. }), "{committed:?}");
        self.revision += 1;
        told.map(|jobs| jobs.iter().map(|job| job.seq.0).collect())
    }
}

#[test]
fn what_is_read_of_another_revision_does_not_count() {
    let database = runcue_test_servers::postgres().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = open_url(&database.url()).unwrap();
        let batch = SubmitBatch::of((1..=500).map(job).collect());
        store.submit(Timestamp::ZERO, batch).await.unwrap();
        store.close().await.unwrap();
    });
    let mut backend = PostgresBackend::new(Options::parse(&database.url()).unwrap()).unwrap();
    backend.connect().unwrap();
    let revision = backend.begin(0, None, &Questions::default(), Haste::Much).unwrap().revision;
    let mut reading = Reading { backend, revision };
    // At first it only connects.
    let read = (0..2_000).find_map(|_| reading.read(0));
    assert_eq!(read, Some((101..=300).collect()));
    // As if somebody had written between the commit and the reading.
    assert_eq!(reading.read(4), None);
    assert_eq!(reading.read(0), Some((101..=300).collect()));
    // Whoever does not ask for it is told with that commit, or with the next, if it has come by then.
    let told = (0..2_000).find_map(|_| {
        reading.begin(0);
        reading.commit().or_else(|| reading.commit())
    });
    assert_eq!(told, Some((101..=300).collect()));
    assert_eq!(reading.commit(), None, "once");
}
