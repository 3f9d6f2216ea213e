//! Webhooks: who is told when a job has ended. They are kept with the queue, so that every hub on it knows them.
//! Owns what a webhook is and how it is made, listed and removed; which events become deliveries is `announce`'s,
//! and a delivery `deliver`'s.
//!
//! ```text
//! events ─▶ announce (one job per webhook and event, one submission per batch) ─▶ the queue ─▶ deliver ─▶ receiver
//! ```
//!
//! A delivery's id is made from its webhook and its event, and a store answers a known id with the job that is
//! there. So it does not matter how many hubs read the same event, or how often: there is one delivery.

mod announce;
mod deliver;
mod sign;

use std::collections::BTreeSet;

use reqwest::Url;
use runcue_core::{GroupName, JobFilter, JobId, Json, NameError, StateWord, TaskName, Timestamp};
use runcue_engine::{IdSource as _, RandomIds};
use runcue_store::{Record, Store, StoreError};
use serde::{Deserialize, Serialize};

pub(crate) use announce::run;

const KIND: &str = "webhook";
/// How far events have become deliveries. Not among the kinds that move with a queue: numbers of events do not.
const CURSOR: &str = "webhook-cursor";
/// Webhooks of one queue.
const MOST: usize = 100;
/// The longest address, in bytes.
pub(crate) const MAX_URL: usize = 2_048;
/// How long a secret may be, in bytes.
pub(crate) const SECRET: std::ops::RangeInclusive<usize> = 16..=256;
/// What every secret that is made here begins with, so that it is recognised where it should not be.
const PREFIX: &str = "rcw_";
/// The task of deliveries, and their queue, group and service.
const DELIVERY: &str = "runcue.webhook";

fn delivery<T: TryFrom<&'static str, Error = NameError>>() -> T {
    match T::try_from(DELIVERY) {
        Ok(name) => name,
        Err(error) => unreachable!("{DELIVERY} is a name: {error}"),
    }
}

/// A webhook to be made.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// Where its deliveries go.
    pub url: String,
    /// The final states it tells of; none means all.
    pub events: BTreeSet<StateWord>,
    /// Only of jobs of this task.
    pub task: Option<TaskName>,
    /// Only of jobs of this group.
    pub group: Option<GroupName>,
    /// What its deliveries are signed with; made here if there is none.
    pub secret: Option<String>,
}

/// A webhook as it is listed: without what it signs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookInfo {
    /// Its identity.
    pub id: JobId,
    /// Where its deliveries go.
    pub url: String,
    /// The final states it tells of.
    pub events: BTreeSet<StateWord>,
    /// Only of jobs of this task.
    pub task: Option<TaskName>,
    /// Only of jobs of this group.
    pub group: Option<GroupName>,
    /// When it was made; it tells of nothing that happened before.
    pub created_at: i64,
}

/// A webhook that was made.
#[derive(Clone, Debug, Serialize)]
pub struct MadeWebhook {
    /// As it is listed.
    #[serde(flatten)]
    pub info: WebhookInfo,
    /// What its deliveries are signed with, shown this once.
    pub secret: String,
}

/// As it is kept. The secret is readable there, because it has to sign.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    url: String,
    events: BTreeSet<StateWord>,
    task: Option<TaskName>,
    group: Option<GroupName>,
    secret: String,
    /// In microseconds: it is compared with the instants of events.
    created_at: Timestamp,
}

/// A webhook.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    id: JobId,
    kept: Kept,
}

impl Webhook {
    fn info(&self) -> WebhookInfo {
        let kept = &self.kept;
        WebhookInfo {
            id: self.id,
            url: kept.url.clone(),
            events: kept.events.clone(),
            task: kept.task.clone(),
            group: kept.group.clone(),
            created_at: kept.created_at.as_millis(),
        }
    }
}

