//! Keeps the leases of held jobs, carries their progress, and hears who is to stop.
//!
//! Renewal runs on a thread of its own, with a small runtime of its own: a handler that blocks every worker
//! thread of the caller's runtime must not cost the engine its leases, or each of its jobs would run twice.
//! Under virtual time it is a task, because only tasks take part in virtual time.
//!
//! Between two heartbeats, news makes it look whether a held job was cancelled or taken away. That look
//! only reads: a heartbeat is itself news, and would call for the next one. A job that has just begun is looked at a
//! little later: most jobs of a busy queue are over by then, and nobody has to ask for them.

use std::sync::Arc;
use std::time::Duration;

use runcue_core::{Job, Timestamp};
use runcue_store::{Extend, Extended, Result};
use tokio_util::sync::CancellationToken;

use crate::dispatch::earliest;
use crate::running::{Running, Stop};
use crate::shared::{Shared, backoff};

/// News makes us look at most this often, and only at jobs that have been held for so long.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Of so many parts of the time looking takes one at the most.
const LOOK_SHARE: u32 = 20;

/// Extends the leases of these jobs and passes on what the store says of them.
pub(crate) async fn beat(shared: &Shared, now: Timestamp, held: &[Arc<Running>]) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let entries: Vec<Extend> = held.iter().map(|running| entry(shared, now, running)).collect();
    let progress: Vec<_> = entries.iter().map(|entry| entry.progress.clone()).collect();
    match shared.ask(shared.store.extend(now, entries)).await {
        Ok(answers) => {
            for (running, answer) in held.iter().zip(answers) {
                hear(running, answer);
            }
            Ok(())
        }
        Err(error) => {
            for (running, progress) in held.iter().zip(progress) {
                progress.into_iter().for_each(|unsent| running.return_progress(unsent));
            }
            Err(error)
        }
    }
}

fn entry(shared: &Shared, now: Timestamp, running: &Running) -> Extend {
    Extend {
        lease: running.lease.clone(),
        lease_for: shared.settings.lease,
        progress: running.take_progress(now),
    }
}

fn hear(running: &Running, answer: Extended) {
    match answer {
        Extended::Held { cancel: false, .. } => {}
        Extended::Held { cancel: true, .. } => ask_to_stop(running, Stop::Cancelled),
        Extended::Lost => ask_to_stop(running, Stop::Lost),
    }
}

fn ask_to_stop(running: &Running, why: Stop) {
    // One that has ended and is being written down may no longer be known as held.
    if !running.has_ended() && running.stop(why) && why == Stop::Lost {
        tracing::warn!(work_unit_id = %running.id(), attempt = running.lease.attempt, "lease_lost");
    }
}

/// Reads whether any job that has been held for a while was cancelled or taken away.
pub(crate) async fn look(shared: &Shared) -> Result<()> {
    let now = shared.clock.now();
    // A clock that was set back makes nobody younger.
    let is_young = |at: Timestamp| at <= now && now.since(at) < LOOK_EVERY;
    let mut held = shared.running.all();
    held.retain(|running| !running.has_ended() && !is_young(running.asked));
    if held.is_empty() {
        return Ok(());
    }
    let ids = held.iter().map(|running| running.id()).collect();
    let jobs = shared.ask(shared.store.get(ids)).await?;
    for (running, job) in held.iter().zip(jobs) {
        match job {
            Some(job) if is_ours(&job, running) => {
                if job.life.cancel_requested {
                    ask_to_stop(running, Stop::Cancelled);
                }
            }
            _ => ask_to_stop(running, Stop::Lost),
        }
    }
    Ok(())
}

fn is_ours(job: &Job, running: &Running) -> bool {
    job.life.state.lease().is_some_and(|lease| lease.same_as(&running.lease))
}

