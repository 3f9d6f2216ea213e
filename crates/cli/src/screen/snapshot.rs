//! What a queue looks like at one instant.

use runcue_core::{Event, Timestamp};
use runcue_store::{GroupInfo, Store};

use crate::trouble::Trouble;
use crate::verbs::status;
use crate::view::{ServiceView, StatusView};
use runcue::Address;

/// How many events are kept on the screen.
const EVENTS: usize = 50;

/// A queue at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The instant.
    pub at: Timestamp,
    /// The glance.
    pub status: StatusView,
    /// Every service.
    pub services: Vec<ServiceView>,
    /// Every group.
    pub groups: Vec<GroupInfo>,
    /// The latest events, oldest first.
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Looks at a store.
    pub async fn take(
        store: &dyn Store,
        address: &Address,
        now: Timestamp,
    ) -> Result<Self, Trouble> {
        let services = store.services(now).await?;
        let last = store.last_event().await?;
        Ok(Self {
            at: now,
            status: status::look(store, address, now).await?,
            services: services.iter().map(|service| ServiceView::new(service, now)).collect(),
            groups: store.groups().await?,
            events: store.events(last.saturating_sub(EVENTS as u64), EVENTS).await?,
        })
    }
}
