//! The raw floor: the same schema, written and claimed by hand-written prepared SQL, with no queue logic,
//! no other thread and no async. Nobody can be faster on these tables by more than this.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, params};

/// All of a job but its id and params.
const SPEC: &str = r#"{"task":"noop"}"#;

const SCHEMA: &str = include_str!("../../store-sqlite/migrations/0001_queue.sql");

/// The tables, opened with the settings the store uses.
pub struct Floor {
    connection: Connection,
    seq: i64,
}

impl Floor {
    pub fn open(path: &Path, synchronous: &str) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
        connection.pragma_update(None, "cache_size", -8 * 1024)?;
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, seq: 0 })
    }

    /// Inserts jobs in transactions of a size.
    pub fn submit(&mut self, count: usize, batch: usize, params: &str) -> Result<Duration> {
        let begin = Instant::now();
        let mut left = count;
        while left > 0 {
            let now = left.min(batch);
            let transaction = self.connection.transaction()?;
            {
                let mut job = transaction.prepare_cached(
                    "INSERT INTO job (seq, id, lane, priority, stage, created_at, queued_at) \
                     VALUES (?1, ?2, 1, 0, 0, ?3, ?3)",
                )?;
                let mut text = transaction
                    .prepare_cached("INSERT INTO body (seq, spec, params) VALUES (?1, ?2, ?3)")?;
                for _ in 0..now {
                    self.seq += 1;
                    let id = (u128::from(self.seq.unsigned_abs()) << 64).to_be_bytes();
                    job.execute(params![self.seq, &id[..], self.seq])?;
                    text.execute(params![self.seq, SPEC, params])?;
                }
                let mut ready = transaction.prepare_cached(
                    "INSERT INTO ready (lane, priority, seq) SELECT lane, priority, seq FROM job \
                     WHERE seq BETWEEN ?1 AND ?2",
                )?;
                ready.execute([self.seq + 1 - i64::try_from(now)?, self.seq])?;
            }
            transaction.commit()?;
            left -= now;
        }
        Ok(begin.elapsed())
    }

    /// Claims and completes everything, so many jobs to a transaction: one that claims, one that completes.
    pub fn drain(&mut self, batch: usize) -> Result<(usize, Duration)> {
        let begin = Instant::now();
        let mut done = 0;
        loop {
            let claimed = self.claim(batch)?;
            if claimed.is_empty() {
                return Ok((done, begin.elapsed()));
            }
            let transaction = self.connection.transaction()?;
            {
                let mut complete = transaction.prepare_cached(
                    "UPDATE job SET stage = 5, due = ?3 WHERE seq = ?1 AND token = ?2",
                )?;
                for seq in &claimed {
                    complete.execute([*seq, *seq, *seq])?;
                }
            }
            transaction.commit()?;
            done += claimed.len();
        }
    }

    fn claim(&mut self, batch: usize) -> Result<Vec<i64>> {
        let transaction = self.connection.transaction()?;
        let claimed: Vec<i64> = {
            let mut heads = transaction.prepare_cached(
                "SELECT seq FROM ready WHERE lane = 1 ORDER BY priority DESC, seq LIMIT ?1",
            )?;
            let found = heads.query_map([i64::try_from(batch)?], |row| row.get(0))?;
            found.collect::<rusqlite::Result<_>>()?
        };
        {
            let mut take = transaction.prepare_cached(
                "UPDATE job SET stage = 4, due = ?2, attempt = attempt + 1, started_at = ?2, worker = ?3, token = ?1 \
                 WHERE seq = ?1",
            )?;
            let mut read =
                transaction.prepare_cached("SELECT spec, params FROM body WHERE seq = ?1")?;
            for seq in &claimed {
                take.execute(params![seq, seq, &[7_u8; 16][..]])?;
                read.query_row([seq], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                })?;
            }
            if let Some(last) = claimed.last() {
                let mut clear = transaction.prepare_cached(
                    "DELETE FROM ready WHERE lane = 1 AND priority = 0 AND seq <= ?1",
                )?;
                clear.execute([last])?;
            }
        }
        transaction.commit()?;
        Ok(claimed)
    }
}
