//! The event stream: what happened, in order, without gaps, from any point on. Results come with the events
//! of completed jobs. Nothing is buffered here for slow readers: the store keeps the events, a reader keeps
//! its place.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use runcue_core::{Event, EventKind, JobId, Json};
use runcue_store::{Result, Stats};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::error::Error;
use crate::shared::{Shared, backoff};

/// Events read at a time.
const BATCH: usize = 256;

/// Something that happened, with the result if it is that a job completed.
#[derive(Clone, Debug)]
pub struct JobEvent {
    /// What happened.
    pub event: Event,
    /// What came of a completed job.
    pub result: Option<Json>,
}

impl Deref for JobEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl JobEvent {
    /// The result, read into a type; null for a job that gave none.
    pub fn result<T: DeserializeOwned>(&self) -> crate::error::Result<T> {
        let json = self.result.clone().unwrap_or_else(Json::null);
        json.to().map_err(|source| Error::Json { what: "result", source })
    }
}

/// A reader of events. It ends when the cue is stopped and everything was read.
pub struct Events {
    shared: Arc<Shared>,
    after: u64,
    /// The first read is done.
    resumed: bool,
    ahead: VecDeque<JobEvent>,
    news: watch::Receiver<u64>,
    status: watch::Receiver<Option<Arc<Stats>>>,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>, after: u64) -> Self {
        let news = shared.news.subscribe();
        let status = shared.status.subscribe();
        Self { shared, after, resumed: false, ahead: VecDeque::new(), news, status }
    }

    /// The number of the last event that was read; pass it to `events_after` to go on from here.
    pub fn position(&self) -> u64 {
        self.ahead.front().map_or(self.after, |next| next.seq.saturating_sub(1))
    }

    /// The next event. `queue_status` events are this reader's own and have the number of the event before
    /// them; all others come from the store, every one of them. A reader that came back after retention had
    /// deleted what it has not seen is told so by an `events_missed` event, whose number is that of the last
    /// one missed.
    pub async fn next(&mut self) -> Option<JobEvent> {
        let mut failures = 0;
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Some(event);
            }
            let over = self.shared.over.is_cancelled();
            self.news.mark_unchanged();
            match self.read().await {
                Ok(()) if !self.ahead.is_empty() => continue,
                Ok(()) if over => return None,
                Ok(()) => failures = 0,
                Err(_) if over => return None,
                Err(error) => {
                    failures += 1;
                    self.shared.refused("events could not be read", &error);
                    tokio::time::sleep(backoff(failures)).await;
                    continue;
                }
            }
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                _ = self.news.changed() => {}
                _ = self.status.changed() => {
                    let stats = self.status.borrow_and_update().clone();
                    if let Some(stats) = stats {
                        return Some(self.status_event(&stats));
                    }
                }
                () = shared.over.cancelled() => {}
                () = tokio::time::sleep(shared.settings.poll) => {}
            }
        }
    }

    async fn read(&mut self) -> Result<()> {
        let shared = &self.shared;
        // Everything after that place may be gone; later pages follow what was read. Asked for before the events: one
        // that comes in between would be taken for one that is gone.
        let last = match self.resumed {
            false => Some(shared.ask(shared.store.last_event()).await?),
            true => None,
        };
        let events = shared.ask(shared.store.events(self.after, BATCH)).await?;
        let next = match events.first() {
            Some(first) => first.seq,
            None => last.map_or(0, |last| last + 1),
        };
        self.resumed = true;
        if let Some(missed) = Event::missed(self.after, next, shared.clock.now()) {
            self.after = missed.seq;
            self.ahead.push_back(JobEvent { event: missed, result: None });
        }
        let completed = events.iter().filter(|event| event.kind == EventKind::Completed);
        let ids: Vec<JobId> = completed.filter_map(|event| event.job).collect();
        let mut results: HashMap<JobId, Json> = HashMap::new();
        if !ids.is_empty() {
            let jobs = shared.ask(shared.store.get(ids)).await?;
            let with_result = |job: runcue_core::Job| Some((job.id(), job.life.result?));
            results.extend(jobs.into_iter().flatten().filter_map(with_result));
        }
        for event in events {
            self.after = event.seq;
            let completed = event.kind == EventKind::Completed;
            let result = event.job.filter(|_| completed).and_then(|id| results.get(&id).cloned());
            self.ahead.push_back(JobEvent { event, result });
        }
        Ok(())
    }

    fn status_event(&self, stats: &Stats) -> JobEvent {
        let mut event = Event::new(EventKind::QueueStatus, self.shared.clock.now());
        event.seq = self.after;
        event.message = serde_json::to_string(stats).ok();
        JobEvent { event, result: None }
    }
}
