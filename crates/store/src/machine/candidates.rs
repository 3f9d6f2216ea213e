//! candidates: the jobs that a claim could take now, for callers that choose by score and then claim by
//! id. It changes nothing but what time has brought.
//!
//! Every lane that is open gets its share of the answer, so that no lane hides another; and in each lane
//! some jobs of its lower priorities are among it, so that a score by age finds the old ones. What the
//! caller has turned down it names, and gets what stands behind.

use std::collections::HashSet;

use super::*;
use crate::reply::{Candidate, Candidates};
use crate::request::ClaimRequest;
use crate::tables::Due;

/// How many lower priorities of a lane are looked at, beyond its first jobs.
const PRIORITIES: usize = 16;
/// How many jobs of each of them.
const OF_EACH: usize = 2;

impl<T: Tables> Machine<T> {
    /// Jobs that a claim could take now, without the ones turned down, and when to ask again.
    pub fn candidates(
        &mut self,
        now: Timestamp,
        request: &ClaimRequest,
        except: &HashSet<Seq>,
    ) -> Result<Candidates> {
        self.fire(now)?;
        self.promote(now)?;
        self.end_overdue(now)?;
        self.fill_hungry()?;
        let mut pass = self.board.begin(now, &request.filter, request.offers.as_ref());
        let lanes = self.board.open_lanes(&mut pass);
        let mut found = Candidates { jobs: Vec::new(), wake: pass.wake() };
        for (n, lane) in lanes.iter().enumerate() {
            let left = request.max.saturating_sub(found.jobs.len());
            let share = left.div_ceil(lanes.len() - n);
            if share == 0 {
                break;
            }
            self.look_into(now, *lane, request.filter.max_priority, share, except, &mut found)?;
        }
        if let Some(due) = self.tables.next_due(Due::Delayed)? {
            found.wake_at(Some(due));
        }
        Ok(found)
    }

    /// Adds up to a share of one lane's jobs.
    fn look_into(
        &mut self,
        now: Timestamp,
        lane: LaneId,
        max_priority: Option<i32>,
        share: usize,
        except: &HashSet<Seq>,
        found: &mut Candidates,
    ) -> Result<()> {
        let Some(key) = self.lane_key(lane)? else { return Ok(()) };
        for head in self.first_of(lane, max_priority, share, except)? {
            let blocks = self.board.blocks(&key, head.units.as_deref(), now);
            if !blocks.is_empty() {
                found.wake_at(blocks.iter().filter_map(|(_, block)| block.until()).max());
                continue;
            }
            let Some(job) = self.tables.job(head.seq)? else { continue };
            let pressure = self.pressure(&job, now);
            found.jobs.push(Candidate { job, pressure });
        }
        Ok(())
    }

    /// The first jobs of a lane that are not turned down and could run if nobody else did, and some of
    /// each lower priority.
    fn first_of(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        share: usize,
        except: &HashSet<Seq>,
    ) -> Result<Vec<Head>> {
        let (mut first, _) = self.ready_of(lane, max_priority, share, except)?;
        for _ in 0..PRIORITIES {
            let below = first.last().and_then(|head| head.priority.checked_sub(1));
            let (Some(below), true) = (below, first.len() >= share) else { break };
            let (lower, _) = self.ready_of(lane, Some(below), OF_EACH, except)?;
            let Some(priority) = lower.first().map(|head| head.priority) else { break };
            first.extend(lower.into_iter().filter(|head| head.priority == priority));
        }
        Ok(first)
    }

    /// The first ready jobs of a lane, however many stand before them that are turned down or could never
    /// run under the present limits. Answers too whether there may be more behind.
    pub(super) fn ready_of(
        &mut self,
        lane: LaneId,
        max_priority: Option<i32>,
        wanted: usize,
        except: &HashSet<Seq>,
    ) -> Result<(Vec<Head>, bool)> {
        let Some(key) = self.lane_key(lane)? else { return Ok((Vec::new(), false)) };
        let mut asked = wanted;
        loop {
            let mut heads = self.tables.ready(lane, max_priority, asked)?;
            let full = heads.len() >= asked;
            heads.retain(|head| {
                !except.contains(&head.seq)
                    && self.board.could_ever_run(&key, head.units.as_deref())
            });
            if heads.len() >= wanted || !full {
                let more = full || heads.len() > wanted;
                heads.truncate(wanted);
                return Ok((heads, more));
            }
            asked = asked.saturating_mul(4);
        }
    }

    /// Of the heads that were read for a lane, those that could run if nobody else did; if none could, those
    /// behind them. Answers too how many it would have been if there were more.
    pub(super) fn that_could_run(
        &mut self,
        lane: LaneId,
        mut heads: Vec<Head>,
        asked: usize,
    ) -> Result<(Vec<Head>, usize)> {
        let read = heads.len();
        if let Some(key) = self.board.lane_key(lane) {
            heads.retain(|head| self.board.could_ever_run(key, head.units.as_deref()));
        }
        if heads.len() == read {
            return Ok((heads, asked));
        }
        self.board.left_out(lane);
        let mut more = read >= asked;
        if heads.is_empty() && more {
            (heads, more) = self.ready_of(lane, None, asked, &HashSet::new())?;
        }
        let asked = if more { heads.len() } else { heads.len() + 1 };
        Ok((heads, asked))
    }

    fn pressure(&self, job: &Job, now: Timestamp) -> Vec<(ServiceName, f64)> {
        let names = job.spec.services.iter().map(|used| &used.service);
        names
            .filter_map(|name| Some((name.clone(), self.board.service(name)?.pressure(now))))
            .collect()
    }
}

impl Candidates {
    fn wake_at(&mut self, at: Option<Timestamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
