//! The jobs that are held here, and the heartbeats that keep them: one report for all of them, which also brings
//! back what is no longer ours and what somebody wants stopped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::{HubClient, HubTrouble, Job};

/// However much is to be told, heartbeats are sent at most this often.
const AT_MOST: Duration = Duration::from_millis(500);
/// The pause after the hub was away.
const AGAIN: Duration = Duration::from_secs(2);

/// Why a job is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is not.
    Not,
    /// It is somebody else's by now: nothing is to be reported.
    Lost,
    /// Somebody withdrew it.
    Cancelled,
    /// This agent ends.
    HandBack,
}

#[derive(Clone, Debug, Serialize)]
struct Progress {
    percent: f32,
    message: String,
}

/// A job that is held.
pub struct Held {
    /// The job.
    pub job: Job,
    /// Asks it to stop.
    pub cancel: CancellationToken,
    why: Mutex<Stop>,
    progress: Mutex<Option<Progress>>,
    started: AtomicBool,
}

impl Held {
    /// Why it is to stop.
    pub fn why(&self) -> Stop {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops it. Only the first reason counts, but what is lost is lost.
    pub fn stop(&self, reason: Stop) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if *why == Stop::Not || reason == Stop::Lost {
            *why = reason;
        }
        drop(why);
        self.cancel.cancel();
    }
}

#[derive(Serialize)]
struct Beat<'a> {
    id: &'a str,
    lease: &'a crate::client::Lease,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
}

/// Every job that is held.
#[derive(Default)]
pub struct HeldJobs {
    jobs: Mutex<HashMap<String, Arc<Held>>>,
    news: Notify,
}

impl HeldJobs {
    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job that was claimed.
    pub fn add(&self, job: Job) -> Arc<Held> {
        let held = Arc::new(Held {
            cancel: CancellationToken::new(),
            why: Mutex::new(Stop::Not),
            progress: Mutex::new(None),
            started: AtomicBool::new(false),
            job,
        });
        self.jobs().insert(held.job.id.clone(), Arc::clone(&held));
        held
    }

    /// Lets go of a job.
    pub fn remove(&self, held: &Arc<Held>) {
        let mut jobs = self.jobs();
        if jobs.get(&held.job.id).is_some_and(|known| Arc::ptr_eq(known, held)) {
            jobs.remove(&held.job.id);
        }
    }

    /// A job has begun, which the hub is told at once.
    pub fn begun(&self, held: &Held) {
        held.started.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// A job says how far it is.
    pub fn progress(&self, held: &Held, percent: f32, message: String) {
        let told = Progress { percent, message };
        *held.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
        self.news.notify_one();
    }

    /// Every job that is held now.
    pub fn all(&self) -> Vec<Arc<Held>> {
        self.jobs().values().cloned().collect()
    }

    /// Reports until the end.
    pub async fn run(
        &self,
        hub: &HubClient,
        worker: &str,
        every: Duration,
        over: CancellationToken,
    ) {
        let mut pause = every;
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = self.news.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.beat(hub, worker).await {
                Err(HubTrouble::Away(_)) => AGAIN.min(every),
                _ => every,
            };
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(AT_MOST) => {}
            }
        }
    }

    async fn beat(&self, hub: &HubClient, worker: &str) -> Result<(), HubTrouble> {
        let held: Vec<Arc<Held>> =
            self.all().into_iter().filter(|held| held.started.load(Ordering::Acquire)).collect();
        if held.is_empty() {
            return Ok(());
        }
        let beat = |held: &'_ Arc<Held>| {
            held.progress.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let progress: Vec<Option<Progress>> = held.iter().map(beat).collect();
        let beats: Vec<Beat<'_>> = held
            .iter()
            .zip(&progress)
            .map(|(held, progress)| Beat {
                id: &held.job.id,
                lease: &held.job.lease,
                progress: progress.clone(),
            })
            .collect();
        let answers = match hub.beat(worker, &beats).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(jobs = held.len(), %error, "heartbeats were not taken in");
                for (held, progress) in held.iter().zip(progress) {
                    let mut waiting = held.progress.lock().unwrap_or_else(PoisonError::into_inner);
                    *waiting = waiting.take().or(progress);
                }
                return Err(error);
            }
        };
        let by_id: HashMap<&str, &Arc<Held>> =
            held.iter().map(|held| (held.job.id.as_str(), held)).collect();
        for answer in answers {
            let Some(held) = by_id.get(answer.id.as_str()) else { continue };
            if !answer.held {
                tracing::warn!(job = answer.id, "the job is somebody else's by now; stopping it");
                held.stop(Stop::Lost);
            } else if answer.cancel {
                tracing::info!(job = answer.id, "the job was cancelled; stopping it");
                held.stop(Stop::Cancelled);
            }
        }
        Ok(())
    }
}
