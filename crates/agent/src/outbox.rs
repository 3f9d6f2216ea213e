//! Ends on their way to the hub. Each stays here until the hub has taken it in or says that the job is somebody
//! else's; the hub may be away for as long as it likes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::client::{HubClient, HubTrouble, Lease};

/// Ends that are sent together.
const AT_ONCE: usize = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How an attempt ended, as the hub is told.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// The job.
    pub id: String,
    /// The right it was run under.
    pub lease: Lease,
    /// `completed`, `failed`, `released`, `unstarted` or `stopped`.
    pub outcome: &'static str,
    /// What it gave back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Value>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It will not go better next time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
    /// It ran too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout: bool,
    /// A finer word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Come back after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
    /// The service that said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl End {
    /// An end without anything but its word.
    pub fn new(id: String, lease: Lease, outcome: &'static str) -> Self {
        Self {
            id,
            lease,
            outcome,
            result: None,
            reason: None,
            permanent: false,
            timeout: false,
            code: None,
            retry_after: None,
            service: None,
        }
    }

    /// A failure.
    pub fn failed(id: String, lease: Lease, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::new(id, lease, "failed") }
    }
}

/// Ends on their way.
pub struct Outbox {
    ends: Mutex<Vec<End>>,
    news: Notify,
    left: watch::Sender<usize>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { ends: Mutex::default(), news: Notify::new(), left: watch::Sender::new(0) }
    }
}

impl Outbox {
    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<End>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an end to be delivered.
    pub fn add(&self, end: End) {
        let mut ends = self.ends();
        ends.push(end);
        self.left.send_replace(ends.len());
        self.news.notify_one();
    }

    /// Waits until everything is delivered.
    pub async fn empty(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    /// Delivers until the end.
    pub async fn run(&self, hub: &HubClient, worker: &str, over: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            let batch: Vec<End> = self.ends().iter().take(AT_ONCE).cloned().collect();
            if batch.is_empty() {
                tokio::select! {
                    () = over.cancelled() => return,
                    () = self.news.notified() => continue,
                }
            }
            match hub.end(worker, &batch).await {
                Ok(answers) => {
                    for answer in answers.iter().filter(|answer| answer.lost) {
                        tracing::warn!(
                            job = answer.id,
                            "its end was reported too late; it is not ours"
                        );
                    }
                    self.delivered(batch.len());
                    pause = FIRST_PAUSE;
                    continue;
                }
                Err(HubTrouble::Away(why)) => {
                    tracing::warn!(left = batch.len(), %why, "ends cannot be delivered yet");
                }
                // One of them cannot be taken in as it is: find out which.
                Err(error) => {
                    self.one_by_one(hub, worker, batch, &error).await;
                    continue;
                }
            }
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn delivered(&self, count: usize) {
        let mut ends = self.ends();
        ends.drain(..count);
        self.left.send_replace(ends.len());
    }

    async fn one_by_one(&self, hub: &HubClient, worker: &str, batch: Vec<End>, why: &HubTrouble) {
        for end in batch {
            let answer = hub.end(worker, &[&end]).await;
            match answer {
                Err(HubTrouble::Away(_)) => return,
                Ok(_) => {}
                Err(error) if end.outcome == "completed" => {
                    // A result that the hub refuses, such as one too large, is a failure that a person must see.
                    let reason = format!("the result was refused: {error}");
                    let mut refused = End::failed(end.id.clone(), end.lease.clone(), reason);
                    refused.permanent = true;
                    if let Err(error) = hub.end(worker, &[&refused]).await {
                        tracing::error!(job = end.id, %error, "its end cannot be reported");
                    }
                }
                Err(error) => {
                    tracing::error!(job = end.id, %error, %why, "its end cannot be reported")
                }
            }
            self.delivered(1);
        }
    }
}
