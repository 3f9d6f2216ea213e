//! A transaction of the writing connection.

use runcue_store::Result;
use runcue_store::writer::Transaction;

use crate::tables::SqliteTables;

impl Transaction for SqliteTables {
    fn begin(&mut self) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    fn commit(&mut self) -> Result<()> {
        self.execute("COMMIT")
    }

    fn roll_back(&mut self) {
        if !self.connection().is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    /// What the log holds can move into the file, and its space be used again.
    fn make_room(&mut self) {
        let _ = self.connection().execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
    }

    /// Leaves one tidy file behind where no other process is using it.
    fn close(&mut self) {
        let _ = self.connection().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

impl SqliteTables {
    fn execute(&self, sql: &str) -> Result<()> {
        let mut statement = self.connection().prepare_cached(sql).map_err(|e| self.explain(&e))?;
        statement.execute([]).map(drop).map_err(|e| self.explain(&e))
    }
}

#[cfg(test)]
mod tests {
    use runcue_core::{JobId, JobSpec, TaskName, Timestamp};
    use runcue_store::machine::Machine;
    use runcue_store::writer::Writer;
    use runcue_store::{StoreError, SubmitBatch};

    use super::*;
    use crate::connection::{self, Options};
    use crate::migrate::migrate;

    fn writer(directory: &tempfile::TempDir) -> Writer<SqliteTables> {
        let options = Options::new(directory.path().join("queue.db"));
        let mut connection = connection::writer(&options).unwrap();
        migrate(&mut connection, "queue.db").unwrap();
        Writer::start(SqliteTables::new(connection, "queue.db".to_owned())).unwrap()
    }

    fn submit(machine: &mut Machine<SqliteTables>, n: u128) -> Result<()> {
        let job = JobSpec::new(JobId::from_u128(n), TaskName::new("t").unwrap());
        machine.submit(Timestamp::ZERO, SubmitBatch::of(vec![job])).map(drop)
    }

    async fn total(writer: &Writer<SqliteTables>) -> u64 {
        let stats = writer.call(Timestamp::ZERO, |machine| machine.stats()).await.unwrap();
        stats.counts.total()
    }

    #[tokio::test]
    async fn what_a_failed_operation_wrote_is_undone_and_the_next_one_goes_through() {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(&directory);
        let failed = writer.call(Timestamp::ZERO, |machine| {
            submit(machine, 1)?;
            Err::<(), _>(StoreError::Unavailable("on purpose".to_owned()))
        });
        assert!(failed.await.is_err());
        assert_eq!(total(&writer).await, 0);
        writer.call(Timestamp::ZERO, |machine| submit(machine, 1)).await.unwrap();
        assert_eq!(total(&writer).await, 1);
    }

    #[tokio::test]
    async fn a_panic_in_an_operation_is_answered_undone_and_survived() {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(&directory);
        let failed = writer.call(Timestamp::ZERO, |machine| -> Result<()> {
            submit(machine, 1)?;
            panic!("on purpose");
        });
        assert!(matches!(failed.await, Err(StoreError::Unavailable(_))));
        assert_eq!(total(&writer).await, 0);
        writer.call(Timestamp::ZERO, |machine| submit(machine, 2)).await.unwrap();
        assert_eq!(total(&writer).await, 1);
    }

    fn submit_to(
        machine: &mut Machine<SqliteTables>,
        n: u128,
        groups: std::ops::Range<u128>,
    ) -> Result<()> {
        let job = |k| JobSpec {
            group: Some(runcue_core::GroupName::new(format!("g{k}")).unwrap()),
            ..JobSpec::new(JobId::from_u128(n << 32 | k), TaskName::new("t").unwrap())
        };
        machine.submit(Timestamp::ZERO, SubmitBatch::of(groups.map(job).collect())).map(drop)
    }

    #[tokio::test]
    async fn groups_are_right_after_failures_however_far_their_log_has_grown() {
        let directory = tempfile::tempdir().unwrap();
        let writer = writer(&directory);
        for n in 1..80 {
            // Every other commit fails after its log was written or moved; some of its groups have no jobs but these.
            writer
                .call(Timestamp::ZERO, move |machine| {
                    submit_to(machine, n * 2, 0..40)?;
                    machine.end()?;
                    Err::<(), _>(StoreError::Unavailable("on purpose".to_owned()))
                })
                .await
                .unwrap_err();
            writer
                .call(Timestamp::ZERO, move |machine| submit_to(machine, n * 2 + 1, 20..60))
                .await
                .unwrap();
            let found =
                writer.call(Timestamp::ZERO, |machine| machine.check(Timestamp::ZERO)).await;
            assert_eq!(found.unwrap(), Vec::<String>::new(), "after {n}");
        }
        assert_eq!(total(&writer).await, 79 * 40);
    }
}