/// Beats and looks until told to stop.
pub(crate) async fn run(shared: &Shared, stop: &CancellationToken) {
    let mut news = shared.news.subscribe();
    let mut next_beat = shared.clock.now().plus(shared.settings.heartbeat);
    // When to look, if there is a reason to, and when at the earliest.
    let (mut look_at, mut not_before) = (None, Timestamp::ZERO);
    let mut failures = 0;
    loop {
        // A clock that was set back does not put the next beat off.
        next_beat = next_beat.min(shared.clock.now().plus(shared.settings.heartbeat));
        let wake = earliest(Some(next_beat), shared.running.progress_due());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.sleep_until(wake) => {}
            () = shared.sleep_until(look_at), if look_at.is_some() => {
                news.mark_unchanged();
                (look_at, not_before) = look_and_plan(shared).await;
                continue;
            }
            () = shared.running.progress_noted() => continue,
            // Whoever comes while a look is planned is noted, and looked at with the next one.
            () = shared.running.added(), if look_at.is_none() => {
                look_at = Some(not_before.max(shared.clock.now().plus(LOOK_EVERY)));
                continue;
            }
            // Whoever holds nothing is not woken: the news are somebody else's, who should not have to share a core.
            _ = news.changed(), if look_at.is_none() && !shared.running.is_empty() => {
                look_at = Some(not_before);
                continue;
            }
        }
        let now = shared.clock.now();
        let full = now >= next_beat;
        match round(shared, now, full).await {
            Ok(()) => {
                failures = 0;
                if full {
                    next_beat = now.plus(shared.settings.heartbeat);
                }
            }
            Err(error) => {
                failures += 1;
                shared.refused("leases could not be extended", &error);
                next_beat = now.plus(backoff(failures).min(shared.settings.heartbeat));
                tokio::time::sleep(backoff(0)).await;
            }
        }
    }
}

/// Looks. Answers when to look again without a further reason, because nothing could be seen, and at the earliest.
async fn look_and_plan(shared: &Shared) -> (Option<Timestamp>, Timestamp) {
    let begun = shared.clock.now();
    let looked = look(shared).await;
    let now = shared.clock.now();
    let not_before = now.plus(LOOK_EVERY.max(now.since(begun) * LOOK_SHARE));
    if let Err(error) = &looked {
        tracing::debug!(%error, "held jobs could not be looked at");
    }
    (looked.is_err().then_some(not_before), not_before)
}

async fn round(shared: &Shared, now: Timestamp, full: bool) -> Result<()> {
    if !full {
        return beat(shared, now, &shared.running.with_progress(now)).await;
    }
    beat(shared, now, &shared.running.all()).await?;
    shared.ask(shared.store.upsert_worker(now, shared.worker.clone())).await
}

/// Starts the heartbeat where nothing can block it. The answer is cancelled when it has ended.
pub(crate) fn start(shared: Arc<Shared>, stop: CancellationToken) -> CancellationToken {
    let ended = CancellationToken::new();
    let at_end = ended.clone().drop_guard();
    let is_virtual = shared.clock.is_virtual();
    let beating = async move {
        let _at_end = at_end;
        run(&shared, &stop).await;
    };
    let own = (!is_virtual)
        .then(|| tokio::runtime::Builder::new_current_thread().enable_time().build())
        .transpose();
    match own {
        Ok(Some(runtime)) => {
            std::thread::spawn(move || runtime.block_on(beating));
        }
        Ok(None) => {
            tokio::spawn(beating);
        }
        Err(error) => {
            tracing::warn!(%error, "no runtime for the heartbeat: blocking handlers may lose leases");
            tokio::spawn(beating);
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use runcue_core::StateWord;

    use super::*;
    use crate::dispatch::run_one;
    use crate::{NewJob, Task, testing};

    #[tokio::test(start_paused = true)]
    async fn a_cancel_between_the_claim_and_its_arrival_is_not_missed() {
        let task = Task::new("t").unwrap().handler(|work| async move {
            work.cancellation().cancelled().await;
            Err::<(), _>(crate::Failure::hand_back())
        });
        let cue = testing::cue().task(task).build().await.unwrap();
        let (shared, stop) = (Arc::clone(cue.shared()), CancellationToken::new());
        start(Arc::clone(&shared), stop.clone());
        let id = cue.submit(NewJob::of("t")).await.unwrap();
        let begin = shared.clock.now();
        let request = shared.request(shared.filter().unwrap(), 1);
        let claimed = shared.store.claim(begin, request).await.unwrap();
        cue.cancel(id, false).await.unwrap();
        // The heartbeat has long heard that news when the job arrives here.
        tokio::time::sleep(Duration::from_secs(1)).await;
        for running in shared.running.add(begin, claimed.jobs) {
            run_one(Arc::clone(&shared), running).await;
        }
        shared.completer.run_once(&shared, shared.clock.now()).await.unwrap();
        assert_eq!(cue.get(id).await.unwrap().life.state.word(), StateWord::Cancelled);
        assert!(shared.clock.now().since(begin) < Duration::from_secs(3), "before the next beat");
        stop.cancel();
    }
}
