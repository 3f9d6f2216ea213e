//! The hub as a whole: what its parts share, what runs beside the requests, and how it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use runcue_core::{TaskName, TaskSpec, Timestamp};
use runcue_engine::{Clock, Cue, IdSource, RandomIds, SystemClock};
use runcue_store::{Store, StoreError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::config::HubConfig;
use crate::desk::Desk;
use crate::door::{Door, Peer};
use crate::ended_by::EndedBy;
use crate::fleet::{self, Fleet};
use crate::held::HeldJobs;
use crate::names::Names;
use crate::routes;
use crate::series::Series;
use crate::tail::{Readers, Tail};
use crate::tokens;
use crate::webhooks;

/// How often the depth of the queue is looked at for the charts.
const SAMPLE: Duration = Duration::from_secs(2);
/// How long open requests have to end when the hub stops.
const DRAIN: Duration = Duration::from_secs(10);
/// How often task definitions are read again, at most.
const LEARN: Duration = Duration::from_secs(1);
/// How often names of workers are looked at that have been kept for long enough.
const PRUNE_NAMES: Duration = Duration::from_secs(3600);
/// How long deliveries that are under way have when the hub stops; another hub makes them then, or this one later.
const LAST_DELIVERIES: Duration = Duration::from_secs(5);

/// Why a hub could not be opened or served.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] runcue_engine::Error),
    /// The network refused.
    #[error("the hub cannot serve: {0}")]
    Network(#[from] std::io::Error),
}

/// What the parts of one hub share.
pub struct Shared {
    pub(crate) config: HubConfig,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: RandomIds,
    pub(crate) cue: Cue,
    pub(crate) access: Access,
    pub(crate) names: Names,
    pub(crate) held: HeldJobs,
    pub(crate) desk: Arc<Desk>,
    pub(crate) tail: Tail,
    pub(crate) series: Series,
    pub(crate) fleet: Fleet,
    pub(crate) ended_by: EndedBy,
    tasks: Mutex<Tasks>,
    /// Everything ends.
    pub(crate) end: CancellationToken,
}

#[derive(Debug, Default)]
struct Tasks {
    known: Arc<HashMap<TaskName, TaskSpec>>,
    read_at: Timestamp,
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Reads the tokens that are kept with the queue.
    pub(crate) async fn learn_tokens(&self) -> Result<(), StoreError> {
        self.access.set_kept(tokens::list(&*self.store).await?);
        Ok(())
    }

    pub(crate) fn new_id(&self) -> runcue_core::JobId {
        self.ids.job(self.now())
    }

    /// The definitions stored with the queue, at most a second old.
    pub(crate) async fn tasks(&self) -> Result<Arc<HashMap<TaskName, TaskSpec>>, StoreError> {
        let now = self.now();
        {
            let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if tasks.read_at != Timestamp::ZERO && now.since(tasks.read_at) < LEARN {
                return Ok(Arc::clone(&tasks.known));
            }
        }
        let read = self.store.tasks().await?;
        let known: HashMap<_, _> = read.into_iter().map(|task| (task.name.clone(), task)).collect();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        *tasks = Tasks { known: Arc::new(known), read_at: now };
        Ok(Arc::clone(&tasks.known))
    }
}

/// A store as an HTTP service.
pub struct Hub {
    shared: Arc<Shared>,
    parts: Vec<JoinHandle<()>>,
}

impl Hub {
    /// Opens a hub on a store and starts what runs beside the requests: taking back jobs of silent workers,
    /// firing schedules, applying retention, reading events, and telling receivers of them.
    pub async fn open(store: Arc<dyn Store>, config: HubConfig) -> Result<Self, HubError> {
        let clock = SystemClock::default();
        // While this hub was away its workers could not be heard: they have the length of a lease to come back
        // before anything is taken from them.
        let counts = store.stats(clock.now()).await?.counts;
        let held = counts.leased + counts.running > 0;
        let reap_after = if held { config.lease } else { Duration::ZERO };
        let cue = Cue::builder_on(Arc::clone(&store))
            .worker_name("hub")
            .slots(0)
            .lease(config.lease)
            .heartbeat(config.lease / 4)
            .reap_every(config.reap_every)
            .reap_after(reap_after)
            .tracer(config.tracer.clone())
            .stop_grace(LAST_DELIVERIES)
            .clock(clock)
            .build()
            .await?;
        cue.start();
        let clock = Arc::clone(cue.clock());
        let shared = Arc::new(Shared {
            access: Access::new(&config.tokens, config.open),
            desk: Arc::new(Desk::new(Arc::clone(&store), Arc::clone(&clock))),
            tail: Tail::new(Arc::clone(&store), Arc::clone(&clock)),
            config,
            store,
            clock,
            ids: RandomIds::default(),
            cue,
            names: Names::default(),
            held: HeldJobs::default(),
            series: Series::default(),
            fleet: Fleet::default(),
            ended_by: EndedBy::default(),
            tasks: Mutex::default(),
            end: CancellationToken::new(),
        });
        shared.learn_tokens().await?;
        let parts = start(&shared);
        Ok(Self { shared, parts })
    }

    /// Every route.
    pub fn router(&self) -> Router {
        routes::router(Arc::clone(&self.shared))
    }

    /// Serves until it is told to end; requests that are open then have a while to end. The store stays open.
    pub async fn serve(
        self,
        door: Door,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), HubError> {
        let service = self.router().into_make_service_with_connect_info::<Peer>();
        let end = self.shared.end.clone();
        let stopping = async move {
            stop.await;
            // Streams and waiting claims never end by themselves.
            end.cancel();
        };
        let serving = axum::serve(door, service).with_graceful_shutdown(stopping);
        let served = tokio::spawn(async move { serving.await });
        self.shared.end.cancelled().await;
        let drained = tokio::time::timeout(DRAIN, served).await;
        self.close().await?;
        match drained {
            Ok(Ok(served)) => Ok(served?),
            // Whoever has not ended by now is cut off.
            _ => Ok(()),
        }
    }

    /// Ends what runs beside the requests.
    pub async fn close(self) -> Result<(), HubError> {
        self.shared.end.cancel();
        for part in self.parts {
            let _ = part.await;
        }
        Ok(self.shared.cue.stop().await?)
    }
}

fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let desk = Arc::clone(shared);
    let tail = Arc::clone(shared);
    let depth = Arc::clone(shared);
    let kept = Arc::clone(shared);
    let told = Arc::clone(shared);
    let measured = Arc::clone(shared);
    let named = Arc::clone(shared);
    vec![
        tokio::spawn(async move { desk.desk.run(desk.end.clone()).await }),
        tokio::spawn(async move {
            let Shared { names, series, ended_by, .. } = &*tail;
            tail.tail.run(Readers { names, series, ended_by }, tail.end.clone()).await;
        }),
        tokio::spawn(async move { sample(&depth).await }),
        tokio::spawn(async move { follow_tokens(&kept).await }),
        tokio::spawn(async move { webhooks::run(&told).await }),
        tokio::spawn(async move { keep_fleet(&measured).await }),
        tokio::spawn(async move { prune_names(&named).await }),
    ]
}

