//! Reads each event of the store once and hands it, already written, to every open stream. A stream that falls
//! behind, or that begins in the past, reads the store itself and joins later.
//!
//! A store has no event for a claim, only for the start that follows. What this hub hands out it tells its streams of
//! itself: between the events, after the one that the job was queued by and before any of the claimed attempt.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use runcue_core::{Event, EventKind, Job, Lease, StateWord, Timestamp};
use runcue_engine::Clock;
use runcue_store::Store;
use runcue_view::EventView;
use serde::Serialize;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::names::Names;
use crate::series::Series;
use crate::wire::status_of;

/// Events that are read at once.
pub const BATCH: usize = 1_000;
/// Batches a stream may fall behind.
const BEHIND: usize = 256;
/// How often everything is looked at when no news comes.
const POLL: Duration = Duration::from_secs(1);
/// The shortest time between two batches, so that a busy queue makes few large ones.
const REST: Duration = Duration::from_millis(10);
/// Events that are read again at start, for the figures of the last hour.
const RECALLED: u64 = 100_000;
/// Claims that wait to be told; beyond that the oldest are told with their start.
const UNTOLD: usize = 10_000;

/// What a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Everything, in runcue's words.
    All,
    /// Jobs, in the hub's words.
    Jobs,
    /// The same without payload, for whoever has no token.
    JobsBare,
}

/// Events that were read together, written in every way that is shown.
#[derive(Debug)]
pub struct Batch {
    /// The number of the first.
    pub first: u64,
    /// The number of the last; below the first if there are only claims.
    pub last: u64,
    all: Bytes,
    jobs: Bytes,
    bare: Bytes,
}

impl Batch {
    /// Writes down the events after a number, and claims between them.
    fn of(after: u64, events: &[Event], claims: &[Event], names: &Names) -> Self {
        let first = events.first().map_or(after + 1, |event| event.seq);
        let last = events.last().map_or(after, |event| event.seq);
        let write = |shows| with_claims(events, claims, shows, names);
        let all = written(events, Shows::All, names);
        Self { first, last, all, jobs: write(Shows::Jobs), bare: write(Shows::JobsBare) }
    }

    /// Whether it has claims and no events.
    pub fn is_aside(&self) -> bool {
        self.first > self.last
    }

    /// As one kind of stream shows it.
    pub fn shown(&self, shows: Shows) -> Bytes {
        match shows {
            Shows::All => self.all.clone(),
            Shows::Jobs => self.jobs.clone(),
            Shows::JobsBare => self.bare.clone(),
        }
    }
}

/// Events as a stream shows them.
pub fn written(events: &[Event], shows: Shows, names: &Names) -> Bytes {
    let mut text = String::with_capacity(events.len() * 160);
    for event in events {
        match shows {
            Shows::All => frame(&mut text, event.seq, event.kind.wire(), &EventView::from(event)),
            Shows::Jobs | Shows::JobsBare => job_frame(&mut text, event, shows, names),
        }
    }
    text.into()
}

/// Events of jobs with claims among them, each before what comes of it, and at the end those that nothing has come of.
fn with_claims(events: &[Event], claims: &[Event], shows: Shows, names: &Names) -> Bytes {
    let mut text = String::with_capacity((events.len() + claims.len()) * 160);
    let of = |claim: &Event| (claim.job, claim.attempt);
    let mut untold: BTreeSet<_> = claims.iter().map(of).collect();
    let by_attempt: BTreeMap<_, &Event> = claims.iter().map(|claim| (of(claim), claim)).collect();
    for event in events {
        // Nothing comes of a claim but events of its attempt, or of a later one.
        if event.job.is_some() && event.kind != EventKind::Queued {
            for (of, claim) in by_attempt.range((event.job, None)..=(event.job, event.attempt)) {
                if untold.remove(of) {
                    job_frame(&mut text, claim, shows, names);
                }
            }
        }
        job_frame(&mut text, event, shows, names);
    }
    for claim in claims.iter().filter(|claim| untold.contains(&of(claim))) {
        job_frame(&mut text, claim, shows, names);
    }
    text.into()
}

/// A claim as its job's streams are told: as an event that the store has no number for.
fn claim_event((job, lease): &(Job, Lease), now: Timestamp) -> Event {
    Event {
        attempt: Some(lease.attempt),
        worker: Some(lease.worker),
        state: Some(StateWord::Leased),
        ..Event::of_job(EventKind::Started, now, job)
    }
}

fn frame(text: &mut String, seq: u64, name: &str, data: &impl Serialize) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail, and an event can always be written as JSON, which has no line breaks.
    let data = serde_json::to_string(data).unwrap_or_default();
    if seq > 0 {
        let _ = writeln!(text, "id: {seq}");
    }
    let _ = write!(text, "event: {name}\ndata: {data}\n\n");
}

#[derive(Serialize)]
struct JobEvent<'a> {
    id: runcue_core::JobId,
    #[serde(rename = "type")]
    task: Option<&'a str>,
    status: &'static str,
    ts: i64,
    #[serde(flatten)]
    more: Option<More<'a>>,
}

#[derive(Serialize)]
struct More<'a> {
    state: StateWord,
    attempt: Option<u32>,
    worker_id: Option<String>,
    group: Option<&'a str>,
    fail_reason: Option<&'a str>,
    retry_at: Option<i64>,
    percent: Option<f32>,
    message: Option<&'a str>,
}

