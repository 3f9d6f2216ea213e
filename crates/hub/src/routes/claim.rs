//! Claiming: one job or several, at once or as soon as there is work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use runcue_core::{ClaimFilter, Job, Lease, Timestamp, WorkerId};
use runcue_store::ClaimRequest;

use crate::config::{MAX_CLAIM, MAX_WAIT};
use crate::error::{Answer, Refusal};
use crate::hub::Shared;
use crate::wire::{Body, ClaimBody, ClaimedBody, JobBody, LeaseBody, not_ours};

/// How often the store is told that a worker that claims is still there.
const TELL: Duration = Duration::from_secs(20);

/// `POST /api/jobs/claim`
pub async fn claim(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<ClaimBody>,
) -> Answer<Response> {
    let max = body.max.unwrap_or(1);
    if max == 0 || max > MAX_CLAIM {
        return Err(Refusal::field("max", format!("1 to {MAX_CLAIM} are expected")));
    }
    let wait = wait(body.wait)?;
    let request = request(&hub, &body, max).await?;
    let several = body.max.is_some();
    let worker = request.worker;
    hub.names.note(&*hub.store, worker, &body.worker_id, hub.now()).await?;
    let on_the_way = hub.desk.claim(request, wait).await?;
    // From here on nothing is waited for: they are as good as answered.
    let jobs = on_the_way.into_jobs();
    let now = hub.now();
    tell(&hub, worker, now);
    hub.held.add(&jobs, now);
    hub.cue.metrics().count_requests(&jobs);
    let body = |(job, lease): &(Job, Lease)| JobBody {
        worker_id: Some(body.worker_id.clone()),
        lease: Some(LeaseBody::new(lease, now)),
        ..JobBody::new(job, &hub.names, hub.config.lease)
    };
    let mut bodies: Vec<JobBody> = jobs.iter().map(body).collect();
    Ok(match (several, bodies.pop()) {
        (false, Some(job)) => Json(job).into_response(),
        (false, None) => StatusCode::NO_CONTENT.into_response(),
        (true, last) => {
            bodies.extend(last);
            Json(ClaimedBody { jobs: bodies }).into_response()
        }
    })
}

/// Tells the store that a worker is there, if it is time to. The worker does not wait for that.
fn tell(hub: &Arc<Shared>, worker: WorkerId, now: Timestamp) {
    let Some(spec) = hub.names.tell(worker, now, TELL) else { return };
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        if let Err(error) = hub.store.upsert_worker(now, spec).await {
            tracing::debug!(%error, "that a worker is there could not be written down");
        }
    });
}

fn wait(seconds: Option<f64>) -> Answer<Duration> {
    let seconds = seconds.unwrap_or(0.0);
    let wait = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Refusal::field("wait", "a number of seconds, zero or more, is expected"))?;
    Ok(wait.min(MAX_WAIT))
}

async fn request(hub: &Shared, body: &ClaimBody, max: usize) -> Answer<ClaimRequest> {
    let worker = body.id()?;
    let offers = hub.names.offers(&*hub.store, worker, hub.now()).await;
    let tasks = match &body.types {
        Some(types) => types.clone(),
        None => {
            let registered = hub.names.registered(worker);
            registered.map(|one| one.types.into_iter().collect()).unwrap_or_default()
        }
    };
    not_ours("types", &tasks)?;
    let filter = ClaimFilter {
        queues: body.queues.clone(),
        tasks,
        project: body.project.clone(),
        labels: body.labels.clone(),
        max_priority: body.max_priority,
    };
    Ok(ClaimRequest {
        lease: hub.config.lease,
        start: false,
        start_within: hub.config.start_within,
        filter,
        offers,
        ..ClaimRequest::new(worker, max)
    })
}
