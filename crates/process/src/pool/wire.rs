//! What goes over a worker's pipes: one JSON value per line.
//!
//! ```text
//! to the worker     {"id":"…","task":"…","target":…,"params":…,"attempt":1,"traceparent":"…"}
//! from the worker   {"id":"…","result":…}
//!                   {"id":"…","error":"…","kind":"transient"}      or "permanent"
//!                   {"id":"…","progress":40,"message":"…"}
//!                   {"beat":true}                                  at least every few seconds while busy
//! ```
//!
//! Owns the shapes, for both sides. Lines are bounded by [`MAX_LINE`]; who reads and writes them is not known here.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The longest line either side may send, in bytes.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// What a worker is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back with every reply.
    pub id: String,
    /// The kind of work.
    pub task: String,
    /// What it is done to.
    #[serde(default)]
    pub target: Value,
    /// How it is done.
    #[serde(default)]
    pub params: Value,
    /// The how-manieth try this is, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// Its place in a trace, in the form of W3C Trace Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

fn first() -> u32 {
    1
}

/// Whether a failure may go away by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// Another try may succeed.
    #[default]
    Transient,
    /// Another try will fail the same way.
    Permanent,
}

/// What a handler decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is done, with this result.
    Done(Value),
    /// It failed.
    Failed {
        /// Why, for a person to read.
        message: String,
        /// Whether trying again makes sense.
        kind: FailureKind,
    },
}

/// How far a handler is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// What it is doing.
    pub message: Option<String>,
}

/// One line from a worker, as it stands there.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Said {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beat: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<FailureKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// A result of `null` is a result, not the absence of one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What a line from a worker means to the call in progress.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Beat,
    Progress(Progress),
    Reply(Reply),
}

impl Message {
    /// Reads a line. `None`: it is none of ours, or answers another call. A late report on an earlier call is only a
    /// sign of life: a thread that the earlier handler left behind may send one.
    pub(crate) fn read(line: &[u8], id: &str) -> Option<Self> {
        let said: Said = serde_json::from_slice(line).ok()?;
        if said.beat == Some(true) {
            return Some(Self::Beat);
        }
        if said.id.as_deref() != Some(id) {
            return said.progress.map(|_| Self::Beat);
        }
        match said {
            Said { result: Some(result), error: None, .. } => {
                Some(Self::Reply(Reply::Done(result)))
            }
            Said { error: Some(message), result: None, kind, .. } => {
                let kind = kind.unwrap_or_default();
                Some(Self::Reply(Reply::Failed { message, kind }))
            }
            Said {
                progress: Some(percent @ 0..=100), message, result: None, error: None, ..
            } => Some(Self::Progress(Progress { percent, message })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: &str) -> Option<Message> {
        Message::read(line.as_bytes(), "7")
    }

    #[test]
    fn every_documented_line_is_understood() {
        assert_eq!(read(r#"{"beat":true}"#), Some(Message::Beat));
        assert_eq!(
            read(r#"{"id":"7","result":{"a":1}}"#),
            Some(Message::Reply(Reply::Done(json!({"a":1}))))
        );
        assert_eq!(
            read(r#"{"id":"7","error":"no","kind":"permanent"}"#),
            Some(Message::Reply(Reply::Failed {
                message: "no".to_owned(),
                kind: FailureKind::Permanent
            }))
        );
        assert_eq!(
            read(r#"{"id":"7","progress":40,"message":"m"}"#),
            Some(Message::Progress(Progress { percent: 40, message: Some("m".to_owned()) }))
        );
    }

    #[test]
    fn a_null_result_is_a_result() {
        assert_eq!(
            read(r#"{"id":"7","result":null}"#),
            Some(Message::Reply(Reply::Done(Value::Null)))
        );
    }

    #[test]
    fn a_late_report_on_another_call_is_a_sign_of_life() {
        assert_eq!(read(r#"{"id":"6","progress":99}"#), Some(Message::Beat));
    }

    #[test]
    fn garbage_and_other_calls_are_not_understood() {
        for line in [
            "",
            "hello",
            "[]",
            "{}",
            r#"{"id":"8","result":1}"#,
            r#"{"result":1}"#,
            r#"{"id":"7"}"#,
            r#"{"id":"7","progress":101}"#,
            r#"{"id":"7","error":"no","kind":"odd"}"#,
            r#"{"id":"7","result":1,"error":"both"}"#,
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
