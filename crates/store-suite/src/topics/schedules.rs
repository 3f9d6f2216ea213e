//! Schedules: jobs by the clock, one per firing, however many look.

use std::collections::BTreeSet;
use std::time::Duration;

use runcue_core::{
    JobId, JobSpec, Missed, OnFull, Overlap, QueueSpec, ScheduleName, ScheduleSpec, StateWord,
    Timestamp,
};
use runcue_store::{Fired, ListRequest, ScheduleInfo, StoreError};

use crate::Maker;
use crate::scene::*;

/// Tests begin at 22:13:20 UTC; the next full minute is 40 seconds later.
const MINUTE: Timestamp = Timestamp::from_millis(1_700_000_040_000);
/// And the next full hour.
const HOUR: Timestamp = Timestamp::from_millis(1_700_002_800_000);

fn name(name: &str) -> ScheduleName {
    ScheduleName::new(name).unwrap()
}

fn schedule(called: &str, cron: &str) -> ScheduleSpec {
    ScheduleSpec::new(name(called), cron, job(0))
}

async fn define(s: &Scene, schedules: impl IntoIterator<Item = ScheduleSpec>) {
    s.store.upsert_schedules(s.now, schedules.into_iter().collect()).await.unwrap();
}

async fn fire(s: &Scene) -> Fired {
    s.store.fire(s.now).await.unwrap()
}

/// The instants that were submitted.
async fn fired(s: &Scene) -> Vec<Timestamp> {
    fire(s).await.jobs.iter().map(|firing| firing.at).collect()
}

async fn info(s: &Scene, called: &str) -> ScheduleInfo {
    let all = s.store.schedules().await.unwrap();
    all.into_iter().find(|info| info.spec.name == name(called)).expect("it is defined")
}

async fn jobs(s: &Scene) -> Vec<JobId> {
    let page = s.store.list(ListRequest { limit: 100_000, ..ListRequest::default() }).await;
    page.unwrap().rows.iter().map(runcue_core::Job::id).collect()
}

/// Not a microsecond early, and with the job as it was defined.
pub async fn a_schedule_fires_at_its_instants_and_never_early(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let template = JobSpec { priority: 7, ..job_of(0, "nightly") };
    define(&s, [ScheduleSpec::new(name("tick"), "* * * * *", template)]).await;
    s.now = Timestamp::from_micros(MINUTE.as_micros() - 1);
    assert_eq!(fire(&s).await, Fired { wake: Some(MINUTE), ..Fired::default() });
    s.now = MINUTE;
    let answer = fire(&s).await;
    assert_eq!(answer.wake, Some(MINUTE.plus(secs(60))));
    let [firing] = &answer.jobs[..] else { panic!("{answer:?}") };
    assert_eq!((&firing.schedule, firing.at), (&name("tick"), MINUTE));
    let found = s.store.get(vec![firing.job]).await.unwrap().remove(0).expect("it was submitted");
    assert_eq!(found.spec.run_at, Some(MINUTE));
    assert_eq!((found.spec.priority, found.spec.group.clone()), (7, Some(group("nightly"))));
    let info = info(&s, "tick").await;
    assert_eq!((info.fired, info.last_at, info.last_job), (1, Some(MINUTE), Some(firing.job)));
    assert_eq!(info.next_at, Some(MINUTE.plus(secs(60))));
    let lease = s.claim(9).await.pop().expect("it can be claimed");
    assert_eq!(lease.job, firing.job);
    s.check().await;
}

/// A worker that only claims is told when to come back, and finds the job then.
pub async fn the_wake_hint_knows_the_next_firing(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    for n in 0..3 {
        let claimed = s.store.claim(s.now, s.request(9)).await.unwrap();
        assert_eq!(claimed.jobs.len(), usize::from(n > 0));
        assert_eq!(claimed.wake, Some(MINUTE.plus(secs(60 * n))));
        s.now = MINUTE.plus(secs(60 * n));
    }
}

/// Looking again changes nothing.
pub async fn a_firing_is_submitted_once_however_often_it_is_looked_for(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await, [MINUTE]);
    for _ in 0..5 {
        assert_eq!(fired(&s).await, []);
        s.wait(1);
    }
    define(&s, [schedule("tick", "* * * * *")]).await;
    assert_eq!(fired(&s).await, []);
    assert_eq!(jobs(&s).await.len(), 1);
}

