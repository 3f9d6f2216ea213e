//! Events: what happened, in the order it happened. A store numbers them and keeps them for a while, so
//! that a reader who comes back misses nothing.

use serde::{Deserialize, Serialize};

use crate::ids::{GroupName, JobId, QueueName, ServiceName, TaskName, WorkerId};
use crate::job::{Job, StateWord};
use crate::time::Timestamp;

/// What sort of thing happened. In the libraries it is the short word; on the wire and in logs the long
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A job was submitted, or sent round again by a person.
    #[serde(rename = "work_queued")]
    Queued,
    /// A job was handed to a worker that has not yet said it began.
    #[serde(rename = "work_leased")]
    Leased,
    /// An attempt began.
    #[serde(rename = "work_started")]
    Started,
    /// A job says how far it is.
    #[serde(rename = "work_progress")]
    Progress,
    /// A job is done.
    #[serde(rename = "work_completed")]
    Completed,
    /// A job failed for good or was set aside; the state tells which.
    #[serde(rename = "work_failed")]
    Failed,
    /// An attempt ended without success and another will follow.
    #[serde(rename = "work_retrying")]
    Retrying,
    /// A job was withdrawn.
    #[serde(rename = "work_cancelled")]
    Cancelled,
    /// A summary of the queue.
    #[serde(rename = "queue_status")]
    QueueStatus,
    /// A service's breaker, hold, pause or limits changed.
    #[serde(rename = "service_status")]
    ServiceStatus,
    /// A queue is nearly full.
    #[serde(rename = "backpressure_active")]
    Backpressure,
    /// A group was paused or resumed.
    #[serde(rename = "group_status")]
    GroupStatus,
    /// A reader came back too late: events that it has not seen are no longer kept. Made for that reader,
    /// and not stored.
    #[serde(rename = "events_missed")]
    Missed,
}

impl EventKind {
    /// The long word.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Queued => "work_queued",
            Self::Leased => "work_leased",
            Self::Started => "work_started",
            Self::Progress => "work_progress",
            Self::Completed => "work_completed",
            Self::Failed => "work_failed",
            Self::Retrying => "work_retrying",
            Self::Cancelled => "work_cancelled",
            Self::QueueStatus => "queue_status",
            Self::ServiceStatus => "service_status",
            Self::Backpressure => "backpressure_active",
            Self::GroupStatus => "group_status",
            Self::Missed => "events_missed",
        }
    }

    /// The short word.
    pub fn short(self) -> &'static str {
        self.wire().strip_prefix("work_").unwrap_or(self.wire())
    }

    /// Whether it ends a job, and so is never dropped.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Final {
    /// Done: dependents may go on.
    Completed,
    /// Failed or quarantined: dependents fail.
    Failed,
    /// Withdrawn: dependents fail, or are withdrawn too.
    Cancelled,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number; a reader resumes after the last one it saw.
    #[serde(default)]
    pub seq: u64,
    /// What.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// When.
    #[serde(default)]
    pub at: Timestamp,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// Its group, or the group this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The queue this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// The job's final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWord>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The service this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// How far, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f32>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the attempt took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

impl Event {
    /// An event about nothing in particular yet; the store gives it its number.
    pub fn new(kind: EventKind, at: Timestamp) -> Self {
        Self {
            seq: 0,
            kind,
            at,
            job: None,
            task: None,
            group: None,
            queue: None,
            attempt: None,
            worker: None,
            state: None,
            error: None,
            retry_at: None,
            service: None,
            percent: None,
            message: None,
            took: None,
        }
    }

    /// What a reader has missed that has seen the events up to a number when the next one kept is this one;
    /// nothing if none is missing. Whoever begins with zero has seen none and misses none.
    pub fn missed(seen: u64, next: u64, at: Timestamp) -> Option<Self> {
        if seen == 0 || next <= seen + 1 {
            return None;
        }
        let message = format!("events {} to {} are no longer kept", seen + 1, next - 1);
        Some(Self { seq: next - 1, message: Some(message), ..Self::new(EventKind::Missed, at) })
    }

    /// An event about a job.
    pub fn of_job(kind: EventKind, at: Timestamp, job: &Job) -> Self {
        let attempt = (job.life.attempt > 0).then_some(job.life.attempt);
        Self {
            job: Some(job.spec.id),
            task: Some(job.spec.task.clone()),
            group: job.spec.group.clone(),
            attempt,
            ..Self::new(kind, at)
        }
    }
}

/// Which of their fields events that are written together have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    kind: bool,
    task: bool,
    group: bool,
    attempt: bool,
    worker: bool,
    state: bool,
}

impl Shared {
    /// What these events share.
    pub fn of(events: &[Event]) -> Self {
        let Some((first, rest)) = events.split_first() else { return Self::default() };
        let mut shared =
            Self { kind: true, task: true, group: true, attempt: true, worker: true, state: true };
        for event in rest {
            shared.kind &= event.kind == first.kind;
            shared.task &= event.task == first.task;
            shared.group &= event.group == first.group;
            shared.attempt &= event.attempt == first.attempt;
            shared.worker &= event.worker == first.worker;
            shared.state &= event.state == first.state;
        }
        shared
    }
}

