//! Reads each event of the store once and hands it, already written, to every open stream. A stream that falls
//! behind, or that begins in the past, reads the store itself and joins later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use runcue_core::{Event, EventKind, StateWord, WorkerId};
use runcue_engine::Clock;
use runcue_store::Store;
use runcue_view::EventView;
use serde::Serialize;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::ended_by::EndedBy;
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
    /// The number of the last.
    pub last: u64,
    all: Bytes,
    jobs: Bytes,
    bare: Bytes,
}

impl Batch {
    /// Writes down events, of which there are some.
    fn of(events: &[Event], names: &Names) -> Option<Self> {
        let (first, last) = (events.first()?.seq, events.last()?.seq);
        let write = |shows| written(events, shows, names);
        let (all, jobs, bare) = (write(Shows::All), write(Shows::Jobs), write(Shows::JobsBare));
        Some(Self { first, last, all, jobs, bare })
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
            Shows::All => {
                frame(&mut text, event.seq, event.kind.wire(), &NamedEvent::of(event, names))
            }
            Shows::Jobs | Shows::JobsBare => job_frame(&mut text, event, shows, names),
        }
    }
    text.into()
}

/// The workers that events speak of.
pub fn workers_of(events: &[Event]) -> Vec<WorkerId> {
    events.iter().filter_map(|event| event.worker).collect()
}

fn frame(text: &mut String, seq: u64, name: &str, data: &impl Serialize) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail, and an event can always be written as JSON, which has no line breaks.
    let data = serde_json::to_string(data).unwrap_or_default();
    let _ = write!(text, "id: {seq}\nevent: {name}\ndata: {data}\n\n");
}

/// An event with what its worker is called.
#[derive(Serialize)]
struct NamedEvent {
    #[serde(flatten)]
    event: EventView,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
}

impl NamedEvent {
    fn of(event: &Event, names: &Names) -> Self {
        let worker_id = event.worker.map(|id| names.of(id));
        Self { event: EventView::from(event), worker_id }
    }
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
        EventKind::Leased => ("job:assigned", StateWord::Leased),
        EventKind::Started => ("job:assigned", StateWord::Running),
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

/// Who else is handed every event.
#[derive(Clone, Copy)]
pub struct Readers<'a> {
    /// What workers are called.
    pub names: &'a Names,
    /// The figures of the last hour.
    pub series: &'a Series,
    /// Who ended jobs.
    pub ended_by: &'a EndedBy,
}

impl Readers<'_> {
    fn take(&self, events: &[Event]) {
        self.series.add(events);
        self.ended_by.add(events);
    }
}

/// The one reader of events.
pub struct Tail {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    batches: broadcast::Sender<Arc<Batch>>,
}

impl Tail {
    /// A tail that nobody listens to yet.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, batches: broadcast::Sender::new(BEHIND) }
    }

    /// Listens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Batch>> {
        self.batches.subscribe()
    }

    /// Reads until the end.
    pub async fn run(&self, readers: Readers<'_>, end: CancellationToken) {
        let mut after = self.begin(readers).await;
        let mut seen = self.store.changed(0).await;
        loop {
            match self.store.events(after, BATCH).await {
                Ok(events) => {
                    if let Some(last) = events.last() {
                        after = last.seq;
                        self.pass_on(&events, readers).await;
                        tokio::time::sleep(REST).await;
                        continue;
                    }
                }
                Err(error) => tracing::debug!(%error, "events could not be read; trying again"),
            }
            tokio::select! {
                () = end.cancelled() => return,
                version = self.store.changed(seen) => seen = version,
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    async fn pass_on(&self, events: &[Event], readers: Readers<'_>) {
        readers.take(events);
        if self.batches.receiver_count() == 0 {
            return;
        }
        let names = readers.names;
        names.learn(&*self.store, &workers_of(events), self.clock.now()).await;
        if let Some(batch) = Batch::of(events, names) {
            // Nobody listening is fine.
            let _ = self.batches.send(Arc::new(batch));
        }
    }

    /// Recalls the latest events for the figures, and answers where to go on.
    async fn begin(&self, readers: Readers<'_>) -> u64 {
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
            readers.take(&events);
            after = read;
        }
        after
    }
}