/// Skipped, made up for once, or each.
pub async fn missed_firings_follow_the_policy(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let of = |missed, called| ScheduleSpec { missed, ..schedule(called, "0 * * * *") };
    define(&s, [of(Missed::Skip, "s"), of(Missed::Once, "o"), of(Missed::All, "a")]).await;
    s.now = HOUR.plus(secs(2 * 3600 + 600));
    let answer = fire(&s).await;
    let of = |called: &str| -> Vec<Timestamp> {
        let of = answer.jobs.iter().filter(|firing| firing.schedule == name(called));
        of.map(|firing| firing.at).collect()
    };
    let hours = |n: u64| HOUR.plus(secs(n * 3600));
    assert_eq!(of("s"), []);
    assert_eq!(of("o"), [hours(2)]);
    assert_eq!(of("a"), [hours(0), hours(1), hours(2)]);
    assert_eq!(answer.left_out.len(), 1, "{answer:?}");
    assert!(info(&s, "s").await.last_error.is_some());
    s.now = hours(3);
    assert_eq!(fired(&s).await, [hours(3); 3]);
    assert_eq!(info(&s, "s").await.last_error, None);
}

/// A week of missed seconds is a thousand jobs and no more.
pub async fn missed_firings_are_bounded(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let missed = Missed::All;
    define(&s, [ScheduleSpec { missed, ..schedule("second", "* * * * * *") }]).await;
    s.wait(7 * 24 * 3600);
    let all = fired(&s).await;
    assert_eq!(all.len(), runcue_core::schedule::MOST_MISSED);
    assert_eq!(all.last(), Some(&s.now));
    assert_eq!(fired(&s).await, []);
}

/// With `overlap: skip` there is never more than one.
pub async fn a_firing_while_the_last_job_lives_can_be_left_out(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let overlap = Overlap::Skip;
    define(&s, [ScheduleSpec { overlap, ..schedule("tick", "* * * * *") }]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await, [MINUTE]);
    s.now = MINUTE.plus(secs(60));
    let answer = fire(&s).await;
    assert_eq!((answer.jobs.len(), answer.left_out.len()), (0, 1));
    assert!(answer.left_out[0].why.contains("not finished"), "{answer:?}");
    let lease = s.claim(9).await.pop().expect("the first one");
    s.now = MINUTE.plus(secs(90));
    assert_eq!(fired(&s).await, []);
    s.done(&lease).await;
    s.now = MINUTE.plus(secs(120));
    assert_eq!(fired(&s).await, [s.now]);
}

/// What came while it was paused was not wanted and is not made up for.
pub async fn a_paused_schedule_does_not_fire_and_resumes_with_its_next(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let spec = ScheduleSpec { missed: Missed::All, ..schedule("tick", "* * * * *") };
    define(&s, [spec.clone()]).await;
    define(&s, [ScheduleSpec { paused: true, ..spec.clone() }]).await;
    assert_eq!(info(&s, "tick").await.next_at, None);
    s.now = MINUTE.plus(secs(600));
    assert_eq!(fire(&s).await, Fired::default());
    define(&s, [spec]).await;
    assert_eq!(fired(&s).await, []);
    s.wait(60);
    assert_eq!(fired(&s).await, [MINUTE.plus(secs(660))]);
}

/// A new job does not move the next firing, not even one that is due.
pub async fn a_change_of_the_job_keeps_the_next_firing(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.now = MINUTE.plus(secs(5));
    let template = JobSpec { priority: 3, ..job(0) };
    define(&s, [ScheduleSpec::new(name("tick"), "* * * * *", template)]).await;
    let answer = fire(&s).await;
    assert_eq!(answer.jobs[0].at, MINUTE);
    let found = s.store.get(vec![answer.jobs[0].job]).await.unwrap().remove(0);
    assert_eq!(found.expect("it was submitted").spec.priority, 3);
}

/// Another expression or zone counts from now.
pub async fn a_change_of_the_time_moves_the_next_firing(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "0 12 * * *")]).await;
    let noon = info(&s, "tick").await.next_at.expect("it fires");
    let zone = "Asia/Tokyo".to_owned();
    define(&s, [ScheduleSpec { zone, ..schedule("tick", "0 12 * * *") }]).await;
    assert_eq!(info(&s, "tick").await.next_at, Some(noon.minus(secs(9 * 3600))));
    define(&s, [schedule("tick", "* * * * *")]).await;
    assert_eq!(info(&s, "tick").await.next_at, Some(MINUTE));
    s.now = MINUTE;
    assert_eq!(fired(&s).await, [MINUTE]);
}

