//! Which firings are due, and which jobs they are.

use std::time::Duration;

use runcue_core::schedule::{BadSchedule, MOST_MISSED};
use runcue_core::{
    JobId, JobSpec, Missed, ScheduleName, ScheduleSpec, TaskName, Timestamp, TraceParent,
};

const HOUR: Duration = Duration::from_secs(3600);
const NOON: Timestamp = Timestamp::from_millis(1_700_049_600_000);

fn hourly(missed: Missed) -> ScheduleSpec {
    let job = JobSpec::new(JobId::from_u128(7), TaskName::new("work").unwrap());
    let name = ScheduleName::new("nightly").unwrap();
    ScheduleSpec { missed, ..ScheduleSpec::new(name, "0 * * * *", job) }
}

fn due(missed: Missed, late: Duration) -> Vec<Timestamp> {
    let spec = hourly(missed);
    spec.due(&spec.timetable().unwrap(), NOON, NOON.plus(late))
}

#[test]
fn a_firing_on_time_is_due_whatever_the_policy() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        assert_eq!(due(missed, Duration::ZERO), [NOON]);
        assert_eq!(due(missed, Duration::from_secs(60)), [NOON]);
    }
}

#[test]
fn missed_firings_are_skipped_made_up_for_once_or_all() {
    let late = HOUR * 2 + Duration::from_secs(61);
    assert_eq!(due(Missed::Skip, late), []);
    assert_eq!(due(Missed::Once, late), [NOON.plus(HOUR * 2)]);
    assert_eq!(due(Missed::All, late), [NOON, NOON.plus(HOUR), NOON.plus(HOUR * 2)]);
    assert_eq!(due(Missed::Skip, HOUR * 2), [NOON.plus(HOUR * 2)], "the latest is on time");
}

#[test]
fn years_of_missed_firings_are_bounded_and_the_latest_are_kept() {
    let late = HOUR * 24 * 365 * 10;
    let all = due(Missed::All, late);
    assert_eq!(all.len(), MOST_MISSED);
    assert_eq!(all.last(), Some(&NOON.plus(late)));
    assert!(all.windows(2).all(|pair| pair[1].since(pair[0]) == HOUR));
    assert_eq!(due(Missed::Once, late), [NOON.plus(late)]);
}

#[test]
fn the_job_of_a_firing_is_the_same_for_everybody_and_no_two_are_alike() {
    let spec = hourly(Missed::Skip);
    let job = spec.job_at(NOON);
    assert_eq!(job, spec.clone().job_at(NOON));
    assert_eq!(job.run_at, Some(NOON));
    assert_ne!(job.id, spec.job_at(NOON.plus(HOUR)).id);
    let other = ScheduleSpec { name: ScheduleName::new("weekly").unwrap(), ..spec };
    assert_ne!(job.id, other.job_at(NOON).id);
    // Stored queues hold these: a change could fire a tick twice.
    assert_eq!(job.id.to_string(), "018bd2da3e0071bca1c9b254eb954b7a");
}

#[test]
fn what_would_be_the_same_for_every_firing_is_refused() {
    let refuse = |job: JobSpec| ScheduleSpec { job, ..hourly(Missed::Skip) }.check().unwrap_err();
    let job = hourly(Missed::Skip).job;
    let jobs = [
        JobSpec { run_at: Some(NOON), ..job.clone() },
        JobSpec { expires_at: Some(NOON), ..job.clone() },
        JobSpec { idempotency_key: Some("k".into()), ..job.clone() },
        JobSpec { depends_on: vec![JobId::from_u128(1)], ..job.clone() },
        JobSpec { traceparent: TraceParent::new(1, 1, true), ..job.clone() },
    ];
    for job in jobs {
        assert!(matches!(refuse(job), BadSchedule::Field { .. }));
    }
    let bad = ScheduleSpec { cron: "sometimes".into(), ..hourly(Missed::Skip) };
    assert!(matches!(bad.check(), Err(BadSchedule::Timetable(_))));
}
