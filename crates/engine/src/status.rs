//! Looks at the queue as a whole every so often, and soon after something went wrong: feeds the gauges, the
//! `queue_status` events, and the log lines about services.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use runcue_core::breaker::Breaker;
use runcue_core::{ServiceName, Timestamp};
use runcue_store::{Result, ServiceInfo};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// However much happens, we look at most this often.
const AT_MOST: Duration = Duration::from_millis(250);

/// What a service was like at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    open: bool,
    used_up: bool,
}

/// Looks at the queue and tells what changed.
#[derive(Debug, Default)]
pub(crate) struct Status {
    services: HashMap<ServiceName, Seen>,
}

impl Status {
    /// Looks once.
    pub(crate) async fn run_once(&mut self, shared: &Shared, now: Timestamp) -> Result<()> {
        let stats = shared.ask(shared.store.stats(now)).await?;
        let services = shared.ask(shared.store.services(now)).await?;
        shared.metrics.set_depths(&stats);
        for info in &services {
            self.look(shared, info);
        }
        shared.status.send_replace(Some(Arc::new(stats)));
        Ok(())
    }

    fn look(&mut self, shared: &Shared, info: &ServiceInfo) {
        let name = &info.spec.name;
        let used_up = info.used.iter().find(|(rate, used)| *used >= rate.limit);
        let now = Seen {
            open: !matches!(info.breaker, Breaker::Closed { .. }),
            used_up: used_up.is_some(),
        };
        let before = self.services.insert(name.clone(), now).unwrap_or_default();
        shared.metrics.set_circuit(name, now.open);
        if now.open && !before.open {
            let failures = info.spec.circuit_threshold.unwrap_or_default();
            tracing::warn!(service = %name, failures, "circuit_opened");
        }
        if before.open && !now.open {
            tracing::info!(service = %name, "circuit_closed");
        }
        if let Some((rate, used)) = used_up
            && !before.used_up
        {
            shared.metrics.rate_limited(name);
            tracing::info!(
                service = %name, current_rate = *used, limit = rate.limit, "service_rate_limited"
            );
        }
    }

    pub(crate) async fn run(mut self, shared: &Shared, stop: &CancellationToken) {
        loop {
            if let Err(error) = self.run_once(shared, shared.clock.now()).await {
                tracing::debug!(%error, "the queue could not be looked at");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AT_MOST) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = shared.look_at_status.notified() => {}
                () = tokio::time::sleep(shared.settings.status_every.saturating_sub(AT_MOST)) => {}
            }
        }
    }
}
