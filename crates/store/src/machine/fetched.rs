//! Jobs read ahead of their claim, within a bound: a statement for each would cost more than its row.
//!
//! Those at the head of a lane are read with it. Where jobs of many lanes are mixed, the one that is taken is
//! read together with those submitted after it: lanes take turns and each hands out its oldest first, so that
//! these tend to be the next ones. Where they are not, fewer are read.

use super::*;

/// What was read and is not claimed yet.
#[derive(Debug)]
pub(super) struct Fetched {
    heads: Kept,
    /// Of these nobody knows when they will be claimed, so they make room for others.
    near: Kept,
    /// How many to read beside the next job that is taken.
    ahead: usize,
    /// One of those that were read last has been of use.
    useful: bool,
}

impl Default for Fetched {
    fn default() -> Self {
        let ahead = *Self::AHEAD.end();
        Self { heads: Kept::default(), near: Kept::default(), ahead, useful: true }
    }
}

impl Fetched {
    /// What may be read with the heads of lanes, roughly, in bytes.
    const HEADS: usize = 16 * 1024 * 1024;
    /// What may be read beside a job that is taken.
    const NEAR: usize = 2 * 1024 * 1024;
    /// And how many at once. Never just one: that the next ones would be of use is only seen by having them.
    const AHEAD: std::ops::RangeInclusive<usize> = 2..=64;

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
        if let Some(job) = self.heads.take(seq) {
            return Some(job);
        }
        let job = self.near.take(seq)?;
        self.useful = true;
        Some(job)
    }

    /// How many to read beside a job that is taken: more than the last time if that was of use, else fewer.
    pub fn ahead(&mut self) -> usize {
        let next = if self.useful { self.ahead * 2 } else { self.ahead / 2 };
        self.ahead = next.clamp(*Self::AHEAD.start(), *Self::AHEAD.end());
        self.useful = false;
        self.ahead
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
