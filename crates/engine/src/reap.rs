//! Takes back jobs whose worker is gone or whose lease has lapsed, and ends queued jobs whose deadline has
//! passed. Every engine does this for everybody; doing it twice changes nothing.

use runcue_core::Timestamp;
use runcue_store::{Reaped, Result};
use tokio_util::sync::CancellationToken;

use crate::dispatch::earliest;
use crate::shared::{Shared, backoff};

/// Does what is due now.
pub(crate) async fn run_once(shared: &Shared, now: Timestamp) -> Result<Reaped> {
    let mut gone = shared.ask(shared.store.gone_workers()).await?;
    gone.retain(|worker| *worker != shared.worker.id);
    let reaped = shared.ask(shared.store.reap(now, gone)).await?;
    shared.note_wakes(|wakes| wakes.reap = reaped.wake);
    for id in &reaped.requeued {
        tracing::warn!(work_unit_id = %id, will_retry = true, "work_taken_back");
    }
    for id in &reaped.quarantined {
        shared.metrics.failed();
        tracing::warn!(work_unit_id = %id, will_retry = false, "work_taken_back");
    }
    for id in &reaped.overdue {
        tracing::warn!(work_unit_id = %id, "work_overdue");
    }
    Ok(reaped)
}

/// Does that every so often, and when a deadline comes, until told to stop.
pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = tokio::time::sleep(shared.settings.reap_after) => {}
    }
    let mut failures = 0;
    loop {
        let now = shared.clock.now();
        let wake = match run_once(shared, now).await {
            Ok(reaped) => {
                failures = 0;
                earliest(reaped.wake, Some(now.plus(shared.settings.reap_every)))
            }
            Err(error) => {
                failures += 1;
                shared.refused("lapsed leases could not be looked for", &error);
                Some(now.plus(backoff(failures)))
            }
        };
        // A lapse that is due but could not be taken back must not turn this into a busy loop.
        let wake = wake.map(|wake| wake.max(now.plus(backoff(0))));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.look_at_reap.notified() => {}
            () = shared.sleep_until(wake) => {}
        }
    }
}