/// A token that was made or taken back anywhere counts here within a second.
async fn follow_tokens(shared: &Shared) {
    loop {
        tokio::select! {
            () = shared.end.cancelled() => return,
            () = tokio::time::sleep(LEARN) => {}
        }
        if let Err(error) = shared.learn_tokens().await {
            tracing::debug!(%error, "tokens could not be read; those that are known stay");
        }
    }
}

/// What machines have pushed here is kept with the queue, so that every hub on it can show them. However many push
/// however often, that is one write every few seconds.
async fn keep_fleet(shared: &Shared) {
    loop {
        tokio::select! {
            () = shared.end.cancelled() => return,
            () = shared.fleet.changed() => {}
        }
        if let Err(error) = shared.fleet.keep(&*shared.store, shared.now()).await {
            tracing::debug!(%error, "what machines measured could not be kept; trying again");
        }
        tokio::select! {
            () = shared.end.cancelled() => return,
            () = tokio::time::sleep(fleet::KEEP_EVERY) => {}
        }
    }
}

/// Names of workers that nobody speaks of any more go.
async fn prune_names(shared: &Shared) {
    loop {
        if let Err(error) = shared.names.prune(&*shared.store, shared.now()).await {
            tracing::debug!(%error, "names of workers could not be pruned; trying again later");
        }
        tokio::select! {
            () = shared.end.cancelled() => return,
            () = tokio::time::sleep(PRUNE_NAMES) => {}
        }
    }
}

async fn sample(shared: &Shared) {
    loop {
        let now = shared.now();
        if let Ok(stats) = shared.store.stats(now).await {
            shared.series.sample(now, &stats);
        }
        tokio::select! {
            () = shared.end.cancelled() => return,
            () = tokio::time::sleep(SAMPLE) => {}
        }
    }
}
