//! What is compared after every step: every job, the counts, the services and the stories.

use runcue_core::breaker::Breaker;
use runcue_core::{JobId, State, StateWord, Wait};

use super::play::{Answer, Play};
use super::reference::Circuit;

impl Play {
    /// Everything that can be seen.
    pub async fn compare(&mut self) -> Result<(), String> {
        let ids: Vec<JobId> = self.reference.jobs.iter().map(|job| job.spec.id).collect();
        let jobs = self.store.get(ids).await.unwrap();
        for (n, job) in jobs.into_iter().enumerate() {
            let Some(job) = job else { return Err(format!("job {} is missing", n + 1)) };
            self.compare_job(n, &job)?;
        }
        self.compare_counts().await?;
        self.compare_services().await?;
        self.compare_stories().await?;
        self.compare_schedules().await?;
        let findings = self.store.check(self.now()).await.unwrap();
        let lowered = |text: &&String| {
            !text.contains("more than its limit")
                && !text.contains("window that allows")
                && !text.contains("because a clock was ahead")
        };
        match findings.iter().find(lowered) {
            Some(finding) => Err(format!("the store's own check says: {finding}")),
            None => Ok(()),
        }
    }

    fn compare_job(&self, n: usize, job: &runcue_core::Job) -> Result<(), String> {
        let reference = &self.reference.jobs[n];
        let (life, name) = (&job.life, job.id().as_u128());
        let state = match reference.state {
            StateWord::Queued => State::Queued(self.reference.wait(n)),
            StateWord::Leased => State::Leased(reference.lease.clone().unwrap()),
            StateWord::Running => State::Running(reference.lease.clone().unwrap()),
            StateWord::Completed => State::Completed,
            StateWord::Failed => State::Failed,
            StateWord::Cancelled => State::Cancelled,
            StateWord::Quarantined => State::Quarantined,
        };
        agree(&format!("state of job {name}"), &life.state, &state)?;
        let counts = (life.attempt, life.earlier_attempts, life.crashes, life.cancel_requested);
        let expected =
            (reference.attempt, reference.earlier, reference.crashes, reference.cancel_requested);
        agree(&format!("attempts of job {name}"), &counts, &expected)?;
        agree(&format!("error of job {name}"), &life.last_error, &reference.error)?;
        Ok(())
    }

    async fn compare_counts(&self) -> Result<(), String> {
        let stats = self.store.stats(self.now()).await.unwrap();
        agree("counts", &stats.counts, &self.reference.counts(None))?;
        let waiting = |wanted: fn(Wait) -> bool| {
            let jobs = 0..self.reference.jobs.len();
            let queued = jobs.filter(|n| self.reference.jobs[*n].state == StateWord::Queued);
            queued.filter(|n| wanted(self.reference.wait(*n))).count() as u64
        };
        let delayed = waiting(|wait| matches!(wait, Wait::Until(_)));
        let blocked = waiting(|wait| matches!(wait, Wait::Prerequisites(_)));
        agree("delayed and blocked", &(stats.delayed, stats.blocked), &(delayed, blocked))?;
        for info in self.store.groups().await.unwrap() {
            let group = self.reference.groups.get(&info.name).cloned().unwrap_or_default();
            let what = format!("group {:?}", info.name);
            let counts = self.reference.counts(Some(&info.name));
            agree(&what, &(info.paused, info.counts), &(group.paused, counts))?;
            if info.counts.queued > 0 {
                agree(&format!("turn of {what}"), &info.turn, &group.turn)?;
            }
        }
        Ok(())
    }

    async fn compare_services(&self) -> Result<(), String> {
        for info in self.store.services(self.now()).await.unwrap() {
            let service = &self.reference.services[&info.spec.name];
            let name = &info.spec.name;
            agree(&format!("slots of {name}"), &info.in_use, &self.reference.in_use(name, None))?;
            let used: Vec<u64> = info.used.iter().map(|(_, used)| *used).collect();
            let rates = service.spec.rates.iter();
            let counted: Vec<u64> =
                rates.map(|rate| self.reference.used(service, rate.window, None)).collect();
            agree(&format!("use of {name}"), &used, &counted)?;
            let circuit = match info.breaker {
                Breaker::Closed { failures } => Circuit::Closed(failures),
                Breaker::Open { until } => Circuit::Open(until),
                Breaker::HalfOpen { probe } => Circuit::Probing(probe),
            };
            agree(&format!("circuit of {name}"), &circuit, &service.circuit)?;
            let held = Some(service.held_until).filter(|until| *until > self.now());
            agree(&format!("hold of {name}"), &info.held_until, &held)?;
        }
        Ok(())
    }

    async fn compare_stories(&mut self) -> Result<(), String> {
        for event in self.store.events(self.last_event, 100_000).await.unwrap() {
            if event.seq != self.last_event + 1 {
                return Err(format!("event {} follows {}", event.seq, self.last_event));
            }
            self.last_event = event.seq;
            if let Some(job) = event.job {
                self.stories.entry(job).or_default().push(event.kind);
            }
        }
        for job in &self.reference.jobs {
            let id = job.spec.id;
            let told = self.stories.get(&id).cloned().unwrap_or_default();
            agree(&format!("story of job {}", id.as_u128()), &told, &job.story)?;
        }
        Ok(())
    }
}

/// The store and the reference say the same.
pub fn agree<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: &T,
    expected: &T,
) -> Result<Answer, String> {
    if got == expected {
        return Ok(format!("{got:?}"));
    }
    Err(format!("{what}: the store says {got:?}, the reference {expected:?}"))
}
