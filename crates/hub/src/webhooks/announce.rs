//! Final events become deliveries: each event that a webhook asks for, one job, submitted in batches. Owns how far
//! events were read, which is kept with the queue, and when deliveries begin to be made here.
//!
//! Events are read first and webhooks afterwards, so that a webhook that was there when something happened is seen.
//! The place is written down last: what is read again after a crash is submitted again, under the same ids.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::service::KeyLimits;
use runcue_core::{
    Event, EventKind, JobFilter, JobId, JobSpec, Json, Key, RetryPolicy, ServiceSpec, StateWord,
    TaskName, Timestamp, Use,
};
use runcue_engine::Task;
use runcue_store::{ListRequest, Record, StoreError, SubmitBatch};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::deliver::{Deliverer, Order};
use super::{CURSOR, Webhook, all, delivery, record};
use crate::hub::Shared;

/// Events that are read at once.
const BATCH: usize = 500;
/// How often it is looked whether there are webhooks, and whether there is something when no news comes.
const POLL: Duration = Duration::from_secs(1);
/// The shortest time between two batches, so that a busy queue makes few large ones.
const REST: Duration = Duration::from_millis(50);
/// The place is written down at the latest after so many events that nobody asked for.
const UNWRITTEN: u64 = 5_000;
/// Deliveries at once, by one hub.
const SLOTS: usize = 64;
/// Deliveries at once to one receiver, by all hubs: one that is slow leaves room for the others.
const PER_RECEIVER: u32 = 4;
/// How long one attempt may take in all. The request has a bound of its own below that.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Clocks of the processes that make webhooks and end jobs may differ by this much: rather one event too many is told than
/// one too few. Events that were read before a webhook was made are not read again.
const SKEW: Duration = Duration::from_secs(1);
const CURSOR_NAME: &str = "events";

/// Fourteen attempts in about two hours: after one second, two, four, and so on up to an hour, each spread.
fn retry() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 14,
        // It is the hub that went away then, and not because of what it sent.
        max_crashes: 14,
        base_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(3_600),
        ..RetryPolicy::default()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Place {
    after: u64,
}

/// The record that says that all events up to a number have become deliveries.
pub fn cursor(after: u64) -> Record {
    record(CURSOR, CURSOR_NAME.to_owned(), &Place { after })
}

/// How a job ended that an event tells of; nothing for any other event.
fn ending(event: &Event) -> Option<StateWord> {
    match event.kind {
        EventKind::Completed => Some(StateWord::Completed),
        EventKind::Cancelled => Some(StateWord::Cancelled),
        EventKind::Failed => Some(event.state.unwrap_or(StateWord::Failed)),
        _ => None,
    }
}

impl Webhook {
    /// The delivery of an event to this webhook, if it asks for it. Deliveries themselves are told to nobody.
    fn order(&self, event: &Event) -> Option<Order> {
        let state = ending(event)?;
        let (job, task) = (event.job?, event.task.as_ref()?);
        let kept = &self.kept;
        let wanted = kept.events.contains(&state)
            && !task.is_reserved()
            && kept.task.as_ref().is_none_or(|only| only == task)
            && kept.group.as_ref().is_none_or(|only| Some(only) == event.group.as_ref())
            && event.at.plus(SKEW) >= kept.created_at;
        let (seq, at, worker) = (event.seq, event.at.as_millis(), event.worker);
        wanted.then_some(Order { webhook: self.id, event: state, seq, at, job, worker })
    }
}

/// The id of a delivery: the same wherever and whenever it is made.
fn id_of(order: &Order, at: Timestamp) -> JobId {
    let digest = Sha256::new()
        .chain_update(b"runcue webhook\0")
        .chain_update(order.webhook.as_u128().to_be_bytes())
        .chain_update(order.seq.to_be_bytes())
        .finalize();
    let mut bits = [0_u8; 16];
    bits.copy_from_slice(&digest[..16]);
    JobId::time_ordered(at, u128::from_be_bytes(bits))
}

