//! Figures of the store alone: bulk submit, drain, and what a claim costs as the backlog grows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use runcue_core::service::Rate;
use runcue_core::{
    GroupName, JobId, JobSpec, Json, ServiceName, ServiceSpec, TaskName, Use, WorkerId,
};
use runcue_store::{ClaimRequest, Finish, Outcome, Store, SubmitBatch};
use runcue_store_sqlite::{Durability, Options, SqliteStore};

use crate::floor::Floor;
use crate::process::resident_megabytes;
use crate::table::Line;

pub const PARAMS: &str = r#"{"page":17,"document":"a-document-of-some-length.pdf"}"#;
/// Jobs in one submission.
pub const SUBMIT: usize = 1000;
/// Jobs in one claim.
pub const CLAIM: usize = 100;
/// Jobs of a small backlog.
const SMALL: usize = 20_000;

/// Jobs with different groups and services.
pub struct Jobs {
    next: u128,
    pub groups: Vec<GroupName>,
    pub services: Vec<ServiceName>,
}

impl Jobs {
    pub fn new(groups: usize, services: usize) -> Result<Self> {
        let groups =
            (0..groups).map(|n| GroupName::new(format!("group-{n}"))).collect::<Result<_, _>>()?;
        let services = (0..services)
            .map(|n| ServiceName::new(format!("service-{n}")))
            .collect::<Result<_, _>>()?;
        Ok(Self { next: 0, groups, services })
    }

    pub fn take(&mut self, count: usize) -> Result<Vec<JobSpec>> {
        (0..count).map(|_| self.one()).collect()
    }

    /// The services, each with slots and a rate that are never exhausted.
    pub fn limits(&self) -> Vec<ServiceSpec> {
        let spec = |name: &ServiceName| ServiceSpec {
            max_concurrent: Some(1_000),
            rates: vec![Rate { limit: 10_000_000, window: Duration::from_secs(60) }],
            ..ServiceSpec::new(name.clone())
        };
        self.services.iter().map(spec).collect()
    }

    fn one(&mut self) -> Result<JobSpec> {
        self.next += 1;
        let id = JobId::time_ordered(crate::now(), self.next << 32 | self.next);
        let mut job = JobSpec::new(id, TaskName::new("noop")?);
        job.params = Json::trusted(PARAMS);
        let place = usize::try_from(self.next)?;
        job.group = self.groups.get(place % self.groups.len().max(1)).cloned();
        job.services = self
            .services
            .get(place % self.services.len().max(1))
            .cloned()
            .map(Use::one)
            .into_iter()
            .collect();
        Ok(job)
    }
}

/// A store in a directory.
pub fn open(directory: &Path, durability: Durability) -> Result<SqliteStore> {
    Ok(SqliteStore::open(Options { path: directory.join("queue.db"), durability })?)
}

/// Submits jobs in batches and answers how long it took.
pub async fn submit(store: &dyn Store, jobs: &mut Jobs, count: usize) -> Result<Duration> {
    let mut batches = Vec::new();
    let mut left = count;
    while left > 0 {
        let size = left.min(SUBMIT);
        batches.push(jobs.take(size)?);
        left -= size;
    }
    let begin = Instant::now();
    for batch in batches {
        store.submit(crate::now(), SubmitBatch::of(batch)).await?;
    }
    Ok(begin.elapsed())
}

/// Claims and completes up to a count, and answers how many, how long it took, and how long the claims.
pub async fn drain(store: &dyn Store, count: usize) -> Result<(usize, Duration, Duration)> {
    drain_by(store, count, CLAIM).await
}

/// The same with so many jobs to a claim.
pub async fn drain_by(
    store: &dyn Store,
    count: usize,
    most: usize,
) -> Result<(usize, Duration, Duration)> {
    let worker = WorkerId::from_u128(1);
    let (begin, mut claims, mut done) = (Instant::now(), Duration::ZERO, 0);
    while done < count {
        let claim = Instant::now();
        let claimed = store.claim(crate::now(), ClaimRequest::new(worker, most)).await?;
        claims += claim.elapsed();
        let end = |(_, lease)| Finish {
            lease,
            outcome: Outcome::Done { result: None, result_key: None },
        };
        let ends: Vec<Finish> = claimed.jobs.into_iter().map(end).collect();
        if ends.is_empty() {
            break;
        }
        done += ends.len();
        store.finish(crate::now(), ends).await?;
    }
    Ok((done, begin.elapsed(), claims))
}

