//! Acting on jobs that are there: cancel, retry and replay, one by one, by filter, or a whole group.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use runcue_core::{GroupName, JobFilter, StateWord};
use runcue_store::ListRequest;
use serde::{Deserialize, Serialize};

use super::jobs;
use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{Described, Schema, count, either, flag, may, must, named, object, read_as};
use crate::wire::{ActionBody, Body, JobBody, Part};

const LIVE: [StateWord; 3] = [StateWord::Queued, StateWord::Leased, StateWord::Running];
const ENDED_BADLY: [StateWord; 3] =
    [StateWord::Failed, StateWord::Cancelled, StateWord::Quarantined];
const PAGE: usize = 1_000;

/// How many jobs an action changed, or would change.
#[derive(Debug, Serialize)]
pub struct CountBody {
    /// How many.
    pub count: u64,
    /// Whether nothing was done yet.
    pub dry_run: bool,
}

impl Described for CountBody {
    const NAME: &'static str = "Count";

    fn schema() -> Schema {
        object([must("count", count()), must("dry_run", flag().says("Nothing was done yet."))])
    }
}

/// `DELETE /api/jobs/{id}`: as documented, only what has not begun.
pub async fn delete(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
) -> Answer<StatusCode> {
    let job = jobs::find(&hub, jobs::id(&text)?).await?;
    let state = job.life.state.word();
    let refused = |help: &str| {
        Err(Refusal::new(Code::Conflict, format!("job {} is {state}", job.id())).help(help))
    };
    match state {
        StateWord::Queued | StateWord::Leased => {
            hub.store.cancel(hub.now(), JobFilter::of_ids([job.id()]), false).await?;
            Ok(StatusCode::NO_CONTENT)
        }
        StateWord::Running => refused("POST /api/jobs/{id}/cancel asks it to stop"),
        _ => refused("it has ended, there is nothing to cancel"),
    }
}

/// How to cancel.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CancelBody {
    cascade: bool,
}

impl Described for CancelBody {
    const NAME: &'static str = "Cancel";

    fn schema() -> Schema {
        read_as::<Self>([may("cascade", flag().says("Also what waits for it."))])
    }
}

/// `POST /api/jobs/{id}/cancel`
pub async fn cancel(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
    Body(how): Body<CancelBody>,
) -> Answer<Json<JobBody>> {
    let job = jobs::find(&hub, jobs::id(&text)?).await?;
    hub.store.cancel(hub.now(), JobFilter::of_ids([job.id()]), how.cascade).await?;
    let job = jobs::find(&hub, job.id()).await?;
    Ok(Json(jobs::body(&hub, &job).await?))
}

/// `POST /api/jobs/{id}/retry`
pub async fn retry(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
) -> Answer<Json<JobBody>> {
    let job = jobs::find(&hub, jobs::id(&text)?).await?;
    let state = job.life.state.word();
    if !ENDED_BADLY.contains(&state) {
        let why = format!("job {} is {state}", job.id());
        return Err(Refusal::new(Code::Conflict, why)
            .help("only failed, cancelled and quarantined jobs can be sent round again"));
    }
    hub.store.retry(hub.now(), JobFilter::of_ids([job.id()])).await?;
    let job = jobs::find(&hub, job.id()).await?;
    Ok(Json(jobs::body(&hub, &job).await?))
}

/// `POST /api/jobs/cancel`
pub async fn cancel_many(
    State(hub): State<Arc<Shared>>,
    Body(action): Body<ActionBody>,
) -> Answer<Json<CountBody>> {
    let filter = action.filter(&LIVE)?;
    if action.dry_run {
        return rehearsed(&hub, filter).await;
    }
    let count = hub.store.cancel(hub.now(), filter, action.cascade).await?;
    Ok(Json(CountBody { count, dry_run: false }))
}

/// `POST /api/jobs/retry`
pub async fn retry_many(
    State(hub): State<Arc<Shared>>,
    Body(action): Body<ActionBody>,
) -> Answer<Json<CountBody>> {
    again(&hub, &action, &ENDED_BADLY).await
}

