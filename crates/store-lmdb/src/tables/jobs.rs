//! Jobs: inserting, saving, deleting and finding them, with every index kept in step.

use super::*;
use crate::rows::{HELD, Outcome, Row, kind};
use runcue_core::board::units_of;
use runcue_store::stage::{DELAYED, READY};

impl LmdbTables {
    pub(super) fn insert_job(&mut self, job: &Job) -> Result<()> {
        let id = job.id().as_u128().to_be_bytes();
        let key = keys::number(job.seq.0);
        self.put(Table::Id, &id, &key)?;
        let spec = self.json("spec", &*job.spec)?;
        self.put(Table::Body, &key, &spec)?;
        let row = Row::of(job);
        self.put(Table::Job, &key, &row.to_bytes())?;
        self.index(job, &row)?;
        self.write_outcome(job, &row, false)?;
        if let Some(name) = &job.spec.idempotency_key {
            let mut list = self.listed(Table::Idempotency, name)?;
            list.retain(|(own, _)| own != name);
            list.push((name.clone(), job.seq.0));
            self.put_list(Table::Idempotency, name, &list)?;
        }
        Ok(())
    }

    pub(super) fn save_job(&mut self, job: &Job) -> Result<()> {
        let Some(old) = self.look(|view| rows::row(view, job.seq))? else { return Ok(()) };
        let mut row = Row::of(job);
        // A tie that was made meanwhile stays.
        row.has_dependents |= old.has_dependents;
        let moved = (old.stage, old.due(), old.deadline, old.worker)
            != (row.stage, row.due(), row.deadline, row.worker);
        if moved {
            self.unindex(job.seq, &old)?;
            self.index(job, &row)?;
        }
        if row != old {
            self.put(Table::Job, &keys::number(job.seq.0), &row.to_bytes())?;
        }
        self.write_outcome(job, &row, old.has_outcome)
    }

    pub(super) fn delete_job(&mut self, job: &Job) -> Result<()> {
        let key = keys::number(job.seq.0);
        if let Some(row) = self.look(|view| rows::row(view, job.seq))? {
            self.unindex(job.seq, &row)?;
        }
        if let Some(name) = &job.spec.idempotency_key {
            self.drop_key_of(name, job.seq)?;
        }
        for dependent in self.dependents(job.seq)? {
            self.remove(Table::Tied, &keys::pair(dependent.0, job.seq.0))?;
        }
        for prerequisite in self.prerequisites(job.seq)? {
            self.remove(Table::Tie, &keys::pair(prerequisite.0, job.seq.0))?;
        }
        for table in [Table::Tie, Table::Tied, Table::Log] {
            self.remove_prefix(table, &key)?;
        }
        for table in [Table::Job, Table::Body, Table::Outcome] {
            self.remove(table, &key)?;
        }
        self.remove(Table::Id, &job.id().as_u128().to_be_bytes()).map(drop)
    }

    pub(super) fn drop_key_of(&mut self, name: &str, seq: Seq) -> Result<()> {
        let mut list = self.listed(Table::Idempotency, name)?;
        let before = list.len();
        list.retain(|(own, holder)| own != name || *holder != seq.0);
        if list.len() < before { self.put_list(Table::Idempotency, name, &list) } else { Ok(()) }
    }

    fn index(&mut self, job: &Job, row: &Row) -> Result<()> {
        if row.stage == READY {
            let units = units_of(&job.spec.services).unwrap_or_default();
            let units: Vec<u8> = units.iter().flat_map(|units| keys::number(*units)).collect();
            self.put(Table::Ready, &keys::ready(job.lane, row.priority, job.seq), &units)?;
        }
        if let Some((kind, at)) = row.due() {
            let mut holder = Vec::new();
            if kind == HELD {
                holder.extend(keys::number(row.lane));
                holder.extend(row.worker.to_be_bytes());
            }
            self.put(Table::Due, &keys::due(kind, at, job.seq), &holder)?;
        }
        if let Some(at) = row.deadline {
            self.put(Table::Deadline, &deadline(at, job.seq), &[])?;
        }
        Ok(())
    }

    fn unindex(&mut self, seq: Seq, row: &Row) -> Result<()> {
        if row.stage == READY {
            self.remove(Table::Ready, &keys::ready(LaneId(row.lane), row.priority, seq))?;
        }
        if let Some((kind, at)) = row.due() {
            self.remove(Table::Due, &keys::due(kind, at, seq))?;
        }
        if let Some(at) = row.deadline {
            self.remove(Table::Deadline, &deadline(at, seq))?;
        }
        Ok(())
    }

