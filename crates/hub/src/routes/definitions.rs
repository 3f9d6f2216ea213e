//! What jobs run under: groups, queues, services, schedules and tasks; read, and changed while everything runs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runcue_core::service::KeyLimits;
use runcue_core::{
    Missed, OnFull, Overlap, QueueName, QueueSpec, Rate, RetryPolicy, ScheduleName, ScheduleSpec,
    ServiceName, ServiceSpec, TaskName,
};
use runcue_store::ScheduleInfo;
use runcue_view::{GroupView, QueueView, ScheduleView, ServiceView, UseView};
use serde::{Deserialize, Serialize};

use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{
    Described, Schema, count32, count64, flag, list_of, may, must, name, named, object, read_as,
    seconds, text, word,
};
use crate::wire::strict::{Known, known};
use crate::wire::{Body, Defaults, NewJobBody, Part};

/// Next firings that are shown of a schedule.
const FIRINGS: usize = 3;

/// `GET /api/groups`
pub async fn groups(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<GroupView>>> {
    let groups = hub.store.groups().await?;
    Ok(Json(groups.iter().map(GroupView::from).collect()))
}

/// `GET /api/queues`
pub async fn queues(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<QueueView>>> {
    let queues = hub.store.queues().await?;
    Ok(Json(queues.iter().map(QueueView::from).collect()))
}

/// A queue's cap and pause.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueBody {
    max_queued: Option<u64>,
    on_full: OnFull,
    paused: bool,
}

impl Described for QueueBody {
    const NAME: &'static str = "QueueLimits";

    fn schema() -> Schema {
        read_as::<Self>([
            may("max_queued", count64().or_null().says("The most jobs that may wait.")),
            may("on_full", word(&["reject", "drop_oldest", "block"])),
            may("paused", flag()),
        ])
    }
}

/// `PUT /api/queues/{name}`
pub async fn put_queue(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
    Body(body): Body<QueueBody>,
) -> Answer<Json<QueueView>> {
    let name = QueueName::new(name)?;
    let QueueBody { max_queued, on_full, paused } = body;
    let spec = QueueSpec { name: name.clone(), max_queued, on_full, paused };
    hub.store.upsert_queues(hub.now(), vec![spec]).await?;
    let queues = hub.store.queues().await?;
    let found = queues.iter().find(|queue| queue.name == name).map(QueueView::from);
    found.map(Json).ok_or_else(|| gone("queue", name.as_str()))
}

fn gone(what: &str, name: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no {what} {name}"))
}

/// `GET /api/services`
pub async fn services(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<ServiceView>>> {
    let now = hub.now();
    let services = hub.store.services(now).await?;
    Ok(Json(services.iter().map(|service| ServiceView::new(service, now)).collect()))
}

/// The limits of a key, strictly read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyBody {
    max_concurrent: Option<u32>,
    rates: Vec<Known<Rate>>,
}

impl From<KeyBody> for KeyLimits {
    fn from(body: KeyBody) -> Self {
        Self { max_concurrent: body.max_concurrent, rates: plain(body.rates) }
    }
}

fn plain(rates: Vec<Known<Rate>>) -> Vec<Rate> {
    rates.into_iter().map(|Known(rate)| rate).collect()
}

/// The limits of a service; what is left out has its default, or stays as it is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceBody {
    #[serde(deserialize_with = "said")]
    max_concurrent: Option<Option<u32>>,
    rates: Option<Vec<Known<Rate>>>,
    #[serde(deserialize_with = "said")]
    per_key: Option<Option<Known<KeyBody>>>,
    #[serde(deserialize_with = "said")]
    circuit_threshold: Option<Option<u32>>,
    circuit_timeout: Option<f64>,
    paused: Option<bool>,
}

impl Described for ServiceBody {
    const NAME: &'static str = "ServiceLimits";

    fn schema() -> Schema {
        read_as::<Self>([
            may("max_concurrent", count32().or_null().says("Jobs at once.")),
            may("rates", list_of(named::<Rate>()).or_null().says("All of them hold.")),
            may("per_key", named::<KeyLimits>().or_null()),
            may(
                "circuit_threshold",
                count32().or_null().says("Failures in a row that open its breaker."),
            ),
            may("circuit_timeout", seconds().or_null().says("Seconds it stays open.")),
            may("paused", flag().or_null()),
        ])
    }
}

/// Tells `null` from nothing.
fn said<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

impl ServiceBody {
    fn change(self, mut spec: ServiceSpec) -> Answer<ServiceSpec> {
        spec.max_concurrent = self.max_concurrent.unwrap_or(spec.max_concurrent);
        spec.rates = self.rates.map_or(spec.rates, plain);
        spec.per_key = match self.per_key {
            Some(said) => said.map(|Known(limits)| limits.into()),
            None => spec.per_key,
        };
        spec.circuit_threshold = self.circuit_threshold.unwrap_or(spec.circuit_threshold);
        spec.paused = self.paused.unwrap_or(spec.paused);
        if let Some(seconds) = self.circuit_timeout {
            spec.circuit_timeout = Duration::try_from_secs_f64(seconds)
                .map_err(|_| Refusal::field("circuit_timeout", "seconds, zero or more"))?;
        }
        let per_key = spec.per_key.iter().flat_map(|limits| &limits.rates);
        if spec.rates.iter().chain(per_key).any(|rate| rate.limit == 0 || rate.window.is_zero()) {
            return Err(Refusal::field("rates", "rate_limit and rate_window must be above zero")
                .help("to let nothing through, send \"paused\": true"));
        }
        Ok(spec)
    }
}

