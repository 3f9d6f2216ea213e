//! The schema and its versions. Each file of `migrations/` brings the schema from one version to the next,
//! under an advisory lock, so that several daemons may start at once.
//!
//! Daemons of the version before may be at work meanwhile, and must not write by their rules into what they do not know.
//! So a migration is a turn: it waits for its own like everybody else, and leaves a revision behind that no commit
//! follows. Whoever wants to commit is refused as after any turn of somebody else's, and reads the version when it takes
//! the next one.

use runcue_store::{Result, StoreError};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use crate::backend::take_within;
use crate::connection::Options;
use crate::failure::explain;

const STEPS: &[&str] = &[
    include_str!("../migrations/0001_queue.sql"),
    include_str!("../migrations/0002_sessions.sql"),
    include_str!("../migrations/0003_lease_runs.sql"),
    include_str!("../migrations/0004_told.sql"),
    include_str!("../migrations/0005_rows_as_they_come.sql"),
    include_str!("../migrations/0006_ready_runs.sql"),
    include_str!("../migrations/0007_board_in_turns.sql"),
    include_str!("../migrations/0008_found_by_key.sql"),
];

/// The newest schema this version knows.
pub const SCHEMA: u32 = STEPS.len() as u32;

/// Makes the schema at an address, or brings it up to date. Answers the version it had before; zero if there
/// was none.
pub async fn migrate(url: &str) -> Result<u32> {
    let options = Options::parse(url)?;
    let (mut client, connection) = options.connect().await?;
    let driven = tokio::spawn(connection);
    let before = bring_up(&options, &mut client, STEPS).await;
    drop(client);
    let _ = driven.await;
    before
}

/// Makes sure that the schema is there and of the right version; brings it there if that is wanted.
pub(crate) async fn prepare(options: &Options, client: &mut Client) -> Result<()> {
    options.check_version(client).await?;
    let found = version(options, client).await?;
    check_known(options, found, SCHEMA)?;
    if found == SCHEMA {
        return Ok(());
    }
    if !options.migrate {
        let why = match found {
            0 => "the schema is not there; make it with `runcue migrate`".to_owned(),
            found => format!(
                "the schema is of version {found}, this runcue needs {SCHEMA}; upgrade it with `runcue migrate`"
            ),
        };
        return Err(StoreError::BadAddress { place: options.place(), why });
    }
    bring_up(options, client, STEPS).await.map(drop)
}

/// A schema that is newer than what is known is left alone.
pub(crate) fn check_known(options: &Options, found: u32, known: u32) -> Result<()> {
    if found > known {
        return Err(StoreError::Newer { place: options.place(), found, known });
    }
    Ok(())
}

/// What it means that a statement did not fit, from a connection that can be asked.
pub(crate) async fn explain_by(options: &Options, client: &Client, error: &Error) -> StoreError {
    let found = version(options, client).await.unwrap_or(0);
    check_known(options, found, SCHEMA).err().unwrap_or_else(|| explain(options, error))
}

/// The same from another connection: the one that failed may be in the middle of a transaction.
pub(crate) async fn explain_misfit(options: &Options, error: &Error) -> StoreError {
    let asked = async {
        let (client, connection) = options.connect().await?;
        tokio::spawn(connection);
        Ok::<_, StoreError>(explain_by(options, &client, error).await)
    };
    let asked = tokio::time::timeout(Options::reply_timeout(0), asked).await;
    asked.ok().and_then(Result::ok).unwrap_or_else(|| explain(options, error))
}