fn job(order: &Order, at: Timestamp) -> JobSpec {
    let receiver = order.webhook.to_string();
    JobSpec {
        queue: delivery(),
        group: Some(delivery()),
        params: Json::from_value(order).unwrap_or_default(),
        labels: [receiver.clone()].into(),
        timeout: Some(TIMEOUT),
        retry: retry(),
        services: vec![Use::one(delivery())],
        key: Key::new(receiver).ok(),
        ..JobSpec::new(id_of(order, at), delivery())
    }
}

fn jobs(webhooks: &[Webhook], events: &[Event]) -> Vec<JobSpec> {
    let each = events.iter().flat_map(|event| {
        let orders = webhooks.iter().filter_map(|webhook| webhook.order(event));
        orders.map(|order| job(&order, event.at))
    });
    each.collect()
}

/// How far this hub has read.
#[derive(Debug, Default)]
struct Reader {
    after: u64,
    written: u64,
    /// There are webhooks.
    asked: bool,
    /// Deliveries are made here.
    delivering: bool,
}

/// Turns events into deliveries until the hub ends.
pub async fn run(hub: &Arc<Shared>) {
    let mut reader = Reader::default();
    let mut seen = hub.store.changed(0).await;
    if let Err(error) = reader.finish_what_waits(hub).await {
        tracing::debug!(%error, "whether deliveries wait could not be read");
    }
    loop {
        let more = reader.read(hub).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "events did not become deliveries; trying again");
            false
        });
        tokio::select! {
            () = hub.end.cancelled() => return,
            () = tokio::time::sleep(REST) => {}
        }
        if more {
            continue;
        }
        tokio::select! {
            () = hub.end.cancelled() => return,
            version = hub.store.changed(seen), if reader.asked => seen = version,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

impl Reader {
    /// Reads a batch and submits its deliveries; answers whether there may be more.
    async fn read(&mut self, hub: &Arc<Shared>) -> Result<bool, StoreError> {
        let store = &*hub.store;
        if !self.asked {
            self.asked = !all(store).await?.is_empty();
        }
        if !self.asked {
            return Ok(false);
        }
        self.deliver_here(hub).await?;
        let place = store.records(CURSOR).await?.into_iter().find_map(|record| record.value);
        let place = place.and_then(|value| value.to::<Place>().ok()).map_or(0, |place| place.after);
        // Another hub may be further.
        self.after = self.after.max(place);
        let events = store.events(self.after, BATCH).await?;
        let (Some(first), Some(last)) = (events.first(), events.last().map(|event| event.seq))
        else {
            return Ok(false);
        };
        if let Some(missed) = Event::missed(self.after, first.seq, hub.now()) {
            let words = missed.message.unwrap_or_default();
            tracing::warn!("{words}: if jobs ended there, no receiver is told of it");
        }
        let webhooks = all(store).await?;
        self.asked = !webhooks.is_empty();
        let jobs = jobs(&webhooks, &events);
        let told = !jobs.is_empty();
        if told {
            store.submit(hub.now(), SubmitBatch::of(jobs)).await?;
        }
        self.after = last;
        if told || last > self.written.max(place) + UNWRITTEN {
            store.put_records(hub.now(), vec![cursor(last)]).await?;
            self.written = last;
        }
        Ok(events.len() == BATCH)
    }

    /// What waits although there are no webhooks any more is ended here as well.
    async fn finish_what_waits(&mut self, hub: &Arc<Shared>) -> Result<(), StoreError> {
        let filter = JobFilter { task: Some(delivery()), ..JobFilter::default() };
        let filter = filter.in_states([StateWord::Queued, StateWord::Leased, StateWord::Running]);
        let waiting = hub.store.list(ListRequest { filter, before: None, limit: 1 }).await?;
        if !waiting.rows.is_empty() {
            self.deliver_here(hub).await?;
        }
        Ok(())
    }

    /// Makes this hub a worker that makes deliveries. Without webhooks it is none, and claims nothing.
    async fn deliver_here(&mut self, hub: &Arc<Shared>) -> Result<(), StoreError> {
        if self.delivering {
            return Ok(());
        }
        let (store, now) = (&*hub.store, hub.now());
        let mut service = ServiceSpec::new(delivery());
        let services = store.services(now).await?;
        // One that is there may have been changed by a person.
        if !services.iter().any(|one| one.spec.name == service.name) {
            let per_key = KeyLimits { max_concurrent: Some(PER_RECEIVER), rates: Vec::new() };
            service.per_key = Some(per_key);
            store.upsert_services(now, vec![service]).await?;
        }
        let name: TaskName = delivery();
        let mut spec = runcue_core::TaskSpec::new(name);
        (spec.timeout, spec.retry) = (Some(TIMEOUT), retry());
        spec.services = vec![Use::one(delivery())];
        let task = Task::from_spec(spec).handled_by(Deliverer::new(hub));
        hub.cue.define_tasks(vec![task]).await.map_err(|error| match error {
            runcue_engine::Error::Store(error) => error,
            other => StoreError::Unavailable(other.to_string()),
        })?;
        hub.cue.set_slots(SLOTS);
        self.delivering = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use runcue_core::{GroupName, TaskName};

    use super::*;
    use crate::webhooks::Kept;

    fn webhook() -> Webhook {
        let kept = Kept {
            url: "http://localhost/".into(),
            events: [StateWord::Completed, StateWord::Quarantined].into(),
            task: TaskName::new("t").ok(),
            group: GroupName::new("g").ok(),
            secret: String::new(),
            created_at: Timestamp::from_millis(1_010),
        };
        Webhook { id: JobId::from_u128(7), kept }
    }

    fn event(kind: EventKind) -> Event {
        Event {
            seq: 3,
            job: Some(JobId::from_u128(1)),
            task: TaskName::new("t").ok(),
            group: GroupName::new("g").ok(),
            ..Event::new(kind, Timestamp::from_millis(10))
        }
    }

    #[test]
    fn only_what_a_webhook_asks_for_is_told() {
        let told = |event: Event| webhook().order(&event).map(|order| order.event);
        let failed = event(EventKind::Failed);
        let set_aside = Event { state: Some(StateWord::Quarantined), ..failed.clone() };
        assert_eq!(told(event(EventKind::Completed)), Some(StateWord::Completed));
        assert_eq!(told(set_aside), Some(StateWord::Quarantined));
        assert_eq!(told(failed), None, "the event");
        assert_eq!(told(event(EventKind::Started)), None, "no end");
        let done = event(EventKind::Completed);
        assert_eq!(told(Event { task: TaskName::new("u").ok(), ..done.clone() }), None, "task");
        assert_eq!(told(Event { group: None, ..done.clone() }), None, "the group");
        let early = Timestamp::from_millis(9);
        assert_eq!(told(Event { at: early, ..done.clone() }), None, "before it was made");
        let mut all = webhook();
        (all.kept.task, all.kept.group) = (None, None);
        let own = Event { task: Some(delivery()), ..done };
        assert!(all.order(&own).is_none(), "deliveries are told to nobody");
    }

    #[test]
    fn a_delivery_has_one_id_and_another_event_or_webhook_another() {
        let order = webhook().order(&event(EventKind::Completed)).unwrap();
        let at = Timestamp::from_millis(10);
        assert_eq!(id_of(&order, at), id_of(&order.clone(), at));
        assert_ne!(id_of(&order, at), id_of(&Order { seq: 4, ..order.clone() }, at));
        let other = Order { webhook: JobId::from_u128(8), ..order.clone() };
        assert_ne!(id_of(&order, at), id_of(&other, at));
    }
}
