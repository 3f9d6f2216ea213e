//! One delivery: a signed request that tells a receiver of an event. The receiver's answer decides what follows; when
//! to try again is the queue's to know.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Response, StatusCode};
use runcue_core::{JobId, Json, StateWord, WorkerId};
use runcue_engine::{Failure, Handler, Work};
use serde::{Deserialize, Serialize};

use super::sign::signature;
use super::{Webhook, find};
use crate::hub::Shared;
use crate::routes::{job_body, worker_name};
use crate::wire::JobBody;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a receiver may take to answer.
const ANSWER: Duration = Duration::from_secs(15);
/// Params and results that are larger are left out.
const MAX_PART: usize = 64 * 1024;
/// How much of an answer is read, so that its connection can be used again. Nothing in it matters.
const MAX_ANSWER: usize = 16 * 1024;

/// What is to be delivered: the params of a delivery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// To whom.
    pub webhook: JobId,
    /// How the job ended.
    pub event: StateWord,
    /// The number of the event.
    pub seq: u64,
    /// When it happened.
    pub at: i64,
    /// The job.
    pub job: JobId,
    /// Who ran its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
}

/// What a receiver is sent.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    order: Summary<'a>,
    /// Nothing if it is no longer kept.
    job: Option<JobBody>,
    /// Fields of the job that were too large.
    omitted: Vec<&'static str>,
}

#[derive(Serialize)]
struct Summary<'a> {
    webhook: JobId,
    delivery: JobId,
    event: &'a str,
    seq: u64,
    at: i64,
}

/// What came of a delivery.
#[derive(Serialize)]
struct Delivered {
    status: u16,
}

/// Makes deliveries.
pub struct Deliverer {
    /// The hub holds the engine that holds this.
    hub: Weak<Shared>,
    client: Result<Client, String>,
}

impl Deliverer {
    /// A deliverer of a hub.
    pub fn new(hub: &Arc<Shared>) -> Self {
        // Whoever has a main function may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("runcue/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let client = client.map_err(|error| format!("no HTTP client can be made: {error}"));
        Self { hub: Arc::downgrade(hub), client }
    }

    async fn deliver(&self, hub: &Shared, work: &Work) -> Result<Delivered, Failure> {
        let order: Order = work.params()?;
        let Some(webhook) = find(&*hub.store, order.webhook).await? else {
            return Err(Failure::permanent("the webhook was removed").with_code("removed"));
        };
        let client = self.client.as_ref().map_err(Failure::transient)?;
        let body = body(hub, &order, work.id()).await?;
        let request = request(client, &webhook, &order, work.id(), hub.now().as_millis(), body);
        // An address may hold a word that is not for everybody who may look at jobs.
        let answer = request.send().await.map_err(|error| Failure::from(error.without_url()))?;
        let status = answer.status();
        drain(answer).await;
        judge(status)
    }
}

#[async_trait]
impl Handler for Deliverer {
    async fn run(&self, work: Work) -> Result<Json, Failure> {
        let Some(hub) = self.hub.upgrade() else { return Err(Failure::hand_back()) };
        let delivered = tokio::select! {
            delivered = self.deliver(&hub, &work) => delivered?,
            // Withdrawn with its webhook, or the hub ends and another makes it.
            () = work.cancellation().cancelled() => return Err(Failure::hand_back()),
        };
        Ok(Json::from_value(&delivered)?)
    }
}

fn judge(status: StatusCode) -> Result<Delivered, Failure> {
    if status.is_success() {
        return Ok(Delivered { status: status.as_u16() });
    }
    let code = format!("http {}", status.as_u16());
    let failure = match status {
        StatusCode::GONE => {
            Failure::permanent("the receiver answered 410: it wants no more of this")
        }
        other => Failure::transient(format!("the receiver answered {}", other.as_u16())),
    };
    Err(failure.with_code(code))
}

/// The job as it is now, without what is too large.
async fn body(hub: &Shared, order: &Order, delivery: JobId) -> Result<Vec<u8>, Failure> {
    let found = hub.store.get(vec![order.job]).await?.into_iter().next().flatten();
    let (mut job, mut omitted) = (None, Vec::new());
    if let Some(found) = &found {
        let mut body = job_body(hub, found).await?;
        if let (Some(worker), Some(at)) = (order.worker, body.completed_at)
            && at == order.at
        {
            body.worker_id = Some(worker_name(hub, worker).await);
        }
        if body.params.as_str().len() > MAX_PART {
            body.params = Json::null();
            omitted.push("params");
        }
        if body.result.as_ref().is_some_and(|result| result.as_str().len() > MAX_PART) {
            body.result = None;
            omitted.push("result");
        }
        job = Some(body);
    }
    let Order { webhook, event, seq, at, .. } = *order;
    let order = Summary { webhook, delivery, event: event.as_str(), seq, at };
    Ok(serde_json::to_vec(&Told { order, job, omitted })?)
}

fn request(
    client: &Client,
    webhook: &Webhook,
    order: &Order,
    delivery: JobId,
    millis: i64,
    body: Vec<u8>,
) -> reqwest::RequestBuilder {
    let signature = signature(&webhook.kept.secret, millis, &body);
    client
        .post(&webhook.kept.url)
        .header("content-type", "application/json")
        .header("runcue-webhook-id", webhook.id.to_string())
        .header("runcue-event", order.event.as_str())
        .header("runcue-delivery", delivery.to_string())
        .header("runcue-timestamp", millis.to_string())
        .header("runcue-signature", signature)
        .body(body)
}

async fn drain(mut answer: Response) {
    let mut read = 0;
    while read < MAX_ANSWER
        && let Ok(Some(piece)) = answer.chunk().await
    {
        read += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_success_is_tried_again_but_for_gone() {
        let of = |code: u16| judge(StatusCode::from_u16(code).unwrap());
        assert!([200, 202, 204].into_iter().all(|code| of(code).is_ok()));
        for code in [301, 400, 401, 404, 410, 429, 500, 503] {
            let said = of(code).err().unwrap().to_string();
            assert!(said.contains(&code.to_string()), "{said}");
        }
    }
}