/// Removing it withdraws nothing.
pub async fn a_removed_schedule_is_gone_and_its_jobs_stay(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("a", "* * * * *"), schedule("b", "* * * * *")]).await;
    let names: Vec<ScheduleName> =
        s.store.schedules().await.unwrap().into_iter().map(|info| info.spec.name).collect();
    assert_eq!(names, [name("a"), name("b")]);
    s.now = MINUTE;
    assert_eq!(fired(&s).await.len(), 2);
    assert!(s.store.remove_schedule(s.now, name("a")).await.unwrap());
    assert!(!s.store.remove_schedule(s.now, name("a")).await.unwrap());
    s.wait(60);
    assert_eq!(fired(&s).await.len(), 1);
    assert!(s.store.remove_schedule(s.now, name("b")).await.unwrap());
    assert_eq!(s.store.schedules().await.unwrap(), []);
    assert_eq!(fire(&s).await, Fired::default());
    assert_eq!(jobs(&s).await.len(), 3);
}

/// One bad schedule refuses the whole definition, with its name and the fix.
pub async fn a_schedule_that_cannot_be_is_refused_with_all_others(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let bad = [
        schedule("bad", "often"),
        schedule("bad", "0 0 30 2 *"),
        ScheduleSpec { zone: "Atlantis".into(), ..schedule("bad", "* * * * *") },
        ScheduleSpec {
            job: JobSpec { idempotency_key: Some("k".into()), ..job(0) },
            ..schedule("bad", "* * * * *")
        },
    ];
    for bad in bad {
        let both = vec![schedule("good", "* * * * *"), bad];
        let error = s.store.upsert_schedules(s.now, both).await.unwrap_err();
        assert!(matches!(&error, StoreError::BadSchedule { .. }), "{error:?}");
        assert!(error.to_string().starts_with("schedule bad: "), "{error}");
    }
    let unknown = ScheduleSpec { job: job_using(0, &["api"]), ..schedule("bad", "* * * * *") };
    let error = s.store.upsert_schedules(s.now, vec![unknown]).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownService { .. }), "{error:?}");
    assert_eq!(s.store.schedules().await.unwrap(), []);
}

/// A full queue takes nothing; the schedule tries again at its next instant, not before.
pub async fn a_firing_that_is_refused_is_told_and_the_schedule_goes_on(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let spec =
        QueueSpec { name: queue("q"), max_queued: Some(1), on_full: OnFull::Reject, paused: false };
    s.store.upsert_queues(s.now, vec![spec]).await.unwrap();
    let template = JobSpec { queue: queue("q"), ..job(0) };
    let other = schedule("other", "* * * * *");
    define(&s, [ScheduleSpec::new(name("tick"), "* * * * *", template), other]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await.len(), 2);
    s.wait(60);
    let answer = fire(&s).await;
    assert_eq!((answer.jobs.len(), answer.left_out.len()), (1, 1), "the other one is not held up");
    assert!(answer.left_out[0].why.contains("full"), "{answer:?}");
    assert!(info(&s, "tick").await.last_error.expect("it is told").contains("full"));
    assert_eq!(fired(&s).await, []);
    assert_eq!(s.claim(9).await.len(), 3);
    s.wait(60);
    assert_eq!(fired(&s).await.len(), 2);
    assert_eq!(info(&s, "tick").await.last_error, None);
}

/// Not even if somebody defines it anew meanwhile.
pub async fn a_clock_set_back_fires_nothing_twice(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await, [MINUTE]);
    s.now = BEGINNING;
    assert_eq!(fired(&s).await, []);
    assert!(s.store.remove_schedule(s.now, name("tick")).await.unwrap());
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await, []);
    assert_eq!(jobs(&s).await.len(), 1);
    s.wait(60);
    assert_eq!(fired(&s).await, [s.now]);
}

/// The check says so, and a pause and a resume set it right.
pub async fn a_schedule_that_a_fast_clock_fired_is_found(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.now = MINUTE.plus(secs(365 * 24 * 3600));
    assert_eq!(fired(&s).await, [s.now]);
    s.now = MINUTE;
    let findings = s.store.check(s.now).await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("tick") && findings[0].contains("resume"), "{findings:?}");
    define(&s, [ScheduleSpec { paused: true, ..schedule("tick", "* * * * *") }]).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    s.check().await;
    s.wait(60);
    assert_eq!(fired(&s).await, [s.now]);
}

/// In one step, and each has its job.
pub async fn thousands_of_schedules_fire_together(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, (0..2_000).map(|n| schedule(&format!("s{n}"), "* * * * *"))).await;
    s.now = MINUTE;
    let answer = fire(&s).await;
    let ids: BTreeSet<JobId> = answer.jobs.iter().map(|firing| firing.job).collect();
    assert_eq!(ids.len(), 2_000);
    assert_eq!(s.claim(3_000).await.len(), 2_000);
    s.check().await;
}

