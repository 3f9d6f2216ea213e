//! retry: a person sends jobs round again, and with them the dependents that failed only because of them.

use super::submit::unmet_by;
use super::*;
use runcue_core::JobFilter;
use runcue_core::transition::first_wait;

impl<T: Tables> Machine<T> {
    /// Sends the jobs that match round again and answers how many.
    pub fn retry(&mut self, now: Timestamp, filter: &JobFilter) -> Result<u64> {
        let mut filter = filter.clone();
        if filter.states.is_empty() {
            filter.states =
                [StateWord::Failed, StateWord::Cancelled, StateWord::Quarantined].into();
        }
        let chosen = self.with_dependents(&filter)?;
        let mut count = 0;
        let mut doomed = Vec::new();
        for seq in &chosen {
            let Some(mut job) = self.tables.job(*seq)? else { continue };
            let (left, unmet) = self.standing(*seq, &chosen)?;
            let wait = match left {
                0 => first_wait(job.spec.run_at, now),
                left => Wait::Prerequisites(left),
            };
            if self.apply(now, &mut job, Input::Retry(wait), None)?.is_ok() {
                count += 1;
                doomed.extend(unmet.map(|unmet| (*seq, unmet)));
            }
        }
        for (seq, unmet) in doomed {
            if let Some(mut job) = self.tables.job(seq)? {
                let _ = self.apply(now, &mut job, Input::PrerequisiteUnmet(unmet), None)?;
            }
        }
        self.resolve(now)?;
        Ok(count)
    }

    /// The jobs that match, and every dependent that failed because a job in the set did not complete.
    fn with_dependents(&mut self, filter: &JobFilter) -> Result<BTreeSet<Seq>> {
        let mut chosen = BTreeSet::new();
        let mut after = None;
        loop {
            let seqs = self.tables.matching(filter, after, CHUNK)?;
            chosen.extend(seqs.iter().copied());
            after = seqs.last().copied();
            if seqs.len() < CHUNK {
                break;
            }
        }
        let mut open: Vec<Seq> = chosen.iter().copied().collect();
        while let Some(seq) = open.pop() {
            for dependent in self.tables.dependents(seq)? {
                let Some(job) = self.tables.job(dependent)? else { continue };
                let error = job.life.last_error.as_deref();
                let because =
                    error == Some(Unmet::Failed.error()) || error == Some(Unmet::Cancelled.error());
                if job.life.state == State::Failed && because && chosen.insert(dependent) {
                    open.push(dependent);
                }
            }
        }
        Ok(chosen)
    }

    /// How many prerequisites of a job are still to come, and whether one never will.
    fn standing(&mut self, seq: Seq, chosen: &BTreeSet<Seq>) -> Result<(u32, Option<Unmet>)> {
        let mut left = 0;
        let mut unmet = None;
        for prerequisite in self.tables.prerequisites(seq)? {
            let Some(job) = self.tables.job(prerequisite)? else { continue };
            let state = job.life.state.word();
            if state == StateWord::Completed {
                continue;
            }
            left += 1;
            if !chosen.contains(&prerequisite) {
                unmet = unmet.or(unmet_by(state));
            }
        }
        Ok((left, unmet))
    }
}