/// The documented name of an event and the state the job is in after it.
fn job_event(event: &Event) -> Option<(&'static str, StateWord)> {
    Some(match event.kind {
        EventKind::Queued => ("job:created", StateWord::Queued),
        EventKind::Started => ("job:assigned", event.state.unwrap_or(StateWord::Running)),
        EventKind::Progress => ("job:progress", StateWord::Running),
        EventKind::Completed => ("job:completed", StateWord::Completed),
        EventKind::Failed if event.state == Some(StateWord::Quarantined) => {
            ("job:quarantined", StateWord::Quarantined)
        }
        EventKind::Failed => ("job:failed", StateWord::Failed),
        EventKind::Retrying => ("job:retrying", StateWord::Queued),
        EventKind::Cancelled => ("job:failed", StateWord::Cancelled),
        _ => return None,
    })
}

fn job_frame(text: &mut String, event: &Event, shows: Shows, names: &Names) {
    let (Some(id), Some((name, state))) = (event.job, job_event(event)) else {
        if event.kind == EventKind::Missed {
            frame(text, event.seq, "events_missed", &EventView::from(event));
        }
        return;
    };
    let cancelled = (state == StateWord::Cancelled).then_some("cancelled");
    let more = (shows == Shows::Jobs).then(|| More {
        state,
        attempt: event.attempt,
        worker_id: event.worker.map(|id| names.of(id)),
        group: event.group.as_ref().map(runcue_core::GroupName::as_str),
        fail_reason: cancelled.or(event.error.as_deref()),
        retry_at: event.retry_at.map(runcue_view::millis),
        percent: event.percent,
        message: event.message.as_deref(),
    });
    let task = event.task.as_ref().map(runcue_core::TaskName::as_str);
    let ts = runcue_view::millis(event.at);
    frame(text, event.seq, name, &JobEvent { id, task, status: status_of(state), ts, more });
}

/// The one reader of events.
pub struct Tail {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    batches: broadcast::Sender<Arc<Batch>>,
    claims: Mutex<VecDeque<Event>>,
    bell: Notify,
}

impl Tail {
    /// A tail that nobody listens to yet.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let batches = broadcast::Sender::new(BEHIND);
        Self { store, clock, batches, claims: Mutex::default(), bell: Notify::new() }
    }

    /// Tells of jobs that this hub has handed out.
    pub fn claimed(&self, jobs: &[(Job, Lease)], now: Timestamp) {
        if jobs.is_empty() || self.batches.receiver_count() == 0 {
            return;
        }
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.extend(jobs.iter().map(|job| claim_event(job, now)));
        let over = claims.len().saturating_sub(UNTOLD);
        claims.drain(..over);
        drop(claims);
        self.bell.notify_one();
    }

    fn take_claims(&self) -> Vec<Event> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Listens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Batch>> {
        self.batches.subscribe()
    }

    /// Reads until the end.
    pub async fn run(&self, names: &Names, series: &Series, end: CancellationToken) {
        let mut after = self.begin(series).await;
        let mut seen = self.store.changed(0).await;
        let mut claims = Vec::new();
        loop {
            // Taken before the events are read: the event that a claimed job was queued by is among those, if they are
            // read to the end.
            claims.extend(self.take_claims());
            match self.store.events(after, BATCH).await {
                Ok(events) => {
                    let to_the_end = events.len() < BATCH;
                    let told = if to_the_end { std::mem::take(&mut claims) } else { Vec::new() };
                    let read = !events.is_empty();
                    self.pass_on(after, &events, &told, names, series).await;
                    after = events.last().map_or(after, |event| event.seq);
                    if read {
                        tokio::time::sleep(REST).await;
                        continue;
                    }
                }
                Err(error) => tracing::debug!(%error, "events could not be read; trying again"),
            }
            tokio::select! {
                () = end.cancelled() => return,
                () = self.bell.notified() => {}
                version = self.store.changed(seen) => seen = version,
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    async fn pass_on(
        &self,
        after: u64,
        events: &[Event],
        claims: &[Event],
        names: &Names,
        series: &Series,
    ) {
        series.add(events);
        if self.batches.receiver_count() == 0 || events.is_empty() && claims.is_empty() {
            return;
        }
        let workers: Vec<_> =
            events.iter().chain(claims).filter_map(|event| event.worker).collect();
        names.learn(&*self.store, &workers, self.clock.now()).await;
        // Nobody listening is fine.
        let _ = self.batches.send(Arc::new(Batch::of(after, events, claims, names)));
    }

    /// Recalls the latest events for the figures, and answers where to go on.
    async fn begin(&self, series: &Series) -> u64 {
        let last = loop {
            match self.store.last_event().await {
                Ok(last) => break last,
                Err(error) => tracing::debug!(%error, "the store is away; trying again"),
            }
            tokio::time::sleep(POLL).await;
        };
        let mut after = last.saturating_sub(RECALLED);
        while after < last {
            let Ok(events) = self.store.events(after, BATCH).await else { return last };
            let Some(read) = events.last().map(|event| event.seq) else { return last };
            series.add(&events);
            after = read;
        }
        after
    }
}
