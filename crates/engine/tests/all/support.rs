//! What the topics share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use runcue_core::{Job, Rate, RetryPolicy, ServiceName, ServiceSpec, StateWord};
use runcue_engine::{Cue, Failure, Task, Work};

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Retries without jitter, so that instants can be compared.
pub fn retry(attempts: u32) -> RetryPolicy {
    RetryPolicy { jitter: false, ..RetryPolicy::attempts(attempts) }
}

pub fn word(job: &Job) -> StateWord {
    job.life.state.word()
}

pub fn service(name: &str) -> ServiceSpec {
    ServiceSpec::new(ServiceName::new(name).unwrap())
}

pub fn rated(name: &str, limit: u64, window: Duration) -> ServiceSpec {
    ServiceSpec { rates: vec![Rate { limit, window }], ..service(name) }
}

/// A task whose jobs are done at once.
pub fn quick(name: &str) -> Task {
    Task::new(name).unwrap().handler(|_| async { Ok(()) })
}

/// A task whose jobs take so long.
pub fn slow(name: &str, span: Duration) -> Task {
    Task::new(name).unwrap().handler(move |_| async move {
        tokio::time::sleep(span).await;
        Ok(())
    })
}

/// A task whose jobs never end by themselves.
pub fn endless(name: &str) -> Task {
    Task::new(name).unwrap().handler(|_| std::future::pending::<Result<(), Failure>>())
}

/// How many handlers are at work, and the most there ever were.
#[derive(Clone, Default)]
pub struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Crowd {
    pub async fn enter(&self, span: Duration) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(span).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A list that handlers add to.
#[derive(Clone)]
pub struct Record<T>(Arc<std::sync::Mutex<Vec<T>>>);

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Record<T> {
    pub fn add(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// A task that records its jobs' targets in the order they ran.
pub fn recording(name: &str, record: &Record<String>) -> Task {
    let record = record.clone();
    Task::new(name).unwrap().handler(move |work: Work| {
        record.add(work.target().unwrap_or_default().to_owned());
        async { Ok(()) }
    })
}

/// Waits until a job is being worked on.
pub async fn until_running(cue: &Cue, id: runcue_core::JobId) {
    let mut events = cue.events_after(0);
    while cue.get(id).await.unwrap().life.state.lease().is_none() {
        events.next().await.unwrap();
    }
}