    fn write_outcome(&mut self, job: &Job, row: &Row, had: bool) -> Result<()> {
        let key = keys::number(job.seq.0);
        match Outcome::of(&job.life) {
            Some(outcome) if row.has_outcome => {
                let bytes = self.json("outcome", &outcome)?;
                self.put(Table::Outcome, &key, &bytes)
            }
            _ if had => self.remove(Table::Outcome, &key).map(drop),
            _ => Ok(()),
        }
    }
}

fn deadline(at: i64, seq: Seq) -> Vec<u8> {
    [keys::instant(Timestamp::from_micros(at)), keys::number(seq.0)].concat()
}

/// The kind under which jobs are found.
pub(super) fn kind_of(what: Due) -> u8 {
    match what {
        Due::Delayed => DELAYED,
        Due::Lapsed => HELD,
    }
}

pub(super) fn due_until(
    view: View<'_>,
    kind: u8,
    now: Timestamp,
    limit: usize,
) -> heed::Result<Vec<Seq>> {
    let mut seqs = Vec::new();
    for entry in view.prefix(Table::Due, &[kind])?.take(limit) {
        let (key, _) = entry?;
        if keys::instant_at(key, 1).is_none_or(|at| at > now) {
            break;
        }
        seqs.extend(keys::number_at(key, 9).map(Seq));
    }
    Ok(seqs)
}

pub(super) fn ready_heads(
    view: View<'_>,
    lane: LaneId,
    max_priority: Option<i32>,
    limit: usize,
) -> heed::Result<Vec<Head>> {
    let from = keys::ready(lane, max_priority.unwrap_or(i32::MAX), Seq(0));
    let mut heads = Vec::new();
    for entry in view.from(Table::Ready, &from)?.take(limit) {
        let (key, units) = entry?;
        if keys::number_at(key, 0) != Some(lane.0) {
            break;
        }
        let Some((priority, seq)) = keys::ready_at(key) else { break };
        let units: Vec<u64> =
            (0..units.len() / 8).filter_map(|n| keys::number_at(units, n * 8)).collect();
        let units = if units.is_empty() { None } else { Some(Arc::from(units)) };
        heads.push(Head { priority, seq, units });
    }
    Ok(heads)
}

pub(super) fn ready_jobs(view: View<'_>, lane: LaneId, limit: usize) -> heed::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for entry in view.prefix(Table::Ready, &keys::number(lane.0))?.take(limit) {
        let (key, _) = entry?;
        if let Some((_, seq)) = keys::ready_at(key) {
            jobs.extend(rows::job(view, seq)?);
        }
    }
    Ok(jobs)
}

pub(super) fn matching(
    view: View<'_>,
    filter: &JobFilter,
    after: Option<Seq>,
    limit: usize,
) -> heed::Result<Vec<Seq>> {
    let from = after.map_or(0, |seq| seq.0.saturating_add(1));
    let mut seqs = Vec::new();
    if !filter.ids.is_empty() {
        for id in &filter.ids {
            let Some(seq) = rows::seq_of(view, *id)?.filter(|seq| seq.0 >= from) else { continue };
            let job = rows::job(view, seq)?;
            seqs.extend(job.filter(|job| filter.matches(job)).map(|job| job.seq));
        }
        seqs.sort();
        seqs.truncate(limit);
        return Ok(seqs);
    }
    for entry in view.from(Table::Job, &keys::number(from))? {
        if seqs.len() == limit {
            break;
        }
        let (key, bytes) = entry?;
        seqs.extend(reader::wanted(view, key, bytes, filter)?.map(|job| job.seq));
    }
    Ok(seqs)
}

pub(super) fn stale(
    view: View<'_>,
    state: StateWord,
    ended_before: Timestamp,
    keep: u64,
    limit: usize,
) -> heed::Result<Vec<Seq>> {
    let (mut total, mut old) = (0_u64, 0_u64);
    let mut seqs = Vec::new();
    for entry in view.prefix(Table::Due, &[kind(state)])? {
        let (key, _) = entry?;
        total += 1;
        old += u64::from(keys::instant_at(key, 1).is_some_and(|at| at < ended_before));
        if seqs.len() < limit {
            seqs.extend(keys::number_at(key, 9).map(Seq));
        }
    }
    let gone = old.max(total.saturating_sub(keep));
    seqs.truncate(usize::try_from(gone).unwrap_or(usize::MAX));
    Ok(seqs)
}