impl Event {
    /// Appends the JSON that serializing gives, with number and instant only where they are asked for. Every
    /// job is written down in events several times, and this takes a fifth of the time.
    pub fn write_json(&self, to: &mut String, seq: Option<u64>, at: Option<Timestamp>) {
        self.write_rest(to, Shared::default(), seq, at);
    }

    /// Appends the JSON of the fields that it shares with others.
    pub fn write_shared(&self, to: &mut String, shared: Shared) {
        to.push('{');
        self.write_common(to, |is_shared| is_shared, shared);
        to.push('}');
    }

    /// Appends the JSON of its other fields, with number and instant only where they are asked for.
    pub fn write_rest(
        &self,
        to: &mut String,
        shared: Shared,
        seq: Option<u64>,
        at: Option<Timestamp>,
    ) {
        to.push('{');
        self.write_common(to, |is_shared| !is_shared, shared);
        number(to, "seq", seq);
        signed(to, "at", at);
        id(to, "job", self.job.map(JobId::digits));
        text(to, "queue", self.queue.as_ref().map(QueueName::as_str));
        text(to, "error", self.error.as_deref());
        signed(to, "retry_at", self.retry_at);
        text(to, "service", self.service.as_ref().map(ServiceName::as_str));
        if let Some(percent) = self.percent {
            name(to, "percent");
            to.push_str(&serde_json::to_string(&percent).unwrap_or_default());
        }
        text(to, "message", self.message.as_deref());
        number(to, "took", self.took);
        to.push('}');
    }

    fn write_common(&self, to: &mut String, wanted: impl Fn(bool) -> bool, shared: Shared) {
        if wanted(shared.kind) {
            text(to, "type", Some(self.kind.wire()));
        }
        if wanted(shared.task) {
            text(to, "task", self.task.as_ref().map(TaskName::as_str));
        }
        if wanted(shared.group) {
            text(to, "group", self.group.as_ref().map(GroupName::as_str));
        }
        if wanted(shared.attempt) {
            number(to, "attempt", self.attempt.map(u64::from));
        }
        if wanted(shared.worker) {
            id(to, "worker", self.worker.map(WorkerId::digits));
        }
        if wanted(shared.state) {
            text(to, "state", self.state.map(StateWord::as_str));
        }
    }
}

fn name(to: &mut String, name: &str) {
    if !to.ends_with('{') {
        to.push(',');
    }
    to.push('"');
    to.push_str(name);
    to.push_str("\":");
}

fn id(to: &mut String, field: &str, digits: Option<[u8; 32]>) {
    if let Some(digits) = digits {
        name(to, field);
        to.push('"');
        to.push_str(std::str::from_utf8(&digits).unwrap_or_default());
        to.push('"');
    }
}

fn signed(to: &mut String, field: &str, at: Option<Timestamp>) {
    if let Some(at) = at {
        name(to, field);
        if at < Timestamp::ZERO {
            to.push('-');
        }
        decimal(to, at.as_micros().unsigned_abs());
    }
}

fn number(to: &mut String, field: &str, value: Option<u64>) {
    if let Some(value) = value {
        name(to, field);
        decimal(to, value);
    }
}

fn decimal(to: &mut String, mut value: u64) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len() - 1;
    while value > 9 {
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        first -= 1;
    }
    digits[first] = b'0' + value as u8;
    to.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

fn text(to: &mut String, field: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    name(to, field);
    let plain = value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if plain {
        to.push('"');
        to.push_str(value);
        to.push('"');
    } else {
        to.push_str(&serde_json::to_string(value).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;

    #[test]
    fn the_short_way_of_writing_an_event_gives_what_serializing_gives() {
        let at = Timestamp::from_micros(5);
        let plain =
            Event { seq: 7, job: Some(JobId::from_u128(9)), ..Event::new(EventKind::Queued, at) };
        let full = Event {
            task: TaskName::new("a \"task\"").ok(),
            group: GroupName::new("ü\\").ok(),
            queue: Some(QueueName::default()),
            attempt: Some(3),
            worker: Some(WorkerId::from_u128(4)),
            state: Some(StateWord::Failed),
            error: Some("line\nbreak \u{1}".into()),
            retry_at: Some(at),
            service: ServiceName::new("api").ok(),
            percent: Some(12.5),
            message: Some(String::new()),
            took: Some(1),
            ..plain.clone()
        };
        let early = Event {
            retry_at: Some(Timestamp::from_micros(-1_000_000)),
            took: Some(u64::MAX),
            attempt: Some(10),
            ..plain.clone()
        };
        for event in [plain, full, early] {
            let mut written = String::new();
            event.write_json(&mut written, Some(event.seq), Some(event.at));
            assert_eq!(serde_json::from_str::<Event>(&written).unwrap(), event);
            let fields = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(fields(&written), fields(&serde_json::to_string(&event).unwrap()));
        }
    }
}
