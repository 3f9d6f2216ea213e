//! The figures of the last hour, for the charts: how many jobs came, began and ended, how long they waited and
//! ran. Made from the events that pass; a hub that starts reads the latest ones again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use runcue_core::{Event, EventKind, JobId, Timestamp};
use runcue_store::Stats;
use serde::Serialize;

use crate::openapi::{Described, Schema, count, instant, list_of, must, named, object, seconds};

/// Seconds of one point.
pub const STEP: i64 = 10;
/// Points that are kept.
const POINTS: usize = 360;
/// Jobs whose submission is remembered until they begin.
const WAITING: usize = 200_000;
/// Exponents of two, each in four parts: spans from a microsecond to hours within a fifth.
const BUCKETS: usize = 160;

/// A rough distribution of spans.
#[derive(Clone, Debug)]
struct Spans {
    buckets: Box<[u32; BUCKETS]>,
    count: u64,
}

impl Default for Spans {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Spans {
    fn add(&mut self, micros: u64) {
        let value = micros.max(1);
        let exponent = value.ilog2() as usize;
        let part = if exponent >= 2 { (value >> (exponent - 2)) as usize & 3 } else { 0 };
        let bucket = (exponent * 4 + part).min(BUCKETS - 1);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
    }

    /// The span in seconds below which this part of all lies.
    fn quantile(&self, part: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += u64::from(*count);
            if below >= wanted {
                let (exponent, part) = (bucket / 4, bucket % 4);
                let low = (1_u64 << exponent) as f64;
                return Some((low + low * (part as f64 + 0.5) / 4.0) / 1e6);
            }
        }
        None
    }
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    step: i64,
    queued: u64,
    running: u64,
    submitted: u64,
    started: u64,
    completed: u64,
    failed: u64,
    waited: Spans,
    ran: Spans,
}

/// One point of the charts.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Where it begins.
    pub at: i64,
    /// Jobs that wait.
    pub queued: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs submitted in it.
    pub submitted: u64,
    /// Attempts begun in it.
    pub started: u64,
    /// Jobs done in it.
    pub completed: u64,
    /// Jobs that failed for good in it.
    pub failed: u64,
    /// Seconds that half of the jobs waited at the most.
    pub wait_p50: Option<f64>,
    /// The same for nineteen of twenty.
    pub wait_p95: Option<f64>,
    /// Seconds that half of the attempts ran at the most.
    pub run_p50: Option<f64>,
    /// The same for nineteen of twenty.
    pub run_p95: Option<f64>,
}

/// The last hour.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesBody {
    /// Seconds of one point.
    pub step: i64,
    /// The points, oldest first.
    pub points: Vec<Point>,
}

impl Described for Point {
    const NAME: &'static str = "Point";

    fn schema() -> Schema {
        object([
            must("at", instant().says("Where it begins.")),
            must("queued", count()),
            must("running", count()),
            must("submitted", count()),
            must("started", count()),
            must("completed", count()),
            must("failed", count()),
            must("wait_p50", seconds().or_null()),
            must("wait_p95", seconds().or_null()),
            must("run_p50", seconds().or_null()),
            must("run_p95", seconds().or_null()),
        ])
    }
}

impl Described for SeriesBody {
    const NAME: &'static str = "Series";

    fn schema() -> Schema {
        let points = list_of(named::<Point>()).says("Oldest first.");
        object([must("step", count().says("Seconds of one point.")), must("points", points)])
    }
}

/// The figures of the last hour.
#[derive(Debug, Default)]
pub struct Series {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    buckets: VecDeque<Bucket>,
    queued_at: HashMap<JobId, Timestamp>,
    last_claim: Option<Timestamp>,
}

impl Inner {
    /// The bucket of an instant; nothing if it is too long ago.
    fn at(&mut self, at: Timestamp) -> Option<&mut Bucket> {
        let step = at.as_millis().div_euclid(STEP * 1_000);
        let last = self.buckets.back().map(|bucket| (bucket.step, bucket.queued, bucket.running));
        match last {
            None => self.buckets.push_back(Bucket { step, ..Bucket::default() }),
            Some((last, queued, running)) if step > last => {
                let first = (last + 1).max(step - POINTS as i64);
                for step in first..=step {
                    self.buckets.push_back(Bucket { step, queued, running, ..Bucket::default() });
                }
            }
            Some(_) => {}
        }
        while self.buckets.len() > POINTS {
            self.buckets.pop_front();
        }
        let first = self.buckets.front()?.step;
        let index = usize::try_from(step - first).ok()?;
        self.buckets.get_mut(index)
    }
}

