//! What workers report of the jobs they hold, and what they are told: the bodies of those routes, with their schemas.

use runcue_core::submission::MAX_TEXT;
use runcue_core::{JobId, Json as Payload, Progress, ServiceName};
use serde::{Deserialize, Serialize};

use super::{LeaseBody, status, strict};
use crate::openapi::{
    Described, Schema, an_id, any, flag, id_read, instant, list_of, may, must, name, named, object,
    read_as, seconds, text, word,
};

/// The most jobs in one report.
pub const MOST_REPORTED: usize = 10_000;
/// The longest message of a progress, in bytes.
pub const MAX_MESSAGE: usize = 4096;

/// A heartbeat.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    pub worker_id: String,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub progress: Option<Progress>,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub lease: Option<LeaseBody>,
}

impl Described for HeartbeatBody {
    const NAME: &'static str = "Heartbeat";

    fn schema() -> Schema {
        read_as::<Self>([
            must("worker_id", text().says("Whoever holds the job, unless the lease says it.")),
            may("progress", named::<Progress>().or_null()),
            may("lease", named::<LeaseBody>().or_null()),
        ])
    }
}

/// What a heartbeat is told.
#[derive(Debug, Serialize)]
pub struct BeatBody {
    /// Somebody wants the job stopped.
    pub cancel: bool,
    /// Until when the job is the worker's, unless heard of again.
    pub lease_expires_at: i64,
}

impl Described for BeatBody {
    const NAME: &'static str = "Beat";

    fn schema() -> Schema {
        object([
            must("cancel", flag().says("Somebody wants the job stopped.")),
            must("lease_expires_at", instant()),
        ])
    }
}

/// How a job ended.
#[derive(Debug, Serialize)]
pub struct EndedBody {
    /// The job.
    pub id: JobId,
    /// Where it is now.
    pub status: &'static str,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
}

impl Described for EndedBody {
    const NAME: &'static str = "Ended";

    fn schema() -> Schema {
        object([
            must("id", an_id()),
            must("status", status()),
            may("retry_at", instant().says("When the next attempt is due.")),
        ])
    }
}

/// A result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultBody {
    pub worker_id: String,
    pub result: Option<Payload>,
    pub result_hash: Option<String>,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub lease: Option<LeaseBody>,
}

impl Described for ResultBody {
    const NAME: &'static str = "Result";

    fn schema() -> Schema {
        let hash = text().up_to(MAX_TEXT).or_null();
        read_as::<Self>([
            must("worker_id", text()),
            may("result", any().says("Any value.")),
            may("result_hash", hash.says("What a repeated result is recognised by.")),
            may("lease", named::<LeaseBody>().or_null()),
        ])
    }
}

/// A failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailBody {
    pub worker_id: String,
    pub reason: String,
    #[serde(default)]
    pub permanent: bool,
    #[serde(default)]
    pub timeout: bool,
    pub code: Option<String>,
    pub service: Option<ServiceName>,
    pub retry_after: Option<f64>,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub lease: Option<LeaseBody>,
}

impl Described for FailBody {
    const NAME: &'static str = "Fail";

    fn schema() -> Schema {
        read_as::<Self>([
            must("worker_id", text()),
            must("reason", text().says("What went wrong.")),
            may("permanent", flag().says("It will not go better next time.")),
            may("timeout", flag().says("It ran longer than it may.")),
            may("code", text().or_null().says("What `retry_on` goes by.")),
            may("service", name().or_null()),
            may(
                "retry_after",
                seconds().or_null().says("Seconds that the service is to be left alone."),
            ),
            may("lease", named::<LeaseBody>().or_null()),
        ])
    }
}

/// A worker hands a job back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    pub worker_id: String,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub lease: Option<LeaseBody>,
}

impl Described for ReleaseBody {
    const NAME: &'static str = "Release";

    fn schema() -> Schema {
        read_as::<Self>([must("worker_id", text()), may("lease", named::<LeaseBody>().or_null())])
    }
}

