//! fire: submits what schedules ask for when their time has come. And their definitions. A firing is
//! submitted and its schedule moved on in one transaction, so however many daemons look, each firing is
//! submitted once; should a clock be set back, its job's id is known already.

use super::*;
use crate::reply::{Fired, Firing, LeftOut, ScheduleInfo};
use crate::request::SubmitBatch;
use runcue_core::{Overlap, ScheduleName, ScheduleSpec};

impl<T: Tables> Machine<T> {
    /// Defines schedules, all or none.
    pub fn upsert_schedules(&mut self, now: Timestamp, schedules: Vec<ScheduleSpec>) -> Result<()> {
        let mut checked = Vec::with_capacity(schedules.len());
        for (index, spec) in schedules.into_iter().enumerate() {
            let timetable = spec
                .check()
                .map_err(|why| StoreError::BadSchedule { name: spec.name.clone(), why })?;
            self.check_services(index, &spec.job)?;
            checked.push((spec, timetable));
        }
        for (spec, timetable) in checked {
            let known = self.tables.schedule(&spec.name)?;
            if known.as_ref().is_some_and(|known| known.spec == spec) {
                continue;
            }
            let next = |spec: &ScheduleSpec| {
                if spec.paused { None } else { timetable.next_after(now) }
            };
            let schedule = match known {
                Some(known) if known.spec.fires_like(&spec) => ScheduleInfo { spec, ..known },
                Some(known) => ScheduleInfo { next_at: next(&spec), spec, ..known },
                None => ScheduleInfo {
                    next_at: next(&spec),
                    spec,
                    last_at: None,
                    last_job: None,
                    fired: 0,
                    last_error: None,
                },
            };
            self.put_schedule(&schedule)?;
        }
        Ok(())
    }

    /// Deletes a schedule.
    pub fn remove_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        let removed = self.tables.drop_schedule(name)?;
        self.news.any |= removed;
        self.firing = None;
        Ok(removed)
    }

    /// Fires what is due.
    pub fn fire(&mut self, now: Timestamp) -> Result<Fired> {
        let mut fired = Fired::default();
        if self.next_firing()?.is_some_and(|at| at <= now) {
            for schedule in self.tables.due_schedules(now)? {
                self.fire_one(now, schedule, &mut fired)?;
            }
        }
        fired.wake = self.next_firing()?;
        Ok(fired)
    }

    fn fire_one(
        &mut self,
        now: Timestamp,
        mut schedule: ScheduleInfo,
        fired: &mut Fired,
    ) -> Result<()> {
        let Some(next) = schedule.next_at else { return Ok(()) };
        let timetable = match schedule.spec.timetable() {
            Ok(timetable) => timetable,
            Err(error) => {
                // Written by a version that knows more. It is left alone until somebody defines it anew.
                schedule.next_at = None;
                leave_out(&mut schedule, next, error.to_string(), fired);
                return self.put_schedule(&schedule);
            }
        };
        let due = schedule.spec.due(&timetable, next, now);
        if due.is_empty() {
            leave_out(&mut schedule, next, "nobody was there when it was due".to_owned(), fired);
        }
        for at in due {
            self.submit_firing(now, at, &mut schedule, fired)?;
        }
        schedule.next_at = timetable.next_after(now);
        self.put_schedule(&schedule)
    }

    fn submit_firing(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        schedule: &mut ScheduleInfo,
        fired: &mut Fired,
    ) -> Result<()> {
        if schedule.spec.overlap == Overlap::Skip && self.is_live(schedule.last_job)? {
            let why = "the job of the firing before is not finished".to_owned();
            leave_out(schedule, at, why, fired);
            return Ok(());
        }
        match self.submit(now, SubmitBatch::of(vec![schedule.spec.job_at(at)])) {
            Ok(submitted) => {
                let Some(job) = submitted.first().map(|one| one.id()) else { return Ok(()) };
                schedule.last_at = Some(at);
                schedule.last_job = Some(job);
                schedule.last_error = None;
                if submitted[0] == crate::Submitted::New(job) {
                    schedule.fired += 1;
                    fired.jobs.push(Firing { schedule: schedule.spec.name.clone(), at, job });
                }
                Ok(())
            }
            // A full queue, a service that is gone: the schedule goes on, and says so.
            Err(error) if error.is_refusal() => {
                leave_out(schedule, at, error.to_string(), fired);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Schedules that wait for longer than their timetable says: a clock was far ahead when they fired.
    pub(super) fn odd_schedules(&mut self, now: Timestamp) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        for ScheduleInfo { spec, next_at, .. } in self.tables.schedules()? {
            let name = &spec.name;
            match spec.timetable() {
                Err(error) => findings.push(format!("schedule {name}: {error}")),
                Ok(timetable) if !spec.paused && next_at > timetable.next_after(now) => {
                    findings.push(format!(
                        "schedule {name} waits for a firing after its next one, because a clock was ahead; \
                         pause and resume it"
                    ));
                }
                Ok(_) => {}
            }
        }
        Ok(findings)
    }

    fn is_live(&mut self, job: Option<JobId>) -> Result<bool> {
        let Some(id) = job else { return Ok(false) };
        Ok(self.load(id)?.is_some_and(|job| !job.life.state.word().is_final()))
    }

    fn next_firing(&mut self) -> Result<Option<Timestamp>> {
        if let Some(known) = self.firing {
            return Ok(known);
        }
        let next = self.tables.next_firing()?;
        self.firing = Some(next);
        Ok(next)
    }

    fn put_schedule(&mut self, schedule: &ScheduleInfo) -> Result<()> {
        self.news.any = true;
        self.firing = None;
        self.tables.put_schedule(schedule)
    }
}

fn leave_out(schedule: &mut ScheduleInfo, at: Timestamp, why: String, fired: &mut Fired) {
    schedule.last_error = Some(why.clone());
    fired.left_out.push(LeftOut { schedule: schedule.spec.name.clone(), at, why });
}
