//! Submitting, and waiting for room where the queue's rule is that the submitter waits.

use std::time::Duration;

use runcue_core::JobSpec;
use runcue_store::{Store, StoreError, SubmitBatch, Submitted};

use crate::clock;
use crate::news::News;
use crate::out::Out;

/// How often a submitter that waits for room looks again, should no news reach it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Submits jobs, all or none.
pub async fn submit(
    store: &dyn Store,
    jobs: Vec<JobSpec>,
    out: Out,
) -> Result<Vec<Submitted>, StoreError> {
    let mut told = false;
    let mut news = News::begin(store).await;
    loop {
        match store.submit(clock::now(), SubmitBatch::of(jobs.clone())).await {
            Err(StoreError::Full { queue, block: true, .. }) => {
                if !std::mem::replace(&mut told, true) {
                    out.note(format!("queue {queue} is full; waiting for room"));
                }
                news.wait(LOOK_AGAIN).await;
            }
            other => return other,
        }
    }
}