async fn bring_up(options: &Options, client: &mut Client, steps: &[&str]) -> Result<u32> {
    options.check_version(client).await?;
    let fail = |error: Error| explain(options, &error);
    let transaction = client.transaction().await.map_err(fail)?;
    let lock = options.sql("SELECT pg_advisory_xact_lock(hashtextextended('migrate runcue.', 0))");
    transaction.query_typed(&lock, &[]).await.map_err(fail)?;
    let found = version(options, transaction.client()).await?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    check_known(options, found, known)?;
    let raises = (1..known).contains(&found);
    if raises {
        transaction.batch_execute(&options.sql(&take_within())).await.map_err(fail)?;
    }
    if found == 0 {
        let schema = options.quoted_schema();
        // Without this a user who may not create schemas could not use one that was made for them.
        let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        let there =
            transaction.query_typed(there, &[(&options.schema, Type::TEXT)]).await.map_err(fail)?;
        if there.is_empty() {
            transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await.map_err(fail)?;
        }
        let table = "CREATE TABLE runcue.schema_version (version integer PRIMARY KEY, \
                     at timestamptz NOT NULL DEFAULT now())";
        transaction.batch_execute(&options.sql(table)).await.map_err(fail)?;
    }
    for (n, step) in (1_i32..).zip(steps).skip(found as usize) {
        transaction.batch_execute(&options.sql(step)).await.map_err(fail)?;
        let note = options.sql("INSERT INTO runcue.schema_version (version) VALUES ($1)");
        transaction.query_typed(&note, &[(&n, Type::INT4)]).await.map_err(fail)?;
    }
    if raises {
        let turn = "SELECT runcue.settle($1, (SELECT max(revision) FROM runcue.turn))";
        transaction
            .query_typed(&options.sql(turn), &[(&Uuid::nil(), Type::UUID)])
            .await
            .map_err(fail)?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(found)
}

/// The version of the schema; zero if there is none.
async fn version(options: &Options, client: &Client) -> Result<u32> {
    let fail = |error: Error| explain(options, &error);
    // Read from the catalogue itself: what a session remembers of names may be from before it waited for the
    // lock.
    let sql = "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relname = 'schema_version'";
    let there = client.query_typed(sql, &[(&options.schema, Type::TEXT)]).await.map_err(fail)?;
    if there.is_empty() {
        return Ok(0);
    }
    let sql = options.sql("SELECT coalesce(max(version), 0) FROM runcue.schema_version");
    let rows = client.query_typed(&sql, &[]).await.map_err(fail)?;
    Ok(rows.first().map_or(0, |row| u32::try_from(row.get::<_, i32>(0)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use runcue_store::{ClaimRequest, Finish, Store, SubmitBatch};
    use runcue_store_suite::scene::{BEGINNING, done, job, worker};
    use runcue_test_servers::Database;

    use super::*;
    use crate::{PostgresStore, open_url};

    /// Brings the schema further, as a newer version does when it opens the queue.
    async fn raise(database: &Database, step: &str) {
        let options = Options::parse(&database.url()).unwrap();
        let (mut client, connection) = options.connect().await.unwrap();
        let driven = tokio::spawn(connection);
        let steps: Vec<&str> = STEPS.iter().copied().chain([step]).collect();
        assert_eq!(bring_up(&options, &mut client, &steps).await.unwrap(), SCHEMA);
        drop(client);
        driven.await.unwrap().unwrap();
    }

    fn is_told_that_it_is_too_old<T: std::fmt::Debug>(answer: Result<T>) {
        let error = answer.unwrap_err();
        let newer = SCHEMA + 1;
        assert!(
            matches!(error, StoreError::Newer { found, known: SCHEMA, .. } if found == newer),
            "{error:?}"
        );
        let line = error.to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("a newer runcue") && line.contains("upgrade runcue"), "{line}");
        assert!(!line.contains("runcue migrate"), "{line}");
    }

    async fn claim(store: &PostgresStore, most: usize) -> Vec<Finish> {
        let claimed = store.claim(BEGINNING, ClaimRequest::new(worker(1), most)).await.unwrap();
        let end = |(_, lease)| Finish { lease, outcome: done() };
        claimed.jobs.into_iter().map(end).collect()
    }

    /// All that is stored.
    fn digest(database: &Database) -> String {
        let tables = "SELECT string_agg(format('SELECT %L, md5(coalesce(string_agg(one::text, '','' ORDER BY one::text), '''')) \
                      FROM runcue.%I AS one', tablename, tablename), ' UNION ALL ' ORDER BY tablename) \
                      FROM pg_tables WHERE schemaname = 'runcue'";
        database.sql(&database.sql(tables).unwrap()).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_daemon_that_runs_on_while_the_schema_is_raised_writes_no_more() {
        // By a daemon alone, which takes no turns any more, by one that was told of what another has done, and by one
        // behind a pooler.
        for (others, more) in [(false, ""), (true, ""), (true, "?pooler=on")] {
            let database = runcue_test_servers::postgres().unwrap();
            let old = open_url(&format!("{}{more}", database.url())).unwrap();
            old.changed(0).await;
            let other = open_url(&database.url()).unwrap();
            old.submit(BEGINNING, SubmitBatch::of((1..=100).map(job).collect())).await.unwrap();
            let mut held = Vec::new();
            for n in 0..8 {
                held = claim(&old, 5).await;
                if others {
                    other.submit(BEGINNING, SubmitBatch::of(vec![job(200 + n)])).await.unwrap();
                }
            }
            raise(&database, "CREATE TABLE runcue.of_the_future (one integer)").await;
            let before = digest(&database);
            is_told_that_it_is_too_old(old.finish(BEGINNING, held.clone()).await);
            let few = ClaimRequest::new(worker(1), 5);
            is_told_that_it_is_too_old(old.claim(BEGINNING, few).await);
            let many = (1001..=1600).map(job).collect();
            is_told_that_it_is_too_old(old.submit(BEGINNING, SubmitBatch::of(many)).await);
            is_told_that_it_is_too_old(old.reap(BEGINNING, vec![worker(1)]).await);
            is_told_that_it_is_too_old(old.submit(BEGINNING, SubmitBatch::of(vec![job(2)])).await);
            assert!(old.trouble().unwrap().contains("a newer runcue"), "{:?}", old.trouble());
            assert_eq!(digest(&database), before, "{others} {more}");
            is_told_that_it_is_too_old(open_url(&database.url()));
        }
    }

    /// Neither a commit that was under way nor one that came later is lost or half there.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_acknowledged_before_the_schema_was_raised_is_all_there_is() {
        let database = runcue_test_servers::postgres().unwrap();
        let submit = |first: u128| {
            let store = Arc::new(open_url(&database.url()).unwrap());
            tokio::spawn(async move {
                // A turn that is kept, and commits that take none.
                let size = if first == 0 { 300 } else { 3 };
                let mut acknowledged = 0;
                loop {
                    let from = first + acknowledged;
                    let batch = SubmitBatch::of((from..from + size).map(job).collect());
                    match store.submit(BEGINNING, batch).await {
                        Ok(_) => acknowledged += size,
                        Err(error) => break (acknowledged, Err::<(), _>(error)),
                    }
                }
            })
        };
        let submitters = [submit(0), submit(1_000_000)];
        let jobs = "SELECT count(*) >= 2000 FROM runcue.job";
        while database.sql(jobs).unwrap() != "t" {
            tokio::task::yield_now().await;
        }
        // It takes its time, and what it has seen is all that there will be.
        let slow =
            "CREATE TABLE runcue.of_the_future AS SELECT seq FROM runcue.job; SELECT pg_sleep(0.3)";
        raise(&database, slow).await;
        let mut all = 0;
        for submitter in submitters {
            let (acknowledged, ended) = submitter.await.unwrap();
            is_told_that_it_is_too_old(ended);
            all += acknowledged;
        }
        for table in ["job", "of_the_future"] {
            let count = format!("SELECT count(*) FROM runcue.{table}");
            assert_eq!(database.sql(&count).unwrap(), all.to_string(), "{table}");
        }
    }

    /// What the newer version has taken away is not to be made by `runcue migrate` of this one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_newer_version_has_taken_away_is_not_called_missing() {
        for step in [
            "DROP FUNCTION runcue.opening",
            "ALTER FUNCTION runcue.write_turn RENAME TO write_turn_anew",
            "ALTER TABLE runcue.turn RENAME TO turns; ALTER TABLE runcue.job RENAME COLUMN spec TO body; \
             CREATE OR REPLACE FUNCTION runcue.settle(p_commit uuid, p_follows bigint) RETURNS integer \
             LANGUAGE sql AS 'SELECT 0'; CREATE VIEW runcue.turn AS SELECT 1::bigint AS revision",
        ] {
            let database = runcue_test_servers::postgres().unwrap();
            let old = open_url(&database.url()).unwrap();
            for n in 1..=12 {
                old.submit(BEGINNING, SubmitBatch::of(vec![job(n)])).await.unwrap();
            }
            let known = vec![job(1).id];
            old.get(known.clone()).await.unwrap();
            raise(&database, step).await;
            is_told_that_it_is_too_old(old.submit(BEGINNING, SubmitBatch::of(vec![job(99)])).await);
            is_told_that_it_is_too_old(old.stats(BEGINNING).await);
            if step.contains("spec") {
                is_told_that_it_is_too_old(old.get(known).await);
            }
            assert_eq!(database.sql("SELECT count(*) FROM runcue.job").unwrap(), "12");
        }
    }
}
