//! Submitting: one job, or many in one call.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use runcue_core::{JobId, JobSpec, TraceParent};
use runcue_store::Submitted;
use serde::Serialize;

use crate::config::MAX_BULK;
use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{Described, Schema, an_id, flag, list_of, must, named, object};
use crate::wire::{Body, Defaults, Ndjson, NewJobBody, status, status_of};

/// What became of one submitted job.
#[derive(Debug, Serialize)]
pub struct SubmittedBody {
    /// The job.
    pub id: JobId,
    /// Where it is.
    pub status: &'static str,
    /// Whether it is new; otherwise it was known by its id or its idempotency key.
    pub new: bool,
}

/// Every submitted job.
#[derive(Debug, Serialize)]
pub struct BulkBody {
    /// In the order they were sent.
    pub jobs: Vec<SubmittedBody>,
}

impl Described for SubmittedBody {
    const NAME: &'static str = "Submitted";

    fn schema() -> Schema {
        let new = flag().says("Otherwise it was known by its id or its idempotency key.");
        object([must("id", an_id()), must("status", status()), must("new", new)])
    }
}

impl Described for BulkBody {
    const NAME: &'static str = "SubmittedMany";

    fn schema() -> Schema {
        object([must(
            "jobs",
            list_of(named::<SubmittedBody>()).says("In the order they were sent."),
        )])
    }
}

/// `POST /api/jobs`
pub async fn one(
    State(hub): State<Arc<Shared>>,
    headers: HeaderMap,
    Body(job): Body<NewJobBody>,
) -> Answer<(StatusCode, Json<SubmittedBody>)> {
    let submitted = submit(&hub, vec![job], trace_of(&headers)).await?;
    let one = submitted.into_iter().next();
    let one = one.ok_or_else(|| Refusal::new(Code::Internal, "the store answered nothing"))?;
    let status = if one.new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(one)))
}

/// `POST /api/jobs/bulk`
pub async fn bulk(
    State(hub): State<Arc<Shared>>,
    headers: HeaderMap,
    Ndjson(jobs): Ndjson<NewJobBody>,
) -> Answer<(StatusCode, Json<BulkBody>)> {
    if jobs.len() > MAX_BULK {
        let why = format!("{} jobs in one call, at most {MAX_BULK} are allowed", jobs.len());
        return Err(Refusal::new(Code::TooLarge, why).help("send them in parts"));
    }
    let jobs = submit(&hub, jobs, trace_of(&headers)).await?;
    Ok((StatusCode::CREATED, Json(BulkBody { jobs })))
}

/// The trace of a request. One that cannot be read is as good as none, and so are several.
fn trace_of(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all("traceparent").iter();
    let only = given.next().filter(|_| given.next().is_none());
    only?.to_str().ok()?.parse().ok()
}

async fn submit(
    hub: &Shared,
    jobs: Vec<NewJobBody>,
    trace: Option<TraceParent>,
) -> Answer<Vec<SubmittedBody>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tasks = hub.tasks().await?;
    let defaults = Defaults { tasks: &tasks, unchecked_solvers: hub.config.unchecked_solvers };
    let many = jobs.len() > 1;
    let spec = |(index, job): (usize, NewJobBody)| {
        job.into_spec(hub.new_id(), &defaults).map_err(|refusal| match many {
            true => Refusal { message: format!("job {index}: {}", refusal.message), ..refusal },
            false => refusal,
        })
    };
    let mut specs: Vec<JobSpec> =
        jobs.into_iter().enumerate().map(spec).collect::<Result<_, Refusal>>()?;
    for spec in &mut specs {
        spec.traceparent = spec.traceparent.or(trace);
    }
    // A client that should wait for room is told when to come back instead of being held.
    let submitted = hub.cue.submit_specs(specs, Some(Duration::ZERO)).await;
    let submitted = submitted.map_err(|error| match error {
        runcue_engine::Error::NoRoom(_) => {
            Refusal::new(Code::QueueFull, "the queue has no room; nothing was submitted")
                .after(Duration::from_secs(1))
        }
        other => other.into(),
    })?;
    answer(hub, submitted).await
}

/// New jobs wait; what was there already is looked up.
async fn answer(hub: &Shared, submitted: Vec<Submitted>) -> Answer<Vec<SubmittedBody>> {
    let known: Vec<JobId> = submitted
        .iter()
        .filter(|one| matches!(one, Submitted::Existing(_)))
        .map(|one| one.id())
        .collect();
    let mut found = Vec::new();
    if !known.is_empty() {
        found = hub.store.get(known).await?;
    }
    let mut found = found.into_iter();
    let body = |one: Submitted| match one {
        Submitted::New(id) => SubmittedBody { id, status: "pending", new: true },
        Submitted::Existing(id) => {
            let job = found.next().flatten();
            let status = job.map_or("pending", |job| status_of(job.life.state.word()));
            SubmittedBody { id, status, new: false }
        }
    };
    Ok(submitted.into_iter().map(body).collect())
}