impl Series {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what happened.
    pub fn add(&self, events: &[Event]) {
        let mut inner = self.inner();
        for event in events {
            one(&mut inner, event);
        }
    }

    /// Takes in how many jobs wait and run now.
    pub fn sample(&self, now: Timestamp, stats: &Stats) {
        let mut inner = self.inner();
        if let Some(bucket) = inner.at(now) {
            bucket.queued = stats.counts.queued;
            bucket.running = stats.counts.leased + stats.counts.running;
        }
    }

    /// When a job was last handed out, as far as this hub has seen.
    pub fn last_claim(&self) -> Option<Timestamp> {
        self.inner().last_claim
    }

    /// The last hour, oldest first.
    pub fn body(&self) -> SeriesBody {
        let inner = self.inner();
        let point = |bucket: &Bucket| Point {
            at: bucket.step * STEP * 1_000,
            queued: bucket.queued,
            running: bucket.running,
            submitted: bucket.submitted,
            started: bucket.started,
            completed: bucket.completed,
            failed: bucket.failed,
            wait_p50: bucket.waited.quantile(0.5),
            wait_p95: bucket.waited.quantile(0.95),
            run_p50: bucket.ran.quantile(0.5),
            run_p95: bucket.ran.quantile(0.95),
        };
        SeriesBody { step: STEP, points: inner.buckets.iter().map(point).collect() }
    }
}

fn one(inner: &mut Inner, event: &Event) {
    match event.kind {
        EventKind::Queued => {
            if let Some(job) = event.job {
                if inner.queued_at.len() >= WAITING {
                    inner.queued_at.clear();
                }
                inner.queued_at.insert(job, event.at);
            }
            if let Some(bucket) = inner.at(event.at) {
                bucket.submitted += 1;
            }
        }
        // Whoever reports nothing but the end of its jobs is not heard of when they begin.
        EventKind::Leased | EventKind::Started => {
            inner.last_claim = inner.last_claim.max(Some(event.at));
            let since = event.job.and_then(|job| inner.queued_at.remove(&job));
            if let Some(bucket) = inner.at(event.at) {
                bucket.started += u64::from(event.kind == EventKind::Started);
                if let Some(since) = since {
                    let micros = event.at.since(since).as_micros();
                    bucket.waited.add(u64::try_from(micros).unwrap_or(u64::MAX));
                }
            }
        }
        EventKind::Completed | EventKind::Failed => {
            if let Some(bucket) = inner.at(event.at) {
                match event.kind {
                    EventKind::Completed => bucket.completed += 1,
                    _ => bucket.failed += 1,
                }
                if let Some(took) = event.took {
                    bucket.ran.add(took);
                }
            }
        }
        EventKind::Cancelled => {
            if let Some(job) = event.job {
                inner.queued_at.remove(&job);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, job: u128, millis: i64) -> Event {
        let at = Timestamp::from_millis(millis);
        Event { job: Some(JobId::from_u128(job)), ..Event::new(kind, at) }
    }

    #[test]
    fn events_become_points_with_waits_and_gaps_between_them() {
        let series = Series::default();
        let mut done = event(EventKind::Completed, 1, 45_000);
        done.took = Some(4_000_000);
        series.add(&[
            event(EventKind::Queued, 1, 1_000),
            event(EventKind::Started, 1, 41_000),
            done,
            event(EventKind::Failed, 2, 45_000),
        ]);
        let points = series.body().points;
        assert_eq!(points.len(), 5, "the steps in which nothing happened are there too");
        assert_eq!((points[0].submitted, points[4].started), (1, 1));
        assert_eq!((points[4].completed, points[4].failed), (1, 1));
        let wait = points[4].wait_p50.unwrap();
        assert!((32.0..48.0).contains(&wait), "{wait}");
        let ran = points[4].run_p95.unwrap();
        assert!((3.2..4.8).contains(&ran), "{ran}");
        assert_eq!(points[0].wait_p50, None);
    }

    #[test]
    fn an_hour_is_kept_and_what_is_older_is_left_out() {
        let series = Series::default();
        let last = 2 * 3_600_000;
        series.add(&[event(EventKind::Queued, 1, 0), event(EventKind::Queued, 2, last)]);
        series.add(&[event(EventKind::Queued, 3, 0)]);
        let points = series.body().points;
        assert_eq!(points.len(), POINTS);
        assert_eq!(points.iter().map(|point| point.submitted).sum::<u64>(), 1);
    }
}
