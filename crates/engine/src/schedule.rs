//! Jobs by the clock: what a user writes to define a schedule, and the service that fires them. Every engine
//! fires for everybody; the store sees to it that each firing is submitted once.

use runcue_core::{Missed, Overlap, ScheduleName, ScheduleSpec, Timestamp};
use runcue_store::{Fired, Result as StoreResult, ScheduleInfo};
use tokio_util::sync::CancellationToken;

use crate::cue::Cue;
use crate::dispatch::earliest;
use crate::error::Result;
use crate::new_job::NewJob;
use crate::shared::{Shared, backoff};

/// A schedule to be defined.
#[derive(Clone, Debug)]
pub struct Schedule {
    name: String,
    cron: String,
    zone: String,
    job: NewJob,
    missed: Missed,
    overlap: Overlap,
    paused: bool,
}

impl Schedule {
    /// A job that is submitted whenever a cron expression says so, such as `0 3 * * *`: minute, hour, day of
    /// month, month, day of week; a field for seconds may stand in front. In UTC, unless told otherwise.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: NewJob) -> Self {
        Self {
            name: name.into(),
            cron: cron.into(),
            zone: "UTC".to_owned(),
            job,
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: false,
        }
    }

    /// The time zone the expression is read in, by its IANA name, such as `Europe/Berlin`.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// What becomes of firings that nobody was there for (they are skipped).
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What happens while the job of the firing before is not finished (another is submitted).
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Whether it does not fire for now.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }
}

impl Cue {
    /// Defines a schedule, or changes it. The same definition again changes nothing.
    pub async fn schedule(&self, schedule: Schedule) -> Result<()> {
        let name = ScheduleName::new(schedule.name)?;
        let job = self.spec_of(schedule.job).await?;
        let spec = ScheduleSpec {
            zone: schedule.zone,
            missed: schedule.missed,
            overlap: schedule.overlap,
            paused: schedule.paused,
            ..ScheduleSpec::new(name, schedule.cron, job)
        };
        self.define_schedules(vec![spec]).await
    }

    /// Deletes a schedule; its jobs stay. Answers whether there was one.
    pub async fn remove_schedule(&self, name: &str) -> Result<bool> {
        let (shared, name) = (self.shared(), ScheduleName::new(name)?);
        Ok(shared.ask(shared.store.remove_schedule(shared.clock.now(), name)).await?)
    }

    /// Every schedule with its next firing.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        Ok(self.shared().ask(self.shared().store.schedules()).await?)
    }

    /// Fires what is due, now instead of soon.
    pub async fn fire(&self) -> Result<Fired> {
        Ok(run_once(self.shared(), self.shared().clock.now()).await?)
    }

    async fn define_schedules(&self, schedules: Vec<ScheduleSpec>) -> Result<()> {
        let shared = self.shared();
        shared.ask(shared.store.upsert_schedules(shared.clock.now(), schedules)).await?;
        shared.look_at_schedules.notify_one();
        Ok(())
    }
}

/// Fires what is due now.
pub(crate) async fn run_once(shared: &Shared, now: Timestamp) -> StoreResult<Fired> {
    let fired = shared.ask(shared.store.fire(now)).await?;
    for firing in &fired.jobs {
        tracing::info!(schedule = %firing.schedule, work_unit_id = %firing.job, "schedule_fired");
    }
    for left_out in &fired.left_out {
        tracing::warn!(schedule = %left_out.schedule, at = %left_out.at, why = left_out.why, "schedule_left_out");
    }
    Ok(fired)
}

/// Does that when the next firing comes, and every so often, because others define schedules too.
pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
    let mut failures = 0;
    loop {
        let now = shared.clock.now();
        let wake = match run_once(shared, now).await {
            Ok(fired) => {
                failures = 0;
                earliest(fired.wake, Some(now.plus(shared.settings.reap_every)))
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, failures, "schedules could not be fired");
                Some(now.plus(backoff(failures)))
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.look_at_schedules.notified() => {}
            () = shared.sleep_until(wake) => {}
        }
    }
}
