//! Starting and stopping: which services run, and the order in which they end.
//!
//! ```text
//! stop:  no more claims ─▶ running jobs end, for as long as they are given ─▶ the rest is handed back
//!        ─▶ completions are written ─▶ heartbeat and the others end ─▶ the worker says goodbye
//! ```
//!
//! Every step is bounded, so a stop never hangs: not on a handler that blocks its thread, not on a store
//! that is away. What could not be said is said by the lease lapsing.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runcue_store::Outcome;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::complete::Completer;
use crate::cue::Cue;
use crate::dispatch::Dispatcher;
use crate::error::Result;
use crate::heartbeat;
use crate::logs::Logs;
use crate::prune::Pruner;
use crate::reap;
use crate::running::Stop;
use crate::schedule;
use crate::shared::Shared;
use crate::status::Status;

/// How long handlers have to notice that they are to stop, before their jobs are handed back over their
/// heads. More than what a command needs to end on SIGTERM is never given.
const NOTICE: Duration = Duration::from_secs(2);
/// How long the store has to take in the last completions.
const FLUSH: Duration = Duration::from_secs(10);
/// How long the store has to take in a goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// What runs beside each other in a started engine.
#[derive(Default)]
pub(crate) struct Services {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    New,
    Started(Started),
    Stopped,
}

struct Started {
    dispatcher: JoinHandle<()>,
    heartbeat: CancellationToken,
    others: Vec<JoinHandle<()>>,
    /// Ends everything but the dispatcher, which ends first.
    end: CancellationToken,
}

impl Services {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn are_running(&self) -> bool {
        matches!(*self.state(), State::Started(_))
    }
}

impl Cue {
    /// Begins to run jobs, in the background. Once started, or stopped, it does nothing.
    pub fn start(&self) {
        let mut state = self.services.state();
        if matches!(*state, State::New) {
            *state = State::Started(start(self.shared()));
        }
    }

    /// Stops: claims no more, waits for running jobs as long as the stop grace says, hands the rest back, and
    /// leaves everything written down. The store stays open.
    pub async fn stop(&self) -> Result<()> {
        let shared = self.shared();
        shared.stopping.cancel();
        let state = std::mem::replace(&mut *self.services.state(), State::Stopped);
        let State::Started(started) = state else {
            shared.over.cancel();
            return self.goodbye().await;
        };
        let _ = started.dispatcher.await;
        wait_for_running(shared, shared.settings.stop_grace).await;
        hand_back(shared).await;
        if timeout(FLUSH, shared.completer.idle()).await.is_err() {
            tracing::error!(
                "the store did not take in the last completions; their leases will lapse"
            );
        }
        started.end.cancel();
        for service in started.others {
            let _ = timeout(GOODBYE, service).await;
        }
        let _ = timeout(GOODBYE, started.heartbeat.cancelled()).await;
        let said = self.goodbye().await;
        shared.over.cancel();
        said
    }

    async fn goodbye(&self) -> Result<()> {
        let shared = self.shared();
        if !shared.registered.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let bye = shared.store.remove_worker(shared.clock.now(), shared.worker.id);
        match timeout(GOODBYE, shared.ask(bye)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                tracing::warn!("the store did not take in the goodbye");
                Ok(())
            }
        }
    }

    /// Stops, and closes the store.
    pub async fn close(&self) -> Result<()> {
        self.stop().await?;
        Ok(self.shared().ask(self.shared().store.close()).await?)
    }
}

fn start(shared: &Arc<Shared>) -> Started {
    let end = shared.over.child_token();
    let mut others = vec![
        service(shared, &end, |shared, end| async move { Completer::run(&shared, &end).await }),
        service(shared, &end, |shared, end| async move { Logs::run(&shared, &end).await }),
        service(shared, &end, |shared, end| async move { reap::run(&shared, &end).await }),
        service(shared, &end, |shared, end| async move { schedule::run(&shared, &end).await }),
        service(shared, &end, |shared, end| async move {
            Status::default().run(&shared, &end).await;
        }),
    ];
    if let Some(retention) = shared.settings.retention {
        others.push(service(shared, &end, move |shared, end| async move {
            Pruner::new(retention).run(&shared, &end).await;
        }));
    }
    let heartbeat = heartbeat::start(Arc::clone(shared), end.clone());
    let dispatching = Arc::clone(shared);
    let dispatcher = tokio::spawn(async move {
        // Without slots it keeps house for others and is no worker.
        let mut active = dispatching.active.subscribe();
        tokio::select! {
            biased;
            () = dispatching.stopping.cancelled() => return,
            () = dispatching.over.cancelled() => return,
            _ = active.wait_for(|_| dispatching.slots.load(Ordering::Relaxed) > 0) => {}
        }
        // Known to others before the first claim, so that they can see who holds it.
        while let Err(error) = dispatching.register().await {
            dispatching.refused("the worker could not be made known", &error);
            tokio::select! {
                biased;
                () = dispatching.stopping.cancelled() => return,
                () = dispatching.over.cancelled() => return,
                () = tokio::time::sleep(dispatching.settings.poll) => {}
            }
        }
        let over = dispatching.over.clone();
        tokio::select! {
            biased;
            () = Dispatcher::new(dispatching).run() => {}
            () = over.cancelled() => {}
        }
    });
    Started { dispatcher, heartbeat, others, end }
}

fn service<F, Fut>(shared: &Arc<Shared>, end: &CancellationToken, run: F) -> JoinHandle<()>
where
    F: FnOnce(Arc<Shared>, CancellationToken) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(run(Arc::clone(shared), end.clone()))
}

async fn wait_for_running(shared: &Shared, patience: Duration) {
    let mut active = shared.active.subscribe();
    let _ = timeout(patience, active.wait_for(|active| *active == 0)).await;
}

/// Asks what still runs to stop, and reports it as handed back.
async fn hand_back(shared: &Shared) {
    let still = shared.running.all();
    let running: Vec<_> = still.iter().filter(|running| !running.has_ended()).collect();
    if running.is_empty() {
        return;
    }
    tracing::info!(jobs = running.len(), "handing back what still runs");
    for running in &running {
        running.stop(Stop::HandBack);
    }
    wait_for_running(shared, NOTICE).await;
    for running in running {
        // A handler that blocks its thread cannot be stopped; its job can still be given to another.
        if running.end() {
            shared.completer.push(Arc::clone(running), Outcome::HandBack);
        }
    }
}
