//! Schedules in the reference: every so many seconds, found by counting through the instants.

use std::time::Duration;

use runcue_core::{JobId, JobSpec, Missed, Overlap, ScheduleName, ScheduleSpec, Timestamp, Use};

use super::compare::agree;
use super::history::Tick;
use super::play::{Answer, Play};
use super::reference::Reference;
use crate::scene::{attempts, group, id, service, task};

/// A firing that is no later than this is on time.
const GRACE: Duration = Duration::from_secs(60);

/// A schedule and what became of it.
#[derive(Clone, Debug)]
pub struct Schedule {
    spec: ScheduleSpec,
    every: u64,
    next: Option<Timestamp>,
    last: Option<(Timestamp, JobId)>,
    fired: u64,
}

fn name(n: u8) -> ScheduleName {
    ScheduleName::new(["often", "seldom"][usize::from(n)]).unwrap()
}

fn spec(tick: Tick) -> ScheduleSpec {
    let used = tick.uses.then(|| Use { service: service("api"), units: 1 });
    let job = JobSpec {
        group: [None, Some("a")][usize::from(tick.n)].map(group),
        services: used.into_iter().collect(),
        // Without jitter, which nobody could foresee.
        retry: attempts(2),
        ..JobSpec::new(id(0), task("build"))
    };
    ScheduleSpec {
        missed: [Missed::Skip, Missed::Once, Missed::All][usize::from(tick.missed)],
        overlap: if tick.overlaps { Overlap::Allow } else { Overlap::Skip },
        paused: tick.paused,
        ..ScheduleSpec::new(name(tick.n), format!("*/{} * * * * *", tick.every), job)
    }
}

/// The instants after one, up to another: whole multiples of so many seconds.
fn instants(every: u64, after: Timestamp) -> impl Iterator<Item = Timestamp> {
    let step = i64::try_from(every).unwrap() * 1_000_000;
    let first = after.as_micros().div_euclid(step) + 1;
    (first..).map(move |n| Timestamp::from_micros(n * step))
}

fn next(every: u64, after: Timestamp) -> Option<Timestamp> {
    instants(every, after).next()
}

impl Reference {
    fn schedule(&mut self, tick: Tick) {
        let (new, every, now) = (spec(tick), tick.every, self.now);
        let first = if new.paused { None } else { next(every, now) };
        let fresh = Schedule { spec: new.clone(), every, next: first, last: None, fired: 0 };
        let known = self.schedules.entry(name(tick.n)).or_insert_with(|| fresh.clone());
        if known.every != every || known.spec.paused != new.paused {
            known.next = first;
        }
        (known.spec, known.every) = (new, every);
    }

    /// Submits what is due, the earliest schedule first. Answers how many jobs that were.
    pub fn fire(&mut self) -> usize {
        let now = self.now;
        let mut due: Vec<(Timestamp, ScheduleName)> = self
            .schedules
            .iter()
            .filter_map(|(name, schedule)| {
                Some((schedule.next.filter(|at| *at <= now)?, name.clone()))
            })
            .collect();
        due.sort();
        let before = self.jobs.len();
        for (first, name) in due {
            let mut schedule = self.schedules[&name].clone();
            let just_before = Timestamp::from_micros(first.as_micros() - 1);
            let missed = instants(schedule.every, just_before).take_while(|at| *at <= now);
            let mut missed: Vec<Timestamp> = missed.collect();
            let last = *missed.last().unwrap();
            match schedule.spec.missed {
                Missed::All => {}
                Missed::Skip if now.since(last) > GRACE => missed.clear(),
                Missed::Skip | Missed::Once => missed = vec![last],
            }
            for at in missed {
                self.fire_at(&mut schedule, at);
            }
            schedule.next = next(schedule.every, now);
            self.schedules.insert(name, schedule);
        }
        self.jobs.len() - before
    }

    fn fire_at(&mut self, schedule: &mut Schedule, at: Timestamp) {
        let is_live = |id: JobId| self.find(id).is_some_and(|n| !self.jobs[n].state.is_final());
        let waits = schedule.last.is_some_and(|(_, job)| is_live(job));
        if schedule.spec.overlap == Overlap::Skip && waits {
            return;
        }
        let job = schedule.spec.job_at(at);
        schedule.last = Some((at, job.id));
        if self.find(job.id).is_none() {
            schedule.fired += 1;
            self.accept(job);
        }
    }
}

impl Play {
    pub(super) async fn schedule(&mut self, tick: Tick) -> Answer {
        self.reference.schedule(tick);
        self.store.upsert_schedules(self.now(), vec![spec(tick)]).await.unwrap();
        String::new()
    }

    pub(super) async fn unschedule(&mut self, n: u8) -> Result<Answer, String> {
        let expected = self.reference.schedules.remove(&name(n)).is_some();
        let answer = self.store.remove_schedule(self.now(), name(n)).await.unwrap();
        agree("removed", &answer, &expected)
    }

    pub(super) async fn fire(&mut self) -> Result<Answer, String> {
        let expected = self.reference.fire();
        let fired = self.store.fire(self.now()).await.unwrap();
        let wake = self.reference.schedules.values().filter_map(|schedule| schedule.next).min();
        agree("fired", &(fired.jobs.len(), fired.wake), &(expected, wake))
    }

    pub(super) async fn compare_schedules(&self) -> Result<(), String> {
        let found = self.store.schedules().await.unwrap();
        let shown = found.into_iter().map(|info| {
            let last = info.last_at.zip(info.last_job);
            (info.spec.name.clone(), info.spec, info.next_at, last, info.fired)
        });
        let expected = self.reference.schedules.iter().map(|(name, known)| {
            (name.clone(), known.spec.clone(), known.next, known.last, known.fired)
        });
        agree("schedules", &shown.collect::<Vec<_>>(), &expected.collect::<Vec<_>>()).map(drop)
    }
}