/// Heartbeats of many jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatsBody {
    #[serde(rename = "worker_id")]
    _worker_id: String,
    #[serde(deserialize_with = "strict::each_known")]
    pub jobs: Vec<OneBeat>,
}

/// One of many heartbeats.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneBeat {
    pub id: JobId,
    #[serde(deserialize_with = "strict::known")]
    pub lease: LeaseBody,
    #[serde(default, deserialize_with = "strict::known_if_any")]
    pub progress: Option<Progress>,
}

/// What many heartbeats are told.
#[derive(Debug, Serialize)]
pub struct BeatsBody {
    pub jobs: Vec<OneBeatAnswer>,
}

/// What one of them is told.
#[derive(Debug, Serialize)]
pub struct OneBeatAnswer {
    pub id: JobId,
    pub held: bool,
    pub cancel: bool,
    pub lease_expires_at: Option<i64>,
}

impl Described for HeartbeatsBody {
    const NAME: &'static str = "Heartbeats";

    fn schema() -> Schema {
        let one = read_as::<OneBeat>([
            must("id", id_read()),
            must("lease", named::<LeaseBody>()),
            may("progress", named::<Progress>().or_null()),
        ]);
        read_as::<Self>([
            must("worker_id", text()),
            must("jobs", list_of(one).up_to(MOST_REPORTED)),
        ])
    }
}

impl Described for BeatsBody {
    const NAME: &'static str = "Beats";

    fn schema() -> Schema {
        let one = object([
            must("id", an_id()),
            must("held", flag()),
            must("cancel", flag()),
            must("lease_expires_at", instant().or_null()),
        ]);
        object([must("jobs", list_of(one))])
    }
}

/// Ends of many attempts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndsBody {
    #[serde(rename = "worker_id")]
    _worker_id: String,
    #[serde(deserialize_with = "strict::each_known")]
    pub ends: Vec<OneEnd>,
}

/// One of many ends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneEnd {
    pub id: JobId,
    #[serde(deserialize_with = "strict::known")]
    pub lease: LeaseBody,
    pub outcome: EndWord,
    pub result: Option<Payload>,
    pub result_hash: Option<String>,
    pub reason: Option<String>,
    #[serde(default)]
    pub permanent: bool,
    #[serde(default)]
    pub timeout: bool,
    pub code: Option<String>,
    pub service: Option<ServiceName>,
    pub retry_after: Option<f64>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndWord {
    Completed,
    Failed,
    Released,
    Unstarted,
    Stopped,
}

/// What became of many attempts.
#[derive(Debug, Serialize)]
pub struct EndedManyBody {
    pub ends: Vec<OneEnded>,
}

/// What became of one of them.
#[derive(Debug, Serialize)]
pub struct OneEnded {
    pub id: JobId,
    pub status: Option<&'static str>,
    pub lost: bool,
    pub repeated: bool,
    pub retry_at: Option<i64>,
}

impl Described for EndsBody {
    const NAME: &'static str = "Ends";

    fn schema() -> Schema {
        let words = ["completed", "failed", "released", "unstarted", "stopped"];
        let one = read_as::<OneEnd>([
            must("id", id_read()),
            must("lease", named::<LeaseBody>()),
            must("outcome", word(&words)),
            may("result", any()),
            may("result_hash", text().up_to(MAX_TEXT).or_null()),
            may("reason", text().or_null()),
            may("permanent", flag()),
            may("timeout", flag()),
            may("code", text().or_null()),
            may("service", name().or_null()),
            may("retry_after", seconds().or_null()),
        ]);
        read_as::<Self>([
            must("worker_id", text()),
            must("ends", list_of(one).up_to(MOST_REPORTED)),
        ])
    }
}

impl Described for EndedManyBody {
    const NAME: &'static str = "EndedMany";

    fn schema() -> Schema {
        let one = object([
            must("id", an_id()),
            must("status", status().or_null()),
            must("lost", flag().says("It was not held any more; nothing was changed.")),
            must("repeated", flag()),
            must("retry_at", instant().or_null()),
        ]);
        object([must("ends", list_of(one))])
    }
}
