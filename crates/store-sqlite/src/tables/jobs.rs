//! Jobs: loading, saving and finding them.

use super::pending::{Claim, End};
use super::*;
use crate::rows::{self, BARE_COLUMNS, COLUMNS, FROM, stage};
use runcue_core::{Lease, Wait};
use runcue_store::stage::{READY, stages};

impl SqliteTables {
    pub(super) fn load_job(&self, seq: Seq) -> Result<Option<Job>> {
        const SQL: &str = joined!(
            "SELECT ",
            BARE_COLUMNS,
            " FROM job JOIN body ON body.seq = job.seq WHERE job.seq = ?1"
        );
        let Some((mut job, has_outcome)) = self.row(SQL, [signed(seq.0)], |row| {
            rows::bare_job(row, 0, &mut self.specs.borrow_mut())
        })?
        else {
            return Ok(None);
        };
        if has_outcome {
            let sql = "SELECT last_error, failures, result, result_key, progress FROM outcome WHERE seq = ?1";
            self.row(sql, [signed(seq.0)], |row| rows::read_outcome(&mut job.life, row, 0))?;
        }
        Ok(Some(job))
    }

    /// Writes a life. Only the columns that the change concerns are named, because SQLite rewrites every
    /// index that a named column belongs to.
    pub(super) fn save_job(&mut self, job: &Job, before: &State) -> Result<()> {
        let life = &job.life;
        let seq = signed(job.seq.0);
        let (stage, due) = stage(life);
        let was_held = before.lease().is_some();
        match &life.state {
            State::Running(lease) | State::Leased(lease)
                if *before == State::Queued(Wait::Turn) =>
            {
                self.save_claimed(job, lease, stage, due)
            }
            State::Completed if was_held => {
                // A job that was sent round again may have an old error written down.
                let first_round = life.queued_at == life.created_at && life.failures.is_empty();
                let plain = first_round && life.result.is_none() && life.result_key.is_none();
                self.add_end(job, End { stage, due, has_outcome: !plain })?;
                if plain { Ok(()) } else { self.save_outcome(job) }
            }
            State::Running(_) if matches!(before, State::Running(_)) => {
                let sql = "UPDATE job SET due = ?2, cancel_requested = ?3 WHERE seq = ?1";
                self.run(sql, params![seq, due, life.cancel_requested]).map(drop)
            }
            _ => self.save_all(job, stage, due),
        }
    }

    fn save_claimed(
        &mut self,
        job: &Job,
        lease: &Lease,
        stage: u8,
        due: Option<i64>,
    ) -> Result<()> {
        let attempt = job.life.attempt;
        if attempt > 1 {
            // How far an earlier attempt was says nothing of this one.
            let sql = "UPDATE outcome SET progress = NULL WHERE seq = ?1 AND progress IS NOT NULL";
            self.run(sql, [signed(job.seq.0)])?;
        }
        let claim = Claim {
            stage,
            due,
            attempt,
            started_at: job.life.started_at.map(Timestamp::as_micros),
            worker: blob(lease.worker.as_u128()),
            start_by: lease.start_by.map(Timestamp::as_micros),
            had_deadline: job.spec.expires_at.is_some(),
        };
        self.add_claim(job, lease.token, claim)
    }

    fn save_all(&mut self, job: &Job, stage: u8, due: Option<i64>) -> Result<()> {
        let life = &job.life;
        let prerequisites = match life.state {
            State::Queued(Wait::Prerequisites(left)) => left,
            _ => 0,
        };
        let has_outcome = life.last_error.is_some() || !life.failures.is_empty();
        self.run(
            "UPDATE job SET stage = ?2, due = ?3, prerequisites = ?4, deadline = ?5, attempt = ?6, \
             earlier_attempts = ?7, crashes = ?8, queued_at = ?9, started_at = ?10, cancel_requested = ?11, \
             has_outcome = has_outcome OR ?12 WHERE seq = ?1",
            params![
                signed(job.seq.0),
                stage,
                due,
                prerequisites,
                life.deadline(&job.spec).map(Timestamp::as_micros),
                life.attempt,
                life.earlier_attempts,
                life.crashes,
                life.queued_at.as_micros(),
                life.started_at.map(Timestamp::as_micros),
                life.cancel_requested,
                has_outcome,
            ],
        )?;
        if stage == READY {
            self.add_place(job)?;
        }
        if has_outcome {
            self.save_outcome(job)?;
        }
        Ok(())
    }

