//! Workers: what they say of themselves, who is there, and who says goodbye.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runcue_core::{Capabilities, WorkerId};
use runcue_store::{Finish, Outcome, WorkerSpec};
use runcue_view::WorkerView;
use serde::Serialize;

use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::names::{Registered, instance_of};
use crate::openapi::{
    Described, Schema, an_id, count, flag, instant, list_of, must, number, object, text,
};
use crate::wire::{Body, Part, RegisterBody, not_ours};

/// A worker as it is shown.
#[derive(Debug, Serialize)]
pub struct WorkerBody {
    /// The name it registered with.
    pub worker_id: String,
    /// What people call it.
    pub name: String,
    /// This start of it.
    pub instance: WorkerId,
    /// The machine it runs on.
    pub host: String,
    /// Its process there; 0 if it is on another machine.
    pub pid: u32,
    /// Whether it was heard of lately.
    pub alive: bool,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// Jobs it holds now.
    pub held: u64,
    /// Cores it offers.
    pub cores: u32,
    /// Memory it offers.
    pub ram_gb: f64,
    /// Words that describe it.
    pub tags: Vec<String>,
    /// When it was first seen.
    pub started_at: i64,
    /// When it was last heard of.
    pub seen_at: i64,
}

impl From<WorkerView> for WorkerBody {
    fn from(worker: WorkerView) -> Self {
        Self {
            worker_id: worker.name.clone(),
            name: worker.name,
            instance: worker.id,
            host: worker.host,
            pid: worker.pid,
            alive: worker.alive,
            slots: worker.slots,
            held: worker.held,
            cores: worker.offers.cores,
            ram_gb: worker.offers.ram_gb,
            tags: worker.offers.tags.into_iter().collect(),
            started_at: worker.started_at,
            seen_at: worker.seen_at,
        }
    }
}

impl Described for WorkerBody {
    const NAME: &'static str = "Worker";

    fn schema() -> Schema {
        object([
            must("worker_id", text()),
            must("name", text()),
            must("instance", an_id()),
            must("host", text()),
            must("pid", count()),
            must("alive", flag()),
            must("slots", count()),
            must("held", count().says("Jobs it holds now.")),
            must("cores", count()),
            must("ram_gb", number()),
            must("tags", list_of(text())),
            must("started_at", instant()),
            must("seen_at", instant()),
        ])
    }
}

/// `POST /api/workers/register`
pub async fn register(
    State(hub): State<Arc<Shared>>,
    Body(body): Body<RegisterBody>,
) -> Answer<StatusCode> {
    let id = body.id()?;
    not_ours("types", &body.types)?;
    let now = hub.now();
    let spec = WorkerSpec {
        id,
        host: body.name.unwrap_or_else(|| body.worker_id.clone()),
        name: body.worker_id,
        pid: 0,
        slots: body.slots.unwrap_or(1),
        offers: Capabilities { cores: body.cores, ram_gb: body.ram_gb, tags: body.tags },
    };
    hub.store.upsert_worker(now, spec.clone()).await?;
    hub.names.register(Registered { spec, types: body.types, told_at: now });
    Ok(StatusCode::NO_CONTENT)
}

/// Every worker, as views.
pub async fn views(hub: &Shared) -> Answer<Vec<WorkerView>> {
    let now = hub.now();
    let gone: HashSet<WorkerId> = hub.store.gone_workers().await?.into_iter().collect();
    let workers = hub.store.workers().await?;
    Ok(workers.iter().map(|worker| WorkerView::new(worker, &gone, now)).collect())
}

/// `GET /api/workers`
pub async fn list(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<WorkerBody>>> {
    Ok(Json(views(&hub).await?.into_iter().map(WorkerBody::from).collect()))
}

/// `DELETE /api/workers/{worker_id}`: by its name or by its instance. What it holds is handed out again.
pub async fn goodbye(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
) -> Answer<StatusCode> {
    let workers = hub.store.workers().await?;
    let instance = name.parse::<WorkerId>().unwrap_or_else(|_| instance_of(&name));
    let worker =
        workers.into_iter().find(|worker| worker.spec.id == instance).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("there is no worker {name}"))
                .help("GET /api/workers lists them; an agent is named by its instance")
        })?;
    let now = hub.now();
    // What it held goes back without burning the attempt; what another hub gave it is taken back as lapsed.
    let back = |lease| Finish { lease, outcome: Outcome::HandBack };
    let held: Vec<Finish> = hub.held.take_of(instance).into_iter().map(back).collect();
    if !held.is_empty() {
        hub.store.finish(now, held).await?;
    }
    // Kept before the worker is gone, so that it is called by its name all the while.
    hub.names.forget(&*hub.store, &worker.spec, now).await?;
    hub.store.reap(now, vec![instance]).await?;
    hub.store.remove_worker(now, instance).await?;
    Ok(StatusCode::NO_CONTENT)
}
