//! Talking to a hub. Owns requests, their bounds in time, and which of several hubs is asked; decides nothing about
//! jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::AgentConfig;

/// How long a hub may take to answer, beyond what it was asked to wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Why a request did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HubTrouble {
    /// Nobody there, or not able just now: try again later.
    #[error("the hub is away: {0}")]
    Away(String),
    /// The job is somebody else's by now.
    #[error("the job is not ours: {0}")]
    Lost(String),
    /// The hub says no, and will say so again.
    #[error("the hub refuses: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// In its words.
        message: String,
    },
}

/// The right to run one attempt, as the hub gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Which attempt.
    pub attempt: u32,
    /// Tells it from every other.
    pub token: u64,
    /// Who holds it.
    pub instance: String,
    /// How long after the claim it may start.
    #[serde(default, skip_serializing)]
    pub start_within_ms: Option<u64>,
}

/// A job, as far as an agent has to know it.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    /// Its identity.
    pub id: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub task: String,
    /// What the solver is given.
    #[serde(default)]
    pub params: serde_json::Value,
    /// What to work on.
    pub target: Option<String>,
    /// How long it may run.
    pub max_runtime_ms: Option<u64>,
    /// Where its program is.
    pub solver_url: Option<String>,
    /// The sha256 of that.
    pub solver_checksum: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// The right to run it.
    pub lease: Lease,
}

#[derive(Deserialize)]
struct Claimed {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorInner,
}

#[derive(Deserialize)]
struct ErrorInner {
    code: String,
    message: String,
    help: Option<String>,
}

/// What a heartbeat was told of one job.
#[derive(Clone, Debug, Deserialize)]
pub struct Beat {
    /// The job.
    pub id: String,
    /// Whether it is still ours.
    pub held: bool,
    /// Whether somebody wants it stopped.
    pub cancel: bool,
}

#[derive(Deserialize)]
struct Beats {
    jobs: Vec<Beat>,
}

/// What became of one reported end.
#[derive(Clone, Debug, Deserialize)]
pub struct Ended {
    /// The job.
    pub id: String,
    /// It was not ours any more.
    pub lost: bool,
    /// Where it is now.
    pub status: Option<String>,
}

#[derive(Deserialize)]
struct EndedMany {
    ends: Vec<Ended>,
}

/// A hub, or several of which any will do.
pub struct HubClient {
    http: reqwest::Client,
    hubs: Vec<Url>,
    current: AtomicUsize,
    token: Option<String>,
}

impl HubClient {
    /// A client for these hubs.
    pub fn new(hubs: &[String], token: Option<String>) -> Result<Self, HubTrouble> {
        let refused = |message: String| HubTrouble::Refused { status: 0, message };
        let read = |text: &String| {
            let url = Url::parse(text).map_err(|error| refused(format!("{text}: {error}")))?;
            match url.scheme() {
                "http" | "https" => Ok(url),
                other => {
                    Err(refused(format!("{text}: a hub is reached by http or https, not {other}")))
                }
            }
        };
        let hubs: Vec<Url> = hubs.iter().map(read).collect::<Result<_, _>>()?;
        if hubs.is_empty() {
            return Err(refused("no hub is named".to_owned()));
        }
        let http = http_client(reqwest::redirect::Policy::none()).map_err(refused)?;
        Ok(Self { http, hubs, current: AtomicUsize::new(0), token })
    }

