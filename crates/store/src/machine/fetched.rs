//! Jobs read ahead of their claim, within a bound: a statement for each would cost more than its row.
//!
//! Those at the head of a lane are read with it. Where there are too many lanes for that, the job that is
//! taken is read together with those submitted after it: lanes take turns and each hands out its oldest
//! first, so that these tend to be the next ones.

use super::*;

/// What was read and is not claimed yet.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    heads: Kept,
    /// Of these nobody knows when they will be claimed, so they make room for others.
    near: Kept,
}

impl Fetched {
    /// What may be read with the heads of lanes, roughly, in bytes.
    const HEADS: usize = 16 * 1024 * 1024;
    /// What may be read beside a job that is taken.
    const NEAR: usize = 2 * 1024 * 1024;

    pub fn has_room(&self) -> bool {
        self.heads.bytes < Self::HEADS
    }

    pub fn keep(&mut self, job: Job) {
        self.near.take(job.seq);
        self.heads.keep(job, Self::HEADS);
    }

    /// Keeps jobs that were read beside one that is taken.
    pub fn keep_near(&mut self, jobs: Vec<Job>) {
        if self.near.bytes + jobs.iter().map(weight).sum::<usize>() > Self::NEAR {
            self.near.clear();
        }
        for job in jobs {
            if !self.heads.jobs.contains_key(&job.seq) {
                self.near.keep(job, Self::NEAR);
            }
        }
    }

    pub fn take(&mut self, seq: Seq) -> Option<Job> {
        self.heads.take(seq).or_else(|| self.near.take(seq))
    }

    pub fn clear(&mut self) {
        self.heads.clear();
        self.near.clear();
    }
}

/// Jobs, and roughly how much they take.
#[derive(Debug, Default)]
struct Kept {
    jobs: Map<Seq, Job>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, job: Job, most: usize) {
        let bytes = weight(&job);
        if self.bytes + bytes <= most && self.jobs.insert(job.seq, job).is_none() {
            self.bytes += bytes;
        }
    }

    fn take(&mut self, seq: Seq) -> Option<Job> {
        let job = self.jobs.remove(&seq)?;
        self.bytes -= weight(&job);
        Some(job)
    }

    fn clear(&mut self) {
        self.jobs.clear();
        self.bytes = 0;
    }
}

/// What a job takes: its params, and roughly this besides.
fn weight(job: &Job) -> usize {
    1024 + job.spec.params.as_str().len()
}
