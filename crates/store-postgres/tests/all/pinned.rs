//! A session that holds a transaction open for the whole run: no dead row can be removed in the meantime. The
//! same work must not read more for that, must not take more space per job, and must not be slower.

use std::time::{Duration, Instant};

use runcue_core::{
    JobId, JobSpec, Rate, ServiceName, ServiceSpec, TaskName, Timestamp, Use, WorkerId,
};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_postgres::{PostgresStore, open_url};
use runcue_test_servers::Database;

const ROUNDS: u128 = 50;
const PER_ROUND: u128 = 200;
const BACKLOG: u128 = 400;

fn job(n: u128) -> JobSpec {
    let mut spec = JobSpec::new(JobId::from_u128(n), TaskName::new("work").unwrap());
    if n.is_multiple_of(4) {
        spec.services = vec![Use { service: ServiceName::new("api").unwrap(), units: 1 }];
    }
    spec
}

async fn submit(store: &PostgresStore, from: u128, count: u128) {
    let jobs = (from..from + count).map(job).collect();
    store.submit(Timestamp::ZERO, SubmitBatch::of(jobs)).await.unwrap();
}

async fn work(store: &PostgresStore, count: usize) {
    let request = ClaimRequest::new(WorkerId::from_u128(1), count);
    let claimed = store.claim(Timestamp::ZERO, request).await.unwrap();
    assert_eq!(claimed.jobs.len(), count);
    let outcome = Outcome::Done { result: None, result_key: None };
    let ends =
        claimed.jobs.into_iter().map(|(_, lease)| Finish { lease, outcome: outcome.clone() });
    store.finish(Timestamp::ZERO, ends.collect()).await.unwrap();
    store.reap(Timestamp::ZERO, Vec::new()).await.unwrap();
}

/// What the work has cost per job.
struct Cost {
    /// Microseconds.
    time: f64,
    /// Pages looked at.
    pages: f64,
    /// Entries of indexes and rows read, the dead ones included.
    entries: f64,
    /// Space taken.
    bytes: f64,
    /// Dead rows that nobody could remove.
    dead: f64,
}

/// Entries of indexes and rows that were read so far, once nobody is connected: a session hands its figures in when it ends.
pub fn entries(database: &Database) -> f64 {
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'runcue' \
                AND datname = current_database()";
    while database.sql(busy).unwrap().trim() != "0" {
        std::thread::yield_now();
    }
    let read = "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'runcue') + \
                (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'runcue')";
    database.sql(read).unwrap().trim().parse().unwrap()
}

/// Removes dead rows, as the server does by itself now and then.
pub fn vacuum(database: &Database) {
    let tables = "SELECT string_agg('runcue.' || tablename, ', ') FROM pg_tables WHERE schemaname = 'runcue'";
    let tables = database.sql(tables).unwrap();
    database.sql(&format!("VACUUM {tables}")).unwrap();
}

fn cost(database: &Database, time: Duration) -> Cost {
    let entries = entries(database);
    let read = "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) \
                FROM pg_statio_user_tables WHERE schemaname = 'runcue'";
    let size = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE schemaname = 'runcue'";
    let jobs = (ROUNDS * PER_ROUND) as f64;
    let number = |sql: &str| database.sql(sql).unwrap().trim().parse::<f64>().unwrap() / jobs;
    let dead = "SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = 'runcue'";
    Cost {
        time: time.as_micros() as f64 / jobs,
        pages: number(read),
        entries: entries / jobs,
        bytes: number(size),
        dead: number(dead),
    }
}

/// Two daemons by turns on a queue, so that each has to read what the other has changed.
struct Queue {
    database: Database,
    stores: [PostgresStore; 2],
    /// Whose transaction is open all the time. It is of no harm unless it has a snapshot.
    holder: tokio_postgres::Client,
    time: Duration,
}

impl Queue {
    async fn new(pinned: bool) -> Self {
        let database = runcue_test_servers::postgres().unwrap();
        let (holder, connection) =
            tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let stores = [open_url(&database.url()).unwrap(), open_url(&database.url()).unwrap()];
        holder.batch_execute("BEGIN").await.unwrap();
        if pinned {
            let pin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
            holder.batch_execute(pin).await.unwrap();
        }
        let api = ServiceSpec {
            rates: vec![Rate { limit: 1_000_000, window: Duration::from_secs(60) }],
            ..ServiceSpec::new(ServiceName::new("api").unwrap())
        };
        stores[0].upsert_services(Timestamp::ZERO, vec![api]).await.unwrap();
        submit(&stores[0], 1, BACKLOG).await;
        Self { database, stores, holder, time: Duration::ZERO }
    }

    async fn round(&mut self, round: u128) {
        let store = &self.stores[usize::from(round.is_multiple_of(2))];
        let begun = Instant::now();
        submit(store, BACKLOG + 1 + round * PER_ROUND, PER_ROUND).await;
        work(store, 100).await;
        work(store, 100).await;
        self.time += begun.elapsed();
    }

    async fn end(self) -> Cost {
        for store in self.stores {
            store.close().await.unwrap();
        }
        let cost = cost(&self.database, self.time);
        drop(self.holder);
        cost
    }
}

#[tokio::test]
async fn a_transaction_that_somebody_holds_open_makes_nothing_slower() {
    let mut free = Queue::new(false).await;
    let mut pinned = Queue::new(true).await;
    for round in 0..ROUNDS {
        // One after the other and each of them first as often, so that both have had the same of what else the machine did.
        if round.is_multiple_of(2) {
            free.round(round).await;
            pinned.round(round).await;
        } else {
            pinned.round(round).await;
            free.round(round).await;
        }
        if round % 10 == 9 {
            vacuum(&free.database);
            vacuum(&pinned.database);
        }
    }
    let (free, pinned) = (free.end().await, pinned.end().await);
    let told = format!(
        "per job: time {:.0}, {:.0} pinned; pages {:.1}, {:.1} pinned; entries {:.1}, {:.1} pinned; \
         bytes {:.0}, {:.0} pinned; dead rows {:.2}, {:.2} pinned",
        free.time,
        pinned.time,
        free.pages,
        pinned.pages,
        free.entries,
        pinned.entries,
        free.bytes,
        pinned.bytes,
        free.dead,
        pinned.dead
    );
    assert!(pinned.dead > free.dead * 3.0, "{told}");
    assert!(pinned.time < free.time * 2.0, "{told}");
    assert!(pinned.pages < free.pages * 1.5, "{told}");
    assert!(pinned.entries < free.entries * 1.25, "{told}");
    assert!(pinned.bytes < free.bytes * 2.0, "{told}");
}