    pub(super) fn save_outcome(&mut self, job: &Job) -> Result<()> {
        let life = &job.life;
        let failures = if life.failures.is_empty() {
            None
        } else {
            Some(self.text("failures", &life.failures)?)
        };
        let progress =
            life.progress.as_ref().map(|progress| self.text("progress", progress)).transpose()?;
        let sql = "INSERT OR REPLACE INTO outcome (seq, last_error, failures, result, result_key, progress) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let result = life.result.as_ref().map(runcue_core::Json::as_str);
        let values = params![
            signed(job.seq.0),
            life.last_error,
            failures,
            result,
            life.result_key,
            progress
        ];
        self.run_now(sql, values).map(drop)
    }

    pub(super) fn find_matching(
        &self,
        filter: &JobFilter,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let after = after.map_or(-1, |seq| signed(seq.0));
        if !filter.ids.is_empty() {
            return self.matching_ids(filter, after, limit);
        }
        let clause = crate::reader::Clause::of(filter);
        let sql = format!(
            "SELECT job.seq FROM job JOIN lane USING (lane) WHERE job.seq > ? {} ORDER BY job.seq LIMIT ?",
            clause.sql
        );
        let mut values = vec![rusqlite::types::Value::from(after)];
        values.extend(clause.values);
        values.push(limit_of(limit).into());
        self.seqs(&sql, rusqlite::params_from_iter(values))
    }

    fn matching_ids(&self, filter: &JobFilter, after: i64, limit: usize) -> Result<Vec<Seq>> {
        let mut seqs = Vec::new();
        for id in &filter.ids {
            const SQL: &str = joined!("SELECT ", COLUMNS, " FROM ", FROM, " WHERE job.id = ?1");
            let read = |row: &Row<'_>| rows::job(row, &mut self.specs.borrow_mut());
            let job = self.row(SQL, [&blob(id.as_u128())[..]], read)?;
            seqs.extend(
                job.filter(|job| signed(job.seq.0) > after && filter.matches(job))
                    .map(|job| job.seq),
            );
        }
        seqs.sort();
        seqs.truncate(limit);
        Ok(seqs)
    }

    pub(super) fn find_stale(
        &self,
        state: StateWord,
        ended_before: Timestamp,
        keep: u64,
        limit: usize,
    ) -> Result<Vec<Seq>> {
        let stage = i64::from(stages(state)[0]);
        let count = "SELECT count(*) FROM job WHERE stage = ?1 AND due IS NOT NULL";
        let total = self.row(count, [stage], |row| row.get::<_, i64>(0))?.unwrap_or(0);
        let old = "SELECT count(*) FROM job WHERE stage = ?1 AND due < ?2";
        let old = self
            .row(old, [stage, ended_before.as_micros()], |row| row.get::<_, i64>(0))?
            .unwrap_or(0);
        let gone = old.max(total - signed(keep).min(total)).min(limit_of(limit));
        let sql =
            "SELECT seq FROM job WHERE stage = ?1 AND due IS NOT NULL ORDER BY due, seq LIMIT ?2";
        self.seqs(sql, [stage, gone])
    }
}

/// Joins constant texts at compile time, so that a statement is the same text every time.
macro_rules! joined {
    ($($part:expr),+) => {{
        const PARTS: &[&str] = &[$($part),+];
        const LEN: usize = {
            let (mut len, mut n) = (0, 0);
            while n < PARTS.len() {
                len += PARTS[n].len();
                n += 1;
            }
            len
        };
        const BYTES: [u8; LEN] = {
            let mut bytes = [0; LEN];
            let (mut at, mut n) = (0, 0);
            while n < PARTS.len() {
                let part = PARTS[n].as_bytes();
                let mut k = 0;
                while k < part.len() {
                    bytes[at] = part[k];
                    at += 1;
                    k += 1;
                }
                n += 1;
            }
            bytes
        };
        match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => "",
        }
    }};
}
pub(super) use joined;
