//! What workers report of the jobs they hold: that they are at it, how it ended, or that they hand it back. Every
//! report is checked against the lease; a late one changes nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use runcue_core::submission::MAX_TEXT;
use runcue_core::{
    ErrorKind, JobId, Json as Payload, Lease, Progress, ServiceName, StateWord, Timestamp,
};
use runcue_store::{Extend, Extended, Finish, Finished, Outcome};
use runcue_view::millis;
use sha2::{Digest, Sha256};

use super::jobs;
use crate::error::{Answer, Refusal};
use crate::held::Held;
use crate::hub::Shared;
use crate::wire::{
    BeatBody, BeatsBody, Body, EndWord, EndedBody, EndedManyBody, EndsBody, FailBody,
    HeartbeatBody, HeartbeatsBody, LeaseBody, MAX_MESSAGE, MOST_REPORTED, OneBeatAnswer, OneEnd,
    OneEnded, Part, ReleaseBody, ResultBody, status_of, worker,
};

/// The longest reason that is kept, in bytes.
const MAX_REASON: usize = 64 * 1024;

/// `POST /api/jobs/{id}/heartbeat`
pub async fn heartbeat(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    Body(body): Body<HeartbeatBody>,
) -> Answer<Response> {
    let id = jobs::id(&text)?;
    let progress = checked(body.progress)?;
    let now = hub.now();
    let held = match &body.lease {
        Some(lease) => known(&hub, lease.of(id)),
        None => hub.held.find(&*hub.store, id, worker(&body.worker_id, None)?).await?,
    };
    if let Some(timeout) = held.is_over(now) {
        give_up(&hub, held.lease, timeout, now).await?;
        return Err(Refusal::lease_lost(id).help("it has run longer than max_runtime_ms; stop it"));
    }
    let extend = Extend { lease: held.lease, lease_for: hub.config.lease, progress };
    let mut answer = hub.store.extend(now, vec![extend.clone()]).await?.into_iter().next();
    if answer == Some(Extended::Lost) && body.lease.is_none() {
        let again = renewed(&hub, &extend.lease, &body.worker_id).await?;
        answer = hub.store.extend(now, vec![Extend { lease: again, ..extend }]).await?.pop();
    }
    let Some(Extended::Held { until, cancel }) = answer else {
        hub.held.remove([id]);
        return Err(Refusal::lease_lost(id));
    };
    let mut response = match body.lease {
        Some(_) => Json(BeatBody { cancel, lease_expires_at: millis(until) }).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    };
    if cancel {
        response.headers_mut().insert("x-cancel", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The lease of a worker that another hub may have handed the job to again since this one last looked.
async fn renewed(hub: &Shared, lost: &Lease, worker_id: &str) -> Answer<Lease> {
    hub.held.remove([lost.job]);
    let now = hub.held.find(&*hub.store, lost.job, worker(worker_id, None)?).await?.lease;
    if now.same_as(lost) { Err(Refusal::lease_lost(lost.job)) } else { Ok(now) }
}

/// What is known of a lease that a client has named in full.
fn known(hub: &Shared, lease: Lease) -> Held {
    let since = hub.now();
    hub.held.known(&lease).unwrap_or(Held { lease, timeout: None, since })
}

/// An attempt whose worker is alive and which runs too long is ended for it.
async fn give_up(hub: &Shared, lease: Lease, after: Duration, now: Timestamp) -> Answer<()> {
    let outcome = Outcome::Failed {
        error: format!("max_runtime_exceeded: it ran longer than {after:?}"),
        kind: ErrorKind::Timeout,
        code: Some("max_runtime_exceeded".to_owned()),
        service: None,
    };
    let id = lease.job;
    finish(hub, Finish { lease, outcome }, now).await?;
    hub.held.remove([id]);
    Ok(())
}

fn checked(progress: Option<Progress>) -> Answer<Option<Progress>> {
    if let Some(progress) = &progress {
        if !(0.0..=100.0).contains(&progress.percent) {
            return Err(Refusal::field("progress.percent", "0 to 100 are expected"));
        }
        if progress.message.len() > MAX_MESSAGE {
            return Err(Refusal::field("progress.message", format!("at most {MAX_MESSAGE} bytes")));
        }
    }
    Ok(progress)
}

/// `POST /api/jobs/{id}/result`
pub async fn result(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    headers: HeaderMap,
    Body(body): Body<ResultBody>,
) -> Answer<Json<EndedBody>> {
    let id = jobs::id(&text)?;
    let named = headers.get("x-idempotency-key").and_then(|key| key.to_str().ok());
    let key = named.map(str::to_owned).or(body.result_hash).unwrap_or_else(|| digest(&body.result));
    short_enough(&key)?;
    let outcome = Outcome::Done { result: bounded(body.result)?, result_key: Some(key.clone()) };
    match end(&hub, id, &body.worker_id, body.lease, outcome).await {
        Ok(ended) => Ok(Json(ended)),
        // The same result again, by whoever held it then, is no error.
        Err(refusal) => {
            let job = jobs::find(&hub, id).await?;
            let same = job.life.result_key.as_deref() == Some(&key);
            if job.life.state.word() == StateWord::Completed && same {
                return Ok(Json(EndedBody { id, status: "completed", retry_at: None }));
            }
            Err(refusal)
        }
    }
}

fn short_enough(key: &str) -> Answer<()> {
    if key.len() <= MAX_TEXT {
        return Ok(());
    }
    Err(Refusal::field("result_hash", format!("at most {MAX_TEXT} bytes")))
}

/// What a result is recognised by if nobody says otherwise.
fn digest(result: &Option<Payload>) -> String {
    let text = result.as_ref().map_or("null", Payload::as_str);
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bounded(result: Option<Payload>) -> Answer<Option<Payload>> {
    let max = runcue_core::submission::MAX_PAYLOAD;
    match result {
        Some(result) if result.as_str().len() > max => {
            let why = format!("{} bytes, at most {max} are allowed", result.as_str().len());
            Err(Refusal::field("result", why).help("store it elsewhere and return its address"))
        }
        other => Ok(other.filter(|result| !result.is_null())),
    }
}

/// `POST /api/jobs/{id}/fail`
pub async fn fail(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    Body(body): Body<FailBody>,
) -> Answer<Json<EndedBody>> {
    let outcome = failed(Failed {
        reason: Some(body.reason),
        permanent: body.permanent,
        timeout: body.timeout,
        code: body.code,
        service: body.service,
        retry_after: body.retry_after,
    })?;
    end(&hub, jobs::id(&text)?, &body.worker_id, body.lease, outcome).await.map(Json)
}

struct Failed {
    reason: Option<String>,
    permanent: bool,
    timeout: bool,
    code: Option<String>,
    service: Option<ServiceName>,
    retry_after: Option<f64>,
}

fn failed(how: Failed) -> Answer<Outcome> {
    if let Some(seconds) = how.retry_after {
        let retry_after = Duration::try_from_secs_f64(seconds)
            .map_err(|_| Refusal::field("retry_after", "seconds, zero or more, are expected"))?;
        return Ok(Outcome::RateLimited { retry_after, service: how.service });
    }
    let mut error = how.reason.unwrap_or_else(|| "failed without a reason".to_owned());
    if error.len() > MAX_REASON {
        let end = (0..=MAX_REASON).rev().find(|at| error.is_char_boundary(*at)).unwrap_or(0);
        error.truncate(end);
    }
    let kind = match (how.permanent, how.timeout) {
        (true, _) => ErrorKind::Permanent,
        (false, true) => ErrorKind::Timeout,
        (false, false) => ErrorKind::Transient,
    };
    Ok(Outcome::Failed { error, kind, code: how.code, service: how.service })
}

/// `POST /api/jobs/{id}/release`
pub async fn release(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    Body(body): Body<ReleaseBody>,
) -> Answer<Json<EndedBody>> {
    end(&hub, jobs::id(&text)?, &body.worker_id, body.lease, Outcome::HandBack).await.map(Json)
}

/// Ends an attempt for whoever holds it.
async fn end(
    hub: &Shared,
    id: JobId,
    worker_id: &str,
    lease: Option<LeaseBody>,
    outcome: Outcome,
) -> Answer<EndedBody> {
    let by_name = lease.is_none();
    let lease = match lease {
        Some(lease) => lease.of(id),
        None => hub.held.find(&*hub.store, id, worker(worker_id, None)?).await?.lease,
    };
    let end = Finish { lease, outcome };
    let mut answer = finish(hub, end.clone(), hub.now()).await?;
    if answer == Finished::Lost && by_name {
        let again = renewed(hub, &end.lease, worker_id).await?;
        answer = finish(hub, Finish { lease: again, ..end }, hub.now()).await?;
    }
    hub.held.remove([id]);
    match answer {
        Finished::Now { state, retry_at } => {
            Ok(EndedBody { id, status: status_of(state), retry_at: retry_at.map(millis) })
        }
        Finished::Repeated => Ok(EndedBody { id, status: "completed", retry_at: None }),
        Finished::Lost => Err(Refusal::lease_lost(id)),
    }
}

async fn finish(hub: &Shared, end: Finish, now: Timestamp) -> Answer<Finished> {
    let answers = hub.store.finish(now, vec![end]).await?;
    let answer = answers.into_iter().next().unwrap_or(Finished::Lost);
    count(hub, &answer);
    Ok(answer)
}

fn count(hub: &Shared, answer: &Finished) {
    if let Finished::Now { state, .. } = answer {
        hub.cue.metrics().count_end(*state);
    }
}

/// `POST /api/jobs/heartbeats`
pub async fn heartbeats(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<HeartbeatsBody>,
) -> Answer<Json<BeatsBody>> {
    few_enough(body.jobs.len())?;
    let mut extends = Vec::with_capacity(body.jobs.len());
    let ids: Vec<JobId> = body.jobs.iter().map(|one| one.id).collect();
    for one in body.jobs {
        extends.push(Extend {
            lease: one.lease.of(one.id),
            lease_for: hub.config.lease,
            progress: checked(one.progress)?,
        });
    }
    let answers = hub.store.extend(hub.now(), extends).await?;
    let answer = |(id, answer): (JobId, Extended)| match answer {
        Extended::Held { until, cancel } => {
            OneBeatAnswer { id, held: true, cancel, lease_expires_at: Some(millis(until)) }
        }
        Extended::Lost => OneBeatAnswer { id, held: false, cancel: false, lease_expires_at: None },
    };
    Ok(Json(BeatsBody { jobs: ids.into_iter().zip(answers).map(answer).collect() }))
}

fn few_enough(len: usize) -> Answer<()> {
    if len <= MOST_REPORTED {
        return Ok(());
    }
    Err(Refusal::field("jobs", format!("{len} in one report, at most {MOST_REPORTED} are allowed")))
}

/// `POST /api/jobs/ends`
pub async fn ends(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<EndsBody>,
) -> Answer<Json<EndedManyBody>> {
    few_enough(body.ends.len())?;
    let ids: Vec<JobId> = body.ends.iter().map(|one| one.id).collect();
    let finishes: Vec<Finish> =
        body.ends.into_iter().map(OneEnd::into_finish).collect::<Result<_, Refusal>>()?;
    let answers = hub.store.finish(hub.now(), finishes).await?;
    hub.held.remove(ids.iter().copied());
    let ended = |(id, answer): (JobId, Finished)| {
        count(&hub, &answer);
        match answer {
            Finished::Now { state, retry_at } => OneEnded {
                id,
                status: Some(status_of(state)),
                lost: false,
                repeated: false,
                retry_at: retry_at.map(millis),
            },
            Finished::Repeated => OneEnded {
                id,
                status: Some("completed"),
                lost: false,
                repeated: true,
                retry_at: None,
            },
            Finished::Lost => {
                OneEnded { id, status: None, lost: true, repeated: false, retry_at: None }
            }
        }
    };
    Ok(Json(EndedManyBody { ends: ids.iter().copied().zip(answers).map(ended).collect() }))
}

impl OneEnd {
    fn into_finish(self) -> Answer<Finish> {
        self.result_hash.as_deref().map_or(Ok(()), short_enough)?;
        let outcome = match self.outcome {
            EndWord::Completed => {
                let key = self.result_hash.unwrap_or_else(|| digest(&self.result));
                Outcome::Done { result: bounded(self.result)?, result_key: Some(key) }
            }
            EndWord::Released => Outcome::HandBack,
            EndWord::Unstarted => Outcome::Unstarted,
            EndWord::Stopped => Outcome::Stopped,
            EndWord::Failed => failed(Failed {
                reason: self.reason,
                permanent: self.permanent,
                timeout: self.timeout,
                code: self.code,
                service: self.service,
                retry_after: self.retry_after,
            })?,
        };
        Ok(Finish { lease: self.lease.of(self.id), outcome })
    }
}