/// Why a webhook was not made or removed. Each names the field.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is not acceptable.
    #[error("url: {0}")]
    Url(String),
    /// Not something that ends a job.
    #[error("events: {0} ends no job; completed, failed, cancelled and quarantined do")]
    Event(StateWord),
    /// The task is one of runcue's own.
    #[error("task: jobs of {0} are runcue's own and are not told of")]
    Task(TaskName),
    /// The secret is not acceptable.
    #[error("secret: {} to {} printable ASCII characters are expected", SECRET.start(), SECRET.end())]
    Secret,
    /// There are too many.
    #[error("there are {MOST} webhooks already; remove one first")]
    TooMany,
    /// There is none of that id.
    #[error("there is no webhook {0}")]
    Unknown(String),
    /// The operating system has no randomness to give.
    #[error("no random bits: {0}")]
    NoBits(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The address of a receiver, if it can be one.
fn address(text: &str) -> Result<Url, WebhookError> {
    let refused = |why: String| Err(WebhookError::Url(why));
    if text.len() > MAX_URL {
        return refused(format!("it has {} bytes, at most {MAX_URL} are allowed", text.len()));
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return refused(format!("{error}; https://example.org/hook is an address")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused(format!("a receiver is reached by http or https, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "it may hold no name or password: whoever lists webhooks would read them";
        return refused(why.to_owned());
    }
    Ok(url)
}

fn secret(given: Option<String>) -> Result<String, WebhookError> {
    if let Some(given) = given {
        let plain = given.bytes().all(|byte| byte.is_ascii_graphic());
        return if plain && SECRET.contains(&given.len()) {
            Ok(given)
        } else {
            Err(WebhookError::Secret)
        };
    }
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits).map_err(|error| WebhookError::NoBits(error.to_string()))?;
    Ok(format!("{PREFIX}{}", sign::hex(&bits)))
}

/// Makes a webhook; answers it with its secret, the only time that is seen.
pub async fn create(
    store: &dyn Store,
    now: Timestamp,
    new: NewWebhook,
) -> Result<MadeWebhook, WebhookError> {
    let finals = StateWord::ALL.into_iter().filter(|state| state.is_final());
    let events = if new.events.is_empty() { finals.collect() } else { new.events };
    if let Some(state) = events.iter().find(|state| !state.is_final()) {
        return Err(WebhookError::Event(*state));
    }
    if let Some(task) = new.task.as_ref().filter(|task| task.is_reserved()) {
        return Err(WebhookError::Task(task.clone()));
    }
    let kept = Kept {
        url: address(&new.url)?.into(),
        events,
        task: new.task,
        group: new.group,
        secret: secret(new.secret)?,
        created_at: now,
    };
    // The first of all webhooks says where reading begins. The place is looked up before it is known whether there
    // are others: one that is made meanwhile is made after that place, and so misses nothing by it.
    let last = store.last_event().await?;
    let others = all(store).await?;
    if others.len() >= MOST {
        return Err(WebhookError::TooMany);
    }
    let webhook = Webhook { id: RandomIds::default().job(now), kept };
    let mut records = vec![record(KIND, webhook.id.to_string(), &webhook.kept)];
    if others.is_empty() {
        records.push(announce::cursor(last));
    }
    store.put_records(now, records).await?;
    Ok(MadeWebhook { info: webhook.info(), secret: webhook.kept.secret })
}

fn record(kind: &str, name: String, value: &impl Serialize) -> Record {
    Record { kind: kind.to_owned(), name, value: Json::from_value(value).ok() }
}

/// Every webhook, oldest first.
pub async fn list(store: &dyn Store) -> Result<Vec<WebhookInfo>, StoreError> {
    Ok(all(store).await?.iter().map(Webhook::info).collect())
}

/// Removes a webhook. Its deliveries that wait are withdrawn, those under way are asked to stop.
pub async fn remove(store: &dyn Store, now: Timestamp, id: &str) -> Result<(), WebhookError> {
    let unknown = || WebhookError::Unknown(id.chars().take(64).collect());
    let id: JobId = id.parse().map_err(|_| unknown())?;
    find(store, id).await?.ok_or_else(unknown)?;
    let gone = Record { kind: KIND.to_owned(), name: id.to_string(), value: None };
    store.put_records(now, vec![gone]).await?;
    let task = Some(delivery());
    let its = JobFilter { task, label: Some(id.to_string()), ..JobFilter::default() };
    let live = [StateWord::Queued, StateWord::Leased, StateWord::Running];
    store.cancel(now, its.in_states(live), false).await?;
    Ok(())
}

pub(crate) async fn find(store: &dyn Store, id: JobId) -> Result<Option<Webhook>, StoreError> {
    Ok(all(store).await?.into_iter().find(|webhook| webhook.id == id))
}

pub(crate) async fn find_info(store: &dyn Store, id: &str) -> Result<WebhookInfo, WebhookError> {
    let unknown = || WebhookError::Unknown(id.chars().take(64).collect());
    let id: JobId = id.parse().map_err(|_| unknown())?;
    Ok(find(store, id).await?.ok_or_else(unknown)?.info())
}

/// Every webhook, oldest first: their ids begin with when they were made.
async fn all(store: &dyn Store) -> Result<Vec<Webhook>, StoreError> {
    let records = store.records(KIND).await?;
    let mut webhooks: Vec<_> = records.into_iter().filter_map(webhook).collect();
    webhooks.sort_by_key(|webhook| webhook.id);
    Ok(webhooks)
}

/// A record that cannot be read is no webhook: nothing goes out unsigned.
fn webhook(record: Record) -> Option<Webhook> {
    Some(Webhook { id: record.name.parse().ok()?, kept: record.value?.to().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        address(url).map(|url| url.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn an_address_is_refused_with_the_field_and_the_reason() {
        for (url, why) in [
            ("", "relative URL without a base"),
            ("example.org/hook", "relative URL without a base"),
            ("http://", "empty host"),
            ("ftp://example.org/", "http or https, not ftp"),
            ("file:///etc/passwd", "http or https, not file"),
            ("https://user@example.org/", "no name or password"),
            ("https://:word@example.org/", "no name or password"),
            (&format!("https://example.org/{}", "x".repeat(MAX_URL)), "at most 2048"),
        ] {
            let said = refused(url);
            assert!(said.starts_with("url: ") && said.contains(why), "{url}: {said}");
        }
        assert!(address("http://127.0.0.1:8080/hook?a=b").is_ok());
    }

    #[test]
    fn a_secret_is_long_enough_and_can_be_typed() {
        assert!(secret(Some("short".into())).is_err());
        assert!(secret(Some("with a space in it".into())).is_err());
        assert!(secret(Some("x".repeat(257))).is_err());
        assert_eq!(secret(Some("0123456789abcdef".into())).unwrap(), "0123456789abcdef");
        let made = secret(None).unwrap();
        assert!(made.starts_with(PREFIX) && made.len() == 68 && made != secret(None).unwrap());
    }
}