pub fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Bulk submit and drain beside the floor, in both modes. Floor and store take turns, so that a machine
/// that gets slower or faster in between does so for both.
pub async fn throughput(count: usize, lines: &mut Vec<Line>) -> Result<()> {
    for durability in [Durability::Normal, Durability::Full] {
        let mode = durability.as_str();
        let (mut best, mut floor_best) = ([0.0_f64; 2], [0.0_f64; 2]);
        for _ in 0..3 {
            let directory = tempfile::tempdir()?;
            let mut floor = Floor::open(&directory.path().join("floor.db"), mode)?;
            floor_best[0] =
                floor_best[0].max(per_second(count, floor.submit(count, SUBMIT, PARAMS)?));
            let (done, time) = floor.drain(CLAIM)?;
            floor_best[1] = floor_best[1].max(per_second(done, time));
            drop(floor);
            let store = open(directory.path(), durability)?;
            let mut jobs = Jobs::new(0, 0)?;
            best[0] = best[0].max(per_second(count, submit(&store, &mut jobs, count).await?));
            let (done, time, _) = drain(&store, count).await?;
            best[1] = best[1].max(per_second(done, time));
            store.close().await?;
        }
        lines.push(Line::rate("bulk submit, 1 000 a call", mode, best[0], floor_best[0], 0.5));
        lines.push(Line::rate("drain, 100 a claim", mode, best[1], floor_best[1], 0.5));
    }
    Ok(())
}

/// What a claim costs per job with a backlog, over enough claims to be steady.
async fn claim_cost(queued: usize, groups: usize, blocked: usize) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path(), Durability::Normal)?;
    let now = crate::now();
    if blocked > 0 {
        let mut full = ServiceSpec::new(ServiceName::new("service-0")?);
        full.max_concurrent = Some(0);
        store.upsert_services(now, vec![full]).await?;
        submit(&store, &mut Jobs::new(groups, 1)?, blocked).await?;
    }
    let mut jobs = Jobs { next: 1 << 40, ..Jobs::new(groups, 0)? };
    submit(&store, &mut jobs, queued).await?;
    // Opened anew, so that no backlog of the submission is worked off while claims are measured.
    store.close().await?;
    drop(store);
    let store = open(directory.path(), Durability::Normal)?;
    let sample = queued.min(SMALL) * 9 / 10;
    drain(&store, sample / 10).await?;
    let (done, _, claims) = drain(&store, sample - sample / 10).await?;
    store.close().await?;
    Ok(claims.as_secs_f64() * 1e6 / done as f64)
}

/// The backlogs whose claims are compared with those of a small one: what they are, how many jobs are
/// queued, in how many groups, and how many more wait behind a full service.
fn backlogs(million: usize) -> [(&'static str, usize, usize, usize); 3] {
    let small = SMALL.min(million);
    [
        ("claim per job, 1 000 000 queued beside 20 000", million, 1, 0),
        ("claim per job, 1 000 groups beside 1", small, 1_000, 0),
        ("claim per job, 1 000 000 behind a full service", small, 1, million),
    ]
}

/// Claim cost as the backlog, the groups and the blocked jobs grow: the best of rounds in which each takes
/// its turn beside the small one.
pub async fn flatness(million: usize, lines: &mut Vec<Line>) -> Result<()> {
    for (what, queued, groups, blocked) in backlogs(million) {
        let (mut base, mut cost) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..5 {
            base = base.min(claim_cost(SMALL.min(million), 1, 0).await?);
            cost = cost.min(claim_cost(queued, groups, blocked).await?);
        }
        let ratio = cost / base;
        let figure = Line::figure(
            what,
            "normal",
            format!("{cost:.1} µs"),
            "≤ 1.30 of the small one",
            Some(ratio <= 1.3),
        );
        lines.push(figure.beside(format!("{base:.1} µs"), ratio));
    }
    Ok(())
}

/// What 100 active limits cost.
pub async fn limits(count: usize, lines: &mut Vec<Line>) -> Result<()> {
    let (mut free, mut limited) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let directory = tempfile::tempdir()?;
        let store = open(directory.path(), Durability::Normal)?;
        submit(&store, &mut Jobs::new(0, 0)?, count).await?;
        let (done, time, _) = drain(&store, count).await?;
        free = free.max(per_second(done, time));
        store.close().await?;
        let directory = tempfile::tempdir()?;
        let store = open(directory.path(), Durability::Normal)?;
        let mut jobs = Jobs::new(0, 100)?;
        store.upsert_services(crate::now(), jobs.limits()).await?;
        submit(&store, &mut jobs, count).await?;
        let (done, time, _) = drain(&store, count).await?;
        limited = limited.max(per_second(done, time));
        store.close().await?;
    }
    lines.push(Line {
        goal: "≥ 0.80 of no limits".to_owned(),
        ..Line::rate("drain with 100 limits beside none", "normal", limited, free, 0.8)
    });
    Ok(())
}

/// Memory of this process while a million jobs are queued and worked on.
pub async fn memory(million: usize, lines: &mut Vec<Line>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path(), Durability::Normal)?;
    let mut jobs = Jobs::new(100, 0)?;
    for _ in 0..10 {
        submit(&store, &mut jobs, million / 10).await?;
    }
    drain(&store, million / 20).await?;
    let megabytes = resident_megabytes(std::process::id())?;
    store.close().await?;
    let figure = format!("{megabytes:.0} MB");
    lines.push(Line::figure(
        "memory with 1 000 000 queued",
        "normal",
        figure,
        "< 150 MB",
        Some(megabytes < 150.0),
    ));
    Ok(())
}