    /// The hosts of the hubs.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hubs.iter().filter_map(Url::host_str)
    }

    /// Says who we are.
    pub async fn register(&self, config: &AgentConfig, instance: &str) -> Result<(), HubTrouble> {
        let body = serde_json::json!({
            "worker_id": config.worker_id,
            "name": config.name,
            "cores": config.offers.cores,
            "ram_gb": config.offers.ram_gb,
            "tags": config.offers.tags,
            "types": config.types,
            "slots": config.slots,
            "instance": instance,
        });
        self.send(Method::POST, "/api/workers/register", Some(&body), PATIENCE).await.map(drop)
    }

    /// Asks for up to so many jobs, waiting for them at the hub.
    pub async fn claim(
        &self,
        config: &AgentConfig,
        instance: &str,
        max: usize,
    ) -> Result<Vec<Job>, HubTrouble> {
        let body = serde_json::json!({
            "worker_id": config.worker_id,
            "instance": instance,
            "types": config.types,
            "max": max,
            "wait": config.wait.as_secs_f64(),
        });
        let patience = PATIENCE + config.wait;
        let answer = self.send(Method::POST, "/api/jobs/claim", Some(&body), patience).await?;
        let claimed: Claimed = read(answer).await?;
        Ok(claimed.jobs)
    }

    /// Reports that jobs are being worked on.
    pub async fn beat(&self, worker: &str, jobs: &impl Serialize) -> Result<Vec<Beat>, HubTrouble> {
        let body = serde_json::json!({ "worker_id": worker, "jobs": jobs });
        let path = "/api/jobs/heartbeats";
        let answer = self.send(Method::POST, path, Some(&body), PATIENCE).await?;
        read::<Beats>(answer).await.map(|beats| beats.jobs)
    }

    /// Reports how jobs have ended.
    pub async fn end(&self, worker: &str, ends: &impl Serialize) -> Result<Vec<Ended>, HubTrouble> {
        let body = serde_json::json!({ "worker_id": worker, "ends": ends });
        let answer = self.send(Method::POST, "/api/jobs/ends", Some(&body), PATIENCE).await?;
        read::<EndedMany>(answer).await.map(|ended| ended.ends)
    }

    /// Hands over output of a job.
    pub async fn log(
        &self,
        worker: &str,
        job: &str,
        lease: &Lease,
        chunks: &impl Serialize,
    ) -> Result<(), HubTrouble> {
        let body = serde_json::json!({ "worker_id": worker, "lease": lease, "chunks": chunks });
        let path = format!("/api/jobs/{job}/logs");
        self.send(Method::POST, &path, Some(&body), PATIENCE).await.map(drop)
    }

    /// Pushes what the machine has measured of itself.
    pub async fn push(&self, node: &str, measured: &impl Serialize) -> Result<(), HubTrouble> {
        let path = format!("/api/ingest/{}", escaped(node));
        let body = serde_json::to_value(measured)
            .map_err(|error| HubTrouble::Refused { status: 0, message: error.to_string() })?;
        self.send(Method::POST, &path, Some(&body), PATIENCE).await.map(drop)
    }

    /// Says goodbye.
    pub async fn goodbye(&self, instance: &str) -> Result<(), HubTrouble> {
        let path = format!("/api/workers/{instance}");
        self.send(Method::DELETE, &path, None, Duration::from_secs(5)).await.map(drop)
    }

    /// Asks the hub that answered last; the next one, when it does not answer.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
        patience: Duration,
    ) -> Result<reqwest::Response, HubTrouble> {
        let current = self.current.load(Ordering::Relaxed);
        let hub = &self.hubs[current % self.hubs.len()];
        let url = hub.join(path).map_err(|error| HubTrouble::Away(error.to_string()))?;
        let mut request = self.http.request(method, url).timeout(patience);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = match request.send().await {
            Ok(answer) => judge(answer).await,
            Err(error) => Err(HubTrouble::Away(why(&error))),
        };
        if matches!(answer, Err(HubTrouble::Away(_))) {
            let next = current.wrapping_add(1);
            // Whoever found out first moves on; all others follow.
            let _ =
                self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        answer
    }
}

/// A client that speaks TLS and waits for nobody for ever.
pub(crate) fn http_client(redirects: reqwest::redirect::Policy) -> Result<reqwest::Client, String> {
    // A provider that is there already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(redirects)
        .tcp_nodelay(true)
        .build()
        .map_err(|error| format!("TLS cannot be set up: {error}"))
}

/// The innermost reason, which is the one that says something.
fn why(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

async fn judge(answer: reqwest::Response) -> Result<reqwest::Response, HubTrouble> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.text().await.unwrap_or_default();
    let told: Option<ErrorInner> =
        serde_json::from_str::<ErrorBody>(&text).ok().map(|body| body.error);
    let code = told.as_ref().map(|told| told.code.clone()).unwrap_or_default();
    let message = match told {
        Some(ErrorInner { message, help: Some(help), .. }) => format!("{message}; {help}"),
        Some(ErrorInner { message, .. }) => message,
        None => format!("status {status}"),
    };
    let later = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    Err(match (later, code.as_str()) {
        (true, _) => HubTrouble::Away(message),
        (false, "lease_lost") => HubTrouble::Lost(message),
        // A job that the hub no longer keeps is not ours either.
        (false, "not_found") => HubTrouble::Lost(message),
        _ => HubTrouble::Refused { status: status.as_u16(), message },
    })
}

async fn read<T: DeserializeOwned>(answer: reqwest::Response) -> Result<T, HubTrouble> {
    answer
        .json()
        .await
        .map_err(|error| HubTrouble::Away(format!("a broken answer: {}", why(&error))))
}

fn escaped(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_is_called_cannot_leave_its_place_in_the_path() {
        assert_eq!(escaped("worker-01"), "worker-01");
        assert_eq!(escaped("../jobs?x=ü"), "..%2Fjobs%3Fx%3D%C3%BC");
    }

    #[test]
    fn a_hub_that_cannot_be_reached_by_http_is_refused() {
        let error = HubClient::new(&["ftp://x".to_owned()], None).err().unwrap().to_string();
        assert!(error.contains("http or https"), "{error}");
        assert!(HubClient::new(&[], None).is_err());
    }
}