/// `POST /api/quarantine/replay`
pub async fn replay(
    State(hub): State<Arc<Shared>>,
    Body(action): Body<ActionBody>,
) -> Answer<Json<CountBody>> {
    again(&hub, &action, &[StateWord::Quarantined]).await
}

async fn again(hub: &Shared, action: &ActionBody, among: &[StateWord]) -> Answer<Json<CountBody>> {
    let filter = action.filter(among)?;
    if action.dry_run {
        return rehearsed(hub, filter).await;
    }
    let count = hub.store.retry(hub.now(), filter).await?;
    Ok(Json(CountBody { count, dry_run: false }))
}

/// Counts the jobs that are meant. What is asked most often, all jobs in some states or of a group, is known
/// without looking at them.
async fn rehearsed(hub: &Shared, filter: JobFilter) -> Answer<Json<CountBody>> {
    let only_states = filter.ids.is_empty()
        && filter.queue.is_none()
        && filter.task.is_none()
        && filter.project.is_none()
        && filter.label.is_none();
    let counts = match &filter.group {
        None if only_states => Some(hub.store.stats(hub.now()).await?.counts),
        Some(group) if only_states => {
            let groups = hub.store.groups().await?;
            groups.into_iter().find(|one| one.name.as_ref() == Some(group)).map(|one| one.counts)
        }
        _ => None,
    };
    let count = match counts {
        Some(counts) => filter.states.iter().map(|state| counts.get(*state)).sum(),
        None => counted(hub, filter).await?,
    };
    Ok(Json(CountBody { count, dry_run: true }))
}

async fn counted(hub: &Shared, filter: JobFilter) -> Answer<u64> {
    let (mut count, mut before) = (0, None);
    loop {
        let request = ListRequest { filter: filter.clone(), before, limit: PAGE };
        let page = hub.store.list(request).await?;
        count += page.rows.len() as u64;
        before = page.next;
        if before.is_none() {
            return Ok(count);
        }
    }
}

/// What an action on a group did.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum GroupAnswer {
    /// Whether the group was not paused, or not resumed, before.
    Changed {
        /// Whether.
        changed: bool,
    },
    /// How many jobs were changed.
    Counted(CountBody),
}

impl Described for GroupAnswer {
    const NAME: &'static str = "GroupAnswer";

    fn schema() -> Schema {
        either([object([must("changed", flag())]), named::<CountBody>()])
    }
}

/// `POST /api/groups/{name}/pause`, `/resume`, `/retry` and `/cancel`
pub async fn group(
    State(hub): State<Arc<Shared>>,
    Part((name, action)): Part<(String, String)>,
    Body(how): Body<GroupBody>,
) -> Answer<Json<GroupAnswer>> {
    let group = GroupName::new(name)?;
    let now = hub.now();
    let answer = match action.as_str() {
        "pause" | "resume" => {
            let changed = hub.store.set_group_paused(now, group, action == "pause").await?;
            GroupAnswer::Changed { changed }
        }
        "retry" | "cancel" => {
            let states: &[StateWord] =
                if action == "retry" { &ENDED_BADLY } else { &[StateWord::Queued] };
            let filter = JobFilter::of_group(group).in_states(states.iter().copied());
            if how.dry_run {
                return rehearsed(&hub, filter)
                    .await
                    .map(|Json(body)| Json(GroupAnswer::Counted(body)));
            }
            let count = match action.as_str() {
                "retry" => hub.store.retry(now, filter).await?,
                _ => hub.store.cancel(now, filter, how.cascade).await?,
            };
            GroupAnswer::Counted(CountBody { count, dry_run: false })
        }
        other => {
            return Err(Refusal::new(Code::NotFound, format!("groups have no action {other}"))
                .help("pause, resume, retry and cancel are there"));
        }
    };
    Ok(Json(answer))
}

/// How to act on a group.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupBody {
    cascade: bool,
    dry_run: bool,
}

impl Described for GroupBody {
    const NAME: &'static str = "GroupAction";

    fn schema() -> Schema {
        read_as::<Self>([may("cascade", flag()), may("dry_run", flag().says("Only count."))])
    }
}
