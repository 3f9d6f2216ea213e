//! New jobs, many rows to a statement.

use std::sync::LazyLock;

use super::*;
use crate::rows::{self, stage};
use runcue_core::Wait;
use runcue_store::stage::READY;
use rusqlite::Statement;

/// Rows in one statement.
const ROWS: usize = 16;

const JOB: &str = "INSERT OR FAIL INTO job (seq, id, lane, priority, stage, due, prerequisites, deadline, created_at, \
                   queued_at, units, worker) VALUES ";
/// What a claim adds to a row: the worker's 16 bytes, two instants of 8 and a number of 4. Rows that grew page by page
/// would make SQLite split pages at every claim.
const ROOM: &str = "x'000000000000000000000000000000000000000000000000000000000000000000000000'";
const BODY: &str = "INSERT OR FAIL INTO body (seq, spec, target, params) VALUES ";

static ONE_JOB: LazyLock<String> = LazyLock::new(|| rows_of(JOB, 11, ROOM, 1));
static MANY_JOBS: LazyLock<String> = LazyLock::new(|| rows_of(JOB, 11, ROOM, ROWS));
static ONE_BODY: LazyLock<String> = LazyLock::new(|| rows_of(BODY, 3, "?", 1));
static MANY_BODIES: LazyLock<String> = LazyLock::new(|| rows_of(BODY, 3, "?", ROWS));

/// A statement with so many question marks and a last value in each row.
fn rows_of(head: &str, columns: usize, last: &str, rows: usize) -> String {
    let row = format!("({}{last})", "?,".repeat(columns));
    format!("{head}{}", vec![row; rows].join(","))
}

impl SqliteTables {
    pub(super) fn find_known(&self, ids: &[JobId]) -> Result<Map<JobId, Seq>> {
        // Ids grow with time: as a rule all of a batch are newer than every job there is.
        let newest = self.row("SELECT max(id) FROM job", [], |row| {
            row.get_ref(0)?.as_blob_or_null()?.map(rows::id_bits).transpose()
        })?;
        let Some(newest) = newest.flatten() else { return Ok(Map::default()) };
        let mut known = Map::default();
        for id in ids.iter().filter(|id| id.as_u128() <= newest) {
            let sql = "SELECT seq FROM job WHERE id = ?1";
            let found = self.row(sql, [&blob(id.as_u128())[..]], |row| row.get(0))?;
            known.extend(found.map(|seq| (*id, Seq(unsigned(seq)))));
        }
        Ok(known)
    }

    pub(super) fn insert_jobs(&self, jobs: &[Job]) -> Result<()> {
        let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(()) };
        self.settle()?;
        let (many, few) = jobs.as_chunks::<ROWS>();
        let write = || -> rusqlite::Result<()> {
            for chunk in many {
                self.insert_rows(chunk, &MANY_JOBS, &MANY_BODIES)?;
            }
            for job in few {
                self.insert_rows(std::slice::from_ref(job), &ONE_JOB, &ONE_BODY)?;
            }
            Ok(())
        };
        write().map_err(|error| self.explain(&error))?;
        for job in jobs {
            if let Some(key) = &job.spec.idempotency_key {
                let sql = "INSERT INTO idempotency (key, seq) VALUES (?1, ?2)";
                self.run(sql, params![key, signed(job.seq.0)])?;
            }
        }
        if jobs.iter().any(|job| stage(&job.life).0 == READY) {
            let sql = "INSERT OR FAIL INTO ready (lane, priority, seq) SELECT lane, priority, seq FROM job \
                       WHERE seq BETWEEN ?1 AND ?2 AND stage = 0";
            self.run(sql, [signed(first.seq.0), signed(last.seq.0)])?;
        }
        Ok(())
    }

    fn insert_rows(&self, jobs: &[Job], job_sql: &str, body_sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(job_sql)?;
        for (n, job) in jobs.iter().enumerate() {
            bind_job(&mut statement, n * 11, job)?;
        }
        statement.raw_execute()?;
        let mut statement = self.connection.prepare_cached(body_sql)?;
        let mut specs = self.specs.borrow_mut();
        for (n, job) in jobs.iter().enumerate() {
            let params = Some(job.spec.params.as_str()).filter(|params| *params != "{}");
            statement.raw_bind_parameter(n * 4 + 1, signed(job.seq.0))?;
            statement.raw_bind_parameter(n * 4 + 2, specs.write(&job.spec)?)?;
            statement.raw_bind_parameter(n * 4 + 3, job.spec.target.as_deref())?;
            statement.raw_bind_parameter(n * 4 + 4, params)?;
        }
        statement.raw_execute().map(drop)
    }
}

fn bind_job(to: &mut Statement<'_>, from: usize, job: &Job) -> rusqlite::Result<()> {
    let life = &job.life;
    let (stage, due) = stage(life);
    let prerequisites = match life.state {
        State::Queued(Wait::Prerequisites(left)) => left,
        _ => 0,
    };
    let units = runcue_core::board::units_of(&job.spec.services);
    let units = units.map(|units| rows::text("units", &*units)).transpose()?;
    to.raw_bind_parameter(from + 1, signed(job.seq.0))?;
    to.raw_bind_parameter(from + 2, &blob(job.id().as_u128())[..])?;
    to.raw_bind_parameter(from + 3, signed(job.lane.0))?;
    to.raw_bind_parameter(from + 4, job.spec.priority)?;
    to.raw_bind_parameter(from + 5, stage)?;
    to.raw_bind_parameter(from + 6, due)?;
    to.raw_bind_parameter(from + 7, prerequisites)?;
    to.raw_bind_parameter(from + 8, life.deadline(&job.spec).map(Timestamp::as_micros))?;
    to.raw_bind_parameter(from + 9, life.created_at.as_micros())?;
    to.raw_bind_parameter(from + 10, life.queued_at.as_micros())?;
    to.raw_bind_parameter(from + 11, units)
}
