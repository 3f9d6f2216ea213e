//! Where a job stands in a distributed trace: [`TraceParent`], in the words of W3C Trace Context. Owns its form and
//! its check. Spans are made elsewhere, and so are the random bits of their ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many characters a `traceparent` has.
pub const LENGTH: usize = 55;
/// The flag that says that the trace is kept.
const SAMPLED: u8 = 1;

/// The place of something in a trace: which trace, below which span, and whether it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// Why a text is no `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "traceparent must be 00-TRACE-SPAN-FLAGS with 32, 16 and 2 digits of 0-9 and a-f, TRACE and SPAN not all zeros; it \
     is {0:?}"
)]
pub struct BadTraceParent(String);

impl TraceParent {
    /// A place in a trace; nothing for ids that the standard forbids.
    pub fn new(trace: u128, span: u64, sampled: bool) -> Option<Self> {
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: u8::from(sampled) })
    }

    /// The trace's identity.
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// The span's identity.
    pub fn span(self) -> u64 {
        self.span
    }

    /// Whether whoever made this keeps the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// A place below this one, in the same trace; nothing for an id that the standard forbids.
    pub fn child(self, span: u64, sampled: bool) -> Option<Self> {
        let flags = self.flags & !SAMPLED | u8::from(sampled);
        (span != 0).then_some(Self { span, flags, ..self })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = BadTraceParent;

    fn from_str(text: &str) -> Result<Self, BadTraceParent> {
        read(text).ok_or_else(|| {
            // Somebody may have put a book there.
            BadTraceParent(text.chars().take(LENGTH + 5).collect())
        })
    }
}

fn read(text: &str) -> Option<TraceParent> {
    if text.len() != LENGTH || !text.is_ascii() {
        return None;
    }
    let mut parts = text.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags) = (parts.next()?, parts.next()?);
    let sizes = [version.len(), trace.len(), span.len(), flags.len()];
    let digits = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let good = parts.next().is_none()
        && sizes == [2, 32, 16, 2]
        && version == "00"
        && [trace, span, flags].into_iter().all(digits);
    if !good {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
    Some(TraceParent { trace, span, flags: u8::from_str_radix(flags, 16).ok()? })
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard.
    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!(parent.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(parent.span(), 0x00f0_67aa_0ba9_02b7);
        assert!(parent.is_sampled());
        assert_eq!(parent.to_string(), GOOD);
        let json = serde_json::to_string(&parent).unwrap();
        assert_eq!(json, format!("{GOOD:?}"));
        assert_eq!(serde_json::from_str::<TraceParent>(&json).unwrap(), parent);
    }

    #[test]
    fn whatever_else_it_looks_like_is_refused_by_its_name() {
        let upper = GOOD.to_ascii_uppercase();
        let longer = format!("{GOOD}-00");
        for bad in [
            "",
            "hello",
            upper.as_str(),
            longer.as_str(),
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
            "00-4bf92f3577b34da6a3ce929d0e0e473ü-00f067aa0ba902b7-1",
        ] {
            let why = bad.parse::<TraceParent>().unwrap_err().to_string();
            assert!(why.starts_with("traceparent must be"), "{why}");
        }
    }

    #[test]
    fn a_long_text_is_not_repeated_whole() {
        let why = "x".repeat(10_000).parse::<TraceParent>().unwrap_err().to_string();
        assert!(why.len() < 300, "{why}");
    }

    #[test]
    fn a_child_is_of_the_same_trace_and_keeps_flags_it_does_not_know() {
        let parent: TraceParent = GOOD.replace("-01", "-03").parse().unwrap();
        let child = parent.child(7, false).unwrap();
        assert_eq!(child.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-02");
        assert_eq!(parent.child(0, true), None);
        assert_eq!(TraceParent::new(0, 1, true), None);
    }
}