/// `PUT /api/services/{name}`
pub async fn put_service(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
    Body(body): Body<ServiceBody>,
) -> Answer<Json<ServiceView>> {
    let spec = body.change(ServiceSpec::new(ServiceName::new(name)?))?;
    write_service(&hub, spec).await
}

/// `PATCH /api/services/{name}`
pub async fn patch_service(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
    Body(body): Body<ServiceBody>,
) -> Answer<Json<ServiceView>> {
    let name = ServiceName::new(name)?;
    let services = hub.store.services(hub.now()).await?;
    let found = services.into_iter().find(|service| service.spec.name == name);
    let found = found.ok_or_else(|| {
        gone("service", name.as_str()).help("PUT /api/services/{name} defines it")
    })?;
    write_service(&hub, body.change(found.spec)?).await
}

async fn write_service(hub: &Shared, spec: ServiceSpec) -> Answer<Json<ServiceView>> {
    let (name, now) = (spec.name.clone(), hub.now());
    hub.store.upsert_services(now, vec![spec]).await?;
    let services = hub.store.services(now).await?;
    let found = services.iter().find(|service| service.spec.name == name);
    let found = found.ok_or_else(|| gone("service", name.as_str()))?;
    Ok(Json(ServiceView::new(found, now)))
}

/// `GET /api/schedules`
pub async fn schedules(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<ScheduleView>>> {
    let schedules = hub.store.schedules().await?;
    Ok(Json(schedules.iter().map(|one| ScheduleView::new(one, FIRINGS)).collect()))
}

/// A schedule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    cron: String,
    zone: Option<String>,
    #[serde(default)]
    missed: Missed,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    paused: bool,
    #[serde(deserialize_with = "known")]
    job: NewJobBody,
}

impl Described for ScheduleBody {
    const NAME: &'static str = "NewSchedule";

    fn schema() -> Schema {
        read_as::<Self>([
            must("cron", text()),
            may("zone", text().or_null().says("An IANA name; UTC unless it says.")),
            may("missed", word(&["skip", "once", "all"])),
            may("overlap", word(&["allow", "skip"])),
            may("paused", flag()),
            must("job", named::<NewJobBody>()),
        ])
    }
}

/// `PUT /api/schedules/{name}`
pub async fn put_schedule(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
    Body(body): Body<ScheduleBody>,
) -> Answer<Json<ScheduleView>> {
    let name = ScheduleName::new(name)?;
    let tasks = hub.tasks().await?;
    let defaults = Defaults { tasks: &tasks, unchecked_solvers: hub.config.unchecked_solvers };
    let job = body.job.into_spec(hub.new_id(), &defaults)?;
    let mut spec = ScheduleSpec::new(name.clone(), body.cron, job);
    if let Some(zone) = body.zone {
        spec.zone = zone;
    }
    (spec.missed, spec.overlap, spec.paused) = (body.missed, body.overlap, body.paused);
    hub.store.upsert_schedules(hub.now(), vec![spec]).await?;
    shown(&hub, &name).await
}

async fn found(hub: &Shared, name: &ScheduleName) -> Answer<ScheduleInfo> {
    let schedules = hub.store.schedules().await?;
    let found = schedules.into_iter().find(|one| one.spec.name == *name);
    found.ok_or_else(|| gone("schedule", name.as_str()))
}

async fn shown(hub: &Shared, name: &ScheduleName) -> Answer<Json<ScheduleView>> {
    Ok(Json(ScheduleView::new(&found(hub, name).await?, FIRINGS)))
}

/// `DELETE /api/schedules/{name}`
pub async fn remove_schedule(
    State(hub): State<Arc<Shared>>,
    Part(name): Part<String>,
) -> Answer<StatusCode> {
    let name = ScheduleName::new(name)?;
    match hub.store.remove_schedule(hub.now(), name.clone()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(gone("schedule", name.as_str())),
    }
}

/// `POST /api/schedules/{name}/pause` and `/resume`
pub async fn pause_schedule(
    State(hub): State<Arc<Shared>>,
    Part((name, action)): Part<(String, String)>,
) -> Answer<Json<ScheduleView>> {
    let paused = match action.as_str() {
        "pause" => true,
        "resume" => false,
        other => {
            return Err(Refusal::new(Code::NotFound, format!("schedules have no action {other}"))
                .help("pause and resume are there"));
        }
    };
    let name = ScheduleName::new(name)?;
    let spec = ScheduleSpec { paused, ..found(&hub, &name).await?.spec };
    hub.store.upsert_schedules(hub.now(), vec![spec]).await?;
    shown(&hub, &name).await
}

/// A task definition.
#[derive(Debug, Serialize)]
pub struct TaskBody {
    /// Its name.
    pub name: TaskName,
    /// What its jobs use.
    pub services: Vec<UseView>,
    /// Seconds one attempt may run.
    pub timeout: Option<f64>,
    /// When to try again.
    pub retry: RetryPolicy,
}

impl Described for TaskBody {
    const NAME: &'static str = "Task";

    fn schema() -> Schema {
        object([
            must("name", name()),
            must("services", list_of(named::<UseView>())),
            must("timeout", seconds().or_null()),
            must("retry", named::<RetryPolicy>()),
        ])
    }
}

/// `GET /api/tasks`
pub async fn tasks(State(hub): State<Arc<Shared>>) -> Answer<Json<Vec<TaskBody>>> {
    let tasks = hub.store.tasks().await?;
    let body = |task: runcue_core::TaskSpec| TaskBody {
        services: task.services.iter().map(UseView::from).collect(),
        timeout: task.timeout.map(|span| span.as_secs_f64()),
        name: task.name,
        retry: task.retry,
    };
    Ok(Json(tasks.into_iter().map(body).collect()))
}