/// Noon in New York stays noon there.
pub async fn zones_are_kept_across_a_change_of_the_clock(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    // 2024-03-09 17:00 UTC is noon there; the clock goes forward the night after.
    let noon = Timestamp::from_millis(1_710_003_600_000);
    s.now = noon.minus(secs(3600));
    let zone = "America/New_York".to_owned();
    define(&s, [ScheduleSpec { zone, ..schedule("lunch", "0 12 * * *") }]).await;
    let mut found = Vec::new();
    for _ in 0..3 {
        s.now = info(&s, "lunch").await.next_at.expect("it fires");
        found.extend(fired(&s).await);
    }
    let later = |hours: u64| noon.plus(secs(hours * 3600));
    assert_eq!(found, [noon, later(23), later(47)]);
}

/// Everything of it.
pub async fn schedules_survive_a_restart(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let zone = "Europe/Berlin".to_owned();
    define(&s, [ScheduleSpec { zone, ..schedule("tick", "* * * * *") }]).await;
    s.now = MINUTE;
    assert_eq!(fired(&s).await, [MINUTE]);
    let before = s.store.schedules().await.unwrap();
    s = s.reopened(&maker).await;
    assert_eq!(s.store.schedules().await.unwrap(), before);
    assert_eq!(fired(&s).await, []);
    s.wait(60);
    s = s.reopened(&maker).await;
    assert_eq!(fired(&s).await, [MINUTE.plus(secs(60))]);
}

/// Whoever comes first.
pub async fn two_handles_fire_each_tick_once(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let mut other = s.beside(&maker).await;
    define(&s, [schedule("tick", "* * * * *")]).await;
    for n in 0..10 {
        s.now = MINUTE.plus(secs(60 * n));
        other.now = s.now.plus(Duration::from_millis(3));
        let (first, second) = if n % 3 == 0 { (&other, &s) } else { (&s, &other) };
        assert_eq!(fired(first).await, [MINUTE.plus(secs(60 * n))]);
        assert_eq!(fired(second).await, []);
    }
    assert_eq!(jobs(&s).await.len(), 10);
    assert_eq!(info(&s, "tick").await, info(&other, "tick").await);
}

/// Many look at once on two handles, and the handles go away without saying goodbye: each tick has one job.
pub async fn concurrent_fires_submit_each_tick_once_through_restarts(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    define(&s, (0..3).map(|n| schedule(&format!("s{n}"), "* * * * *"))).await;
    let mut all = BTreeSet::new();
    for n in 0..8 {
        let other = s.beside(&maker).await;
        let now = MINUTE.plus(secs(60 * n));
        let mut hands = Vec::new();
        for hand in 0..6 {
            let store = if hand % 2 == 0 { &s } else { &other }.store.clone();
            hands.push(tokio::spawn(async move {
                let fired = store.fire(now).await.unwrap();
                // Its claims fire too.
                let request = runcue_store::ClaimRequest::new(worker(hand + 1), 9);
                store.claim(now, request).await.unwrap();
                fired.jobs
            }));
        }
        for hand in hands {
            for firing in hand.await.unwrap() {
                assert!(all.insert(firing.job), "{firing:?} was submitted twice");
            }
        }
        s.now = now;
        drop(other);
        s = s.reopened(&maker).await;
    }
    let info = s.store.schedules().await.unwrap();
    assert_eq!(info.iter().map(|info| info.fired).collect::<Vec<_>>(), [8, 8, 8]);
    let there = jobs(&s).await;
    assert_eq!(there.len(), 24);
    let found = s.store.get(there).await.unwrap();
    let running = |word: StateWord| word == StateWord::Running;
    assert!(found.iter().flatten().all(|job| running(job.life.state.word())), "each claimed once");
}

/// A pause, a removal and a new schedule hold for the other process at once.
pub async fn a_change_reaches_the_other_handle(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let mut other = s.beside(&maker).await;
    assert_eq!(fire(&other).await, Fired::default());
    define(&s, [schedule("tick", "* * * * *")]).await;
    assert_eq!(fire(&other).await.wake, Some(MINUTE));
    define(&s, [ScheduleSpec { paused: true, ..schedule("tick", "* * * * *") }]).await;
    (s.now, other.now) = (MINUTE, MINUTE);
    assert_eq!(fire(&other).await, Fired::default());
    define(&s, [schedule("tick", "* * * * *")]).await;
    assert_eq!(fire(&other).await.wake, Some(MINUTE.plus(secs(60))));
    assert!(s.store.remove_schedule(s.now, name("tick")).await.unwrap());
    assert_eq!(fire(&other).await.wake, None);
}
