//! The queue at a glance.

use std::collections::HashSet;

use runcue_core::{GroupName, Timestamp};
use runcue_store::{Counts, Store};
use serde::Serialize;

use crate::{ServiceView, WorkerView, millis};

/// The queue at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct StatusView {
    /// The store it is in.
    pub store: String,
    /// What an acknowledged write survives.
    pub durability: &'static str,
    /// When this was seen.
    pub at: i64,
    /// Jobs by state.
    pub counts: Counts,
    /// Of the queued ones: those that wait only for their turn and for room.
    pub ready: u64,
    /// Of the queued ones: those that wait for a time.
    pub delayed: u64,
    /// Of the queued ones: those that wait for prerequisites.
    pub blocked: u64,
    /// When the oldest ready job was submitted.
    pub oldest_ready_at: Option<i64>,
    /// The group served last.
    pub last_served_group: Option<GroupName>,
    /// Every known worker.
    pub workers: Vec<WorkerView>,
    /// The services that let nothing through just now.
    pub blocked_services: Vec<ServiceView>,
    /// The groups that are paused.
    pub paused_groups: Vec<GroupName>,
    /// What to do next, when work waits and nothing will happen by itself.
    pub hint: Option<String>,
}

impl StatusView {
    /// Looks at a store; `place` is what people call it.
    pub async fn look(
        store: &dyn Store,
        place: String,
        now: Timestamp,
    ) -> runcue_store::Result<Self> {
        let stats = store.stats(now).await?;
        let gone: HashSet<_> = store.gone_workers().await?.into_iter().collect();
        let workers = store.workers().await?;
        let workers: Vec<_> = workers.iter().map(|one| WorkerView::new(one, &gone, now)).collect();
        let services = store.services(now).await?;
        let services = services.iter().map(|one| ServiceView::new(one, now));
        let groups = store.groups().await?;
        let paused = groups.into_iter().filter(|group| group.paused).filter_map(|group| group.name);
        let waiting = stats.delayed + stats.blocked;
        let mut view = Self {
            store: place,
            durability: Self::durability_of(store),
            at: millis(now),
            counts: stats.counts,
            ready: stats.counts.queued.saturating_sub(waiting),
            delayed: stats.delayed,
            blocked: stats.blocked,
            oldest_ready_at: stats.oldest_ready.map(millis),
            last_served_group: stats.last_served_group,
            workers,
            blocked_services: services.filter(ServiceView::is_blocked).collect(),
            paused_groups: paused.collect(),
            hint: None,
        };
        view.hint = hint(&view);
        Ok(view)
    }

    /// The word for what an acknowledged write survives, without its explanation.
    pub fn durability_of(store: &dyn Store) -> &'static str {
        let told = store.durability();
        told.split_once(':').map_or(told, |(word, _)| word)
    }

    /// Workers that are alive.
    pub fn live_workers(&self) -> impl Iterator<Item = &WorkerView> {
        self.workers.iter().filter(|worker| worker.alive)
    }
}

/// What to do next, if anything.
fn hint(view: &StatusView) -> Option<String> {
    // A hub that tells receivers of events is a worker without slots.
    let no_worker = view.live_workers().all(|worker| worker.slots == 0);
    if view.counts.live() > 0 && no_worker {
        return Some("work is waiting and no worker runs: start one with `runcue work`".to_owned());
    }
    if view.ready > 0
        && view.counts.leased + view.counts.running == 0
        && let Some(group) = view.paused_groups.first()
    {
        return Some(format!("work is waiting in a paused group: `runcue resume {group}`"));
    }
    let ended_badly = view.counts.failed + view.counts.quarantined;
    if view.counts.live() == 0 && ended_badly > 0 {
        return Some(
            "see what failed with `runcue list --state failed,quarantined`, then `runcue retry --failed`"
                .to_owned(),
        );
    }
    None
}
