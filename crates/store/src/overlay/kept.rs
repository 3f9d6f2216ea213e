//! What the overlay keeps of jobs from one turn to the next: the ready ones of known windows, and those that
//! this daemon holds. Whoever changes a job names it in the commit ([`super::Changed::jobs`]), and only then is
//! it read again.

use runcue_core::map::Map;
use runcue_core::{Job, JobId, LaneId, Seq};

use super::Rank;

/// What is kept of jobs, roughly, in bytes.
const BYTES: usize = 32 * 1024 * 1024;
/// What a job takes besides its params.
const EACH: usize = 1024;

/// Jobs that are kept of each lane when there are too many, at the least.
pub const LEFT_OF_A_LANE: usize = 16;

/// Jobs that are kept of each of so many lanes when there are too many: of few lanes more, as long as all of them are
/// about half of what may be kept.
pub fn left_of_each(lanes: usize) -> usize {
    (BYTES / EACH / 2 / lanes.max(1)).max(LEFT_OF_A_LANE)
}

/// Places of jobs that follow each other: from one to another, both included.
pub type Places = (Seq, Seq);

/// Jobs as the latest known revision has them.
#[derive(Debug, Default)]
pub struct Kept {
    rows: Map<Seq, Row>,
    /// Those that are held, which are asked for by id.
    held: Map<JobId, Seq>,
    bytes: usize,
}

/// A row of a window, or a job that is held. The row outlives the job when memory is short: where it stands is
/// still known.
#[derive(Debug)]
struct Row {
    lane: LaneId,
    rank: Rank,
    job: Option<Box<Job>>,
}

/// What is left of a row when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All of it.
    Job,
    /// Where it stands.
    Place,
    Nothing,
}

fn weight(job: Option<&Job>) -> usize {
    job.map_or(0, |job| EACH + job.spec.params.as_str().len())
}

impl Kept {
    /// A job.
    pub fn get(&self, seq: Seq) -> Option<&Job> {
        self.rows.get(&seq)?.job.as_deref()
    }

    /// The place of a job that is held.
    pub fn seq_of(&self, id: JobId) -> Option<Seq> {
        self.held.get(&id).copied()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.rows.values().filter_map(|row| row.job.as_deref())
    }

    /// Keeps a job. One that is held is also found by its id.
    pub fn keep(&mut self, job: Job) {
        self.forget(job.seq);
        if job.life.state.lease().is_some() {
            self.held.insert(job.id(), job.seq);
        }
        self.bytes += weight(Some(&job));
        let row = Row { lane: job.lane, rank: Rank::of(&job), job: Some(Box::new(job)) };
        self.rows.insert(row.rank.seq, row);
    }

    /// Lets go of a job, and says where it stood.
    pub fn forget(&mut self, seq: Seq) -> Option<(LaneId, Rank)> {
        let row = self.rows.remove(&seq)?;
        self.bytes -= weight(row.job.as_deref());
        if let Some(job) = &row.job {
            self.held.remove(&job.id());
        }
        Some((row.lane, row.rank))
    }

    /// Lets go of all jobs that somebody else has changed, and says where they stood.
    pub fn forget_all(&mut self, changed: &[Places]) -> Vec<(LaneId, Rank)> {
        let named: u64 = changed.iter().map(|(from, to)| to.0.saturating_sub(from.0) + 1).sum();
        let seqs: Vec<Seq> = if named <= self.rows.len() as u64 {
            changed.iter().flat_map(|(from, to)| (from.0..=to.0).map(Seq)).collect()
        } else {
            let changed = merged(changed);
            self.rows.keys().copied().filter(|seq| is_among(&changed, *seq)).collect()
        };
        seqs.into_iter().filter_map(|seq| self.forget(seq)).collect()
    }

    /// Whether more is kept than there should be.
    pub fn is_too_much(&self) -> bool {
        self.bytes > BYTES
    }

    /// Keeps less: of each row what the caller says.
    pub fn thin_out(&mut self, left: impl Fn(LaneId, Rank) -> Left) {
        let Self { rows, held, bytes } = self;
        rows.retain(|_, row| {
            let left = left(row.lane, row.rank);
            if left != Left::Job
                && let Some(job) = row.job.take()
            {
                *bytes -= weight(Some(&job));
                held.remove(&job.id());
            }
            left != Left::Nothing
        });
    }

    /// Whether it is known where a job stands, though not the job itself.
    pub fn is_thin(&self, seq: Seq) -> bool {
        self.rows.get(&seq).is_some_and(|row| row.job.is_none())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// In order, none touching the next.
fn merged(places: &[Places]) -> Vec<Places> {
    let mut all = places.to_vec();
    all.sort();
    let mut merged: Vec<Places> = Vec::with_capacity(all.len());
    for (from, to) in all {
        match merged.last_mut() {
            Some((_, end)) if from.0 <= end.0.saturating_add(1) => *end = (*end).max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

fn is_among(places: &[Places], seq: Seq) -> bool {
    let behind = places.partition_point(|(from, _)| *from <= seq);
    behind.checked_sub(1).is_some_and(|at| seq <= places[at].1)
}

/// Places in order as runs of those that follow each other.
pub fn runs(seqs: impl IntoIterator<Item = Seq>) -> Vec<Places> {
    let mut runs: Vec<Places> = Vec::new();
    for seq in seqs {
        match runs.last_mut() {
            Some((_, end)) if seq.0 == end.0 + 1 => *end = seq,
            _ => runs.push((seq, seq)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(pairs: &[(u64, u64)]) -> Vec<Places> {
        pairs.iter().map(|(from, to)| (Seq(*from), Seq(*to))).collect()
    }

    #[test]
    fn places_that_follow_each_other_are_one_run() {
        let seqs = [1, 2, 3, 7, 9, 10].map(Seq);
        assert_eq!(runs(seqs), places(&[(1, 3), (7, 7), (9, 10)]));
    }

    #[test]
    fn a_place_is_found_among_runs_in_any_order_that_overlap() {
        let merged = merged(&places(&[(20, 30), (1, 3), (4, 6), (25, 40)]));
        assert_eq!(merged, places(&[(1, 6), (20, 40)]));
        let among: Vec<u64> = (0..50).filter(|n| is_among(&merged, Seq(*n))).collect();
        assert_eq!(among, (1..=6).chain(20..=40).collect::<Vec<_>>());
    }
}
