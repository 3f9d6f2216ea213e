//! Events that were written together, in short: what they share is written once, and what follows from the
//! run is left out: their numbers, which follow each other, and their instants where they are the run's.

use runcue_core::event::Shared;
use runcue_core::{Event, Timestamp};
use serde_json::value::RawValue;

/// A run of events as two JSON texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRun {
    /// An object with the fields that all of them have in common.
    pub shared: String,
    /// A list with the other fields of each.
    pub each: String,
}

impl EventRun {
    /// Writes a run whose instant is this.
    pub fn write(events: &[Event], at: Timestamp) -> Self {
        let fields = Shared::of(events);
        let mut shared = String::with_capacity(128);
        match events.first() {
            Some(first) => first.write_shared(&mut shared, fields),
            None => shared.push_str("{}"),
        }
        let mut each = String::with_capacity(events.len() * 64);
        each.push('[');
        for (n, event) in events.iter().enumerate() {
            if n > 0 {
                each.push(',');
            }
            event.write_rest(&mut each, fields, None, Some(event.at).filter(|own| *own != at));
        }
        each.push(']');
        Self { shared, each }
    }
}

/// A kind of event that follows so often makes a run of its own: it shares more then.
const RUN: usize = 16;

/// Events in the runs in which they are written, each of so many at the most. What a commit did comes one kind
/// after the other, and events of a kind have most in common.
pub fn runs_of_a_kind(events: &[Event], most: usize) -> impl Iterator<Item = &[Event]> {
    let mut left = events;
    std::iter::from_fn(move || {
        let mut end = 0;
        while end < left.len().min(most) {
            let next = &left[end..];
            let same = next.iter().take(most).take_while(|one| one.kind == next[0].kind).count();
            if same < RUN {
                end += same;
                continue;
            }
            if end == 0 {
                end = same;
            }
            break;
        }
        let (run, rest) = left.split_at(end.min(most));
        left = rest;
        (!run.is_empty()).then_some(run)
    })
}

/// Reads a run back that begins with this number and whose instant is this.
pub fn read_event_run(
    first: u64,
    at: Timestamp,
    shared: &str,
    each: &str,
) -> serde_json::Result<Vec<Event>> {
    let rests: Vec<&RawValue> = serde_json::from_str(each)?;
    let mut events = Vec::with_capacity(rests.len());
    let mut text = String::new();
    for (seq, rest) in (first..).zip(rests) {
        join(&mut text, shared, rest.get());
        let mut event: Event = serde_json::from_str(&text)?;
        event.seq = seq;
        event.at = if event.at == Timestamp::ZERO { at } else { event.at };
        events.push(event);
    }
    Ok(events)
}

/// Makes one object of two that have no field in common.
fn join(to: &mut String, one: &str, other: &str) {
    to.clear();
    to.push('{');
    for (n, fields) in [one, other].into_iter().filter_map(fields).enumerate() {
        if n > 0 {
            to.push(',');
        }
        to.push_str(fields);
    }
    to.push('}');
}

fn fields(object: &str) -> Option<&str> {
    let inner = object.trim().strip_prefix('{')?.strip_suffix('}')?;
    Some(inner.trim()).filter(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use runcue_core::{EventKind, GroupName, JobId, StateWord, TaskName, WorkerId};

    use super::*;

    fn event(n: u64) -> Event {
        Event {
            seq: n,
            job: Some(JobId::from_u128(u128::from(n))),
            task: TaskName::new("t \"{}\"").ok(),
            worker: Some(WorkerId::from_u128(3)),
            ..Event::new(EventKind::Started, Timestamp::from_micros(50))
        }
    }

    fn comes_back(events: &[Event]) -> EventRun {
        let at = events.last().map_or(Timestamp::ZERO, |last| last.at);
        let run = EventRun::write(events, at);
        let first = events.first().map_or(0, |first| first.seq);
        assert_eq!(read_event_run(first, at, &run.shared, &run.each).unwrap(), events);
        run
    }

    #[test]
    fn what_all_share_is_written_once() {
        let run = comes_back(&[event(7), event(8), event(9)]);
        assert!(run.shared.contains("work_started") && run.shared.contains("worker"));
        assert!(!run.each.contains("task") && !run.each.contains("type"), "{}", run.each);
    }

    #[test]
    fn a_kind_that_comes_often_has_runs_of_its_own() {
        let of = |kind, n| Event { kind, ..event(n) };
        let (done, begun) = (EventKind::Completed, EventKind::Started);
        let few: Vec<Event> = (1..30).map(|n| of([done, begun][n as usize % 2], n)).collect();
        assert_eq!(runs_of_a_kind(&few, 512).map(<[Event]>::len).collect::<Vec<_>>(), [29]);
        let many: Vec<Event> =
            (1..101).map(|n| of(if (21..61).contains(&n) { done } else { begun }, n)).collect();
        let runs: Vec<&[Event]> = runs_of_a_kind(&many, 30).collect();
        assert_eq!(runs.iter().map(|run| run.len()).collect::<Vec<_>>(), [20, 30, 10, 30, 10]);
        assert_eq!(runs.concat(), many);
        assert_eq!(runs_of_a_kind(&[], 30).count(), 0);
    }

    #[test]
    fn what_only_some_have_stays_with_them() {
        let done = Event {
            kind: EventKind::Completed,
            state: Some(StateWord::Completed),
            group: GroupName::new("g").ok(),
            at: Timestamp::from_micros(49),
            took: Some(4),
            worker: None,
            ..event(8)
        };
        let run = comes_back(&[event(7), done, event(9)]);
        assert_eq!(run.shared, r#"{"task":"t \"{}\""}"#);
    }

    #[test]
    fn runs_of_one_of_none_and_of_bare_events_come_back() {
        comes_back(&[event(1)]);
        assert_eq!(comes_back(&[]).each, "[]");
        let bare = |n| Event { seq: n, ..Event::new(EventKind::QueueStatus, Timestamp::ZERO) };
        assert_eq!(comes_back(&[bare(1), bare(2)]).each, "[{},{}]");
        let mixed = Event { kind: EventKind::Backpressure, ..bare(2) };
        assert_eq!(comes_back(&[bare(1), mixed]).shared, "{}");
    }
}
