//! Spans: begun by a [`Tracer`], ended by whoever began them, and then on their way in a bounded queue. Owns the queue
//! and the count of what did not fit; who empties it is the exporter's matter.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use runcue_core::{Timestamp, TraceParent};
use tokio::sync::mpsc;

use crate::sampler::Sampler;

/// Ended spans that wait to be delivered, at most.
const WAITING: usize = 4096;

/// What a span is to the spans around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something is put in a queue.
    Producer,
    /// Something from a queue is worked on.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(i64::from(number))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// What is said of a span at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    /// What it is called.
    pub name: String,
    /// What it is to the spans around it.
    pub kind: Kind,
    /// What else is known.
    pub attributes: Vec<(&'static str, Value)>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its own place in its trace.
    pub place: TraceParent,
    /// The span above it.
    pub parent: Option<u64>,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What is said of it.
    pub details: Details,
}

/// Ended spans, for whoever delivers them.
#[derive(Debug)]
pub struct Spans {
    pub(crate) queue: mpsc::Receiver<Ended>,
    pub(crate) dropped: Arc<AtomicU64>,
}

impl Spans {
    /// The next one, if there is one by now.
    pub fn next_now(&mut self) -> Option<Ended> {
        self.queue.try_recv().ok()
    }

    /// How many did not fit since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

type Bits = dyn Fn() -> u128 + Send + Sync;

struct Inner {
    sampler: Sampler,
    bits: Box<Bits>,
    queue: mpsc::Sender<Ended>,
    dropped: Arc<AtomicU64>,
}

/// Begins spans, or nothing at all if it is off. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Tracer(on)" } else { "Tracer(off)" })
    }
}

impl Tracer {
    /// One that makes no spans.
    pub fn off() -> Self {
        Self(None)
    }

    /// One that does, with the other end of its queue. `bits` gives 128 random bits at a time.
    pub fn new(sampler: Sampler, bits: impl Fn() -> u128 + Send + Sync + 'static) -> (Self, Spans) {
        let (queue, receiver) = mpsc::channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let spans = Spans { queue: receiver, dropped: Arc::clone(&dropped) };
        (Self(Some(Arc::new(Inner { sampler, bits: Box::new(bits), queue, dropped }))), spans)
    }

    /// Whether it makes spans.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span below another, or a trace of its own; nothing if tracing is off, and then nobody is asked for the
    /// time either.
    pub fn start(
        &self,
        parent: Option<TraceParent>,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Span> {
        let inner = self.0.as_ref()?;
        let place = loop {
            let bits = (inner.bits)();
            // Ids of zero are forbidden, and as likely as anything else.
            let place = match parent {
                Some(above) => above.child(low(bits), inner.sampler.keeps(parent, above.trace())),
                None => {
                    let trace = (inner.bits)();
                    TraceParent::new(trace, low(bits), inner.sampler.keeps(None, trace))
                }
            };
            if let Some(place) = place {
                break place;
            }
        };
        let parent = parent.map(TraceParent::span);
        Some(Span { tracer: Arc::clone(inner), place, parent, began: now() })
    }
}

/// Half of the bits is what a span needs.
fn low(bits: u128) -> u64 {
    bits as u64
}

/// A span that has begun. One that is dropped without an end is not told of.
#[must_use = "a span that is not ended is not told of"]
pub struct Span {
    tracer: Arc<Inner>,
    place: TraceParent,
    parent: Option<u64>,
    began: Timestamp,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({})", self.place)
    }
}

impl Span {
    /// Its place in its trace, for what happens below it.
    pub fn place(&self) -> TraceParent {
        self.place
    }

    /// Ends it. What is said of it is only asked for if somebody will hear it.
    pub fn end(self, now: Timestamp, details: impl FnOnce() -> Details) {
        if !self.place.is_sampled() {
            return;
        }
        let Self { tracer, place, parent, began } = self;
        // A clock that was set back does not make a span end before it began.
        let span = Ended { place, parent, began, ended: now.max(began), details: details() };
        if tracer.queue.try_send(span).is_err() {
            tracer.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn tracer() -> (Tracer, Spans) {
        let next = AtomicU64::new(0);
        Tracer::new(Sampler::default(), move || next.fetch_add(1, Ordering::Relaxed).into())
    }

    fn details() -> Details {
        Details { name: "x".to_owned(), kind: Kind::Consumer, attributes: Vec::new(), error: None }
    }

    #[test]
    fn a_tracer_that_is_off_makes_nothing() {
        assert!(Tracer::off().start(None, || NOW).is_none());
        assert!(Tracer::off().start(TraceParent::new(1, 1, true), || NOW).is_none());
    }

    #[test]
    fn a_span_is_below_its_parent_and_a_root_is_a_trace_of_its_own() {
        let (tracer, mut spans) = tracer();
        let root = tracer.start(None, || NOW).unwrap();
        let child = tracer.start(Some(root.place()), || NOW).unwrap();
        assert_eq!(child.place().trace(), root.place().trace());
        assert_ne!(child.place().span(), root.place().span());
        let above = root.place().span();
        child.end(NOW, details);
        root.end(NOW, details);
        assert_eq!(spans.next_now().unwrap().parent, Some(above));
        assert_eq!(spans.next_now().unwrap().parent, None);
        assert_eq!(spans.next_now(), None);
    }

    #[test]
    fn a_trace_that_is_not_kept_goes_on_and_is_not_told_of() {
        let (tracer, mut spans) = tracer();
        let parent = TraceParent::new(7, 7, false);
        let span = tracer.start(parent, || NOW).unwrap();
        assert_eq!((span.place().trace(), span.place().is_sampled()), (7, false));
        span.end(NOW, || unreachable!("nobody will hear it"));
        assert_eq!(spans.next_now(), None);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (tracer, mut spans) = tracer();
        for _ in 0..WAITING + 3 {
            tracer.start(None, || NOW).unwrap().end(NOW, details);
        }
        assert_eq!(spans.take_dropped(), 3);
        assert_eq!(spans.take_dropped(), 0);
        let kept = std::iter::from_fn(|| spans.next_now()).count();
        assert_eq!(kept, WAITING);
    }

    #[test]
    fn a_span_never_ends_before_it_began() {
        let (tracer, mut spans) = tracer();
        tracer.start(None, || NOW).unwrap().end(Timestamp::ZERO, details);
        assert_eq!(spans.next_now().unwrap().ended, NOW);
    }
}
