//! Submitting, and waiting for room where the queue's rule is that the submitter waits.

use std::time::Duration;

use runcue_core::JobSpec;
use runcue_store::{Store, StoreError, SubmitBatch, Submitted};

use crate::app::App;
use crate::clock;
use crate::news::News;
use crate::out::Out;

/// How often a submitter that waits for room looks again, should no news reach it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Submits jobs, all or none.
pub async fn submit(
    store: &dyn Store,
    mut jobs: Vec<JobSpec>,
    app: &App,
) -> Result<Vec<Submitted>, StoreError> {
    let submission = app.traces.submission(&mut jobs);
    let submitted = wait_for_room(store, jobs, app.out).await;
    let error = submitted.as_ref().err().map(ToString::to_string);
    submission.end(clock::machine, error);
    submitted
}

async fn wait_for_room(
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
