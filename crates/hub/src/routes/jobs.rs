//! Looking at jobs: lists by filter and text, page by page; one job with its relatives; and why it waits.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue};
use runcue_core::{Job, JobFilter, JobId, Seq, StateWord, WorkerId};
use runcue_store::{ListRequest, StoreError};
use runcue_view::ReasonView;
use serde::Serialize;

use crate::error::{Answer, Code, Refusal};
use crate::hub::Shared;
use crate::openapi::{
    Described, Operation, Schema, an_id, count, id_read, list_of, must, name, named, object, text,
};
use crate::wire::{JobBody, JobDetail, ListQuery, Part, Relative, state, status_of};

/// Jobs of a page, unless the query says otherwise.
const LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
const MAX_OFFSET: usize = 10_000;
/// Jobs that a search for text looks at before it gives up for this page.
const SEARCHED: usize = 50_000;
const PAGE: usize = 1_000;
/// Relatives that are shown of one job.
const RELATIVES: usize = 200;

type Jobs = (HeaderMap, Json<Vec<JobBody>>);

/// `GET /api/jobs`
pub async fn list(State(hub): State<Arc<Shared>>, query: Listed) -> Answer<Jobs> {
    let query = read(query)?;
    let filter = query.filter()?;
    page(&hub, query, filter).await
}

/// `GET /api/quarantine`
pub async fn quarantine(State(hub): State<Arc<Shared>>, query: Listed) -> Answer<Jobs> {
    let query = read(query)?;
    let filter = query.filter()?.in_states([StateWord::Quarantined]);
    page(&hub, query, filter).await
}

/// What a list of jobs can be asked for.
pub fn listing(operation: Operation) -> Operation {
    operation
        .asks("status", text().says("The hub's words, several with commas."))
        .asks("state", text().says("runcue's words, several with commas."))
        .asks("type", name())
        .asks("group", name())
        .asks("queue", name())
        .asks("project", text())
        .asks("label", text())
        .asks("q", text().says("Text in id, type, target, group, params or error."))
        .asks("limit", count().with("minimum", 1).up_to(MAX_LIMIT).with("default", LIMIT))
        .asks("offset", count().up_to(MAX_OFFSET))
        .asks("before", id_read().says("Only jobs submitted before this one."))
        .gives(200, "Jobs.", list_of(named::<JobBody>()))
        .with_header(
            200,
            "X-Next-Before",
            an_id().says("Pass it as `before`; missing on the last page."),
        )
        .refuses(&[Code::NotFound])
}

type Listed = Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>;

fn read(query: Listed) -> Answer<ListQuery> {
    let Query(query) = query.map_err(|error| {
        Refusal::new(Code::Invalid, format!("the query: {}", error.body_text()))
    })?;
    Ok(query)
}

async fn page(hub: &Shared, query: ListQuery, filter: JobFilter) -> Answer<Jobs> {
    let limit = query.limit.unwrap_or(LIMIT);
    if limit == 0 || limit > MAX_LIMIT {
        return Err(Refusal::field("limit", format!("1 to {MAX_LIMIT} are expected")));
    }
    let offset = query.offset.unwrap_or(0);
    if offset > MAX_OFFSET {
        return Err(Refusal::field("offset", format!("at most {MAX_OFFSET}"))
            .help("go on with ?before= and the id in the header X-Next-Before"));
    }
    let before = match query.before {
        Some(id) => Some(find(hub, id).await?.seq),
        None => None,
    };
    let text = query.q.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let (jobs, next) = match text {
        Some(text) => search(hub, &filter, before, limit, text).await?,
        None => skip(hub, &filter, before, limit, offset).await?,
    };
    let mut headers = HeaderMap::new();
    if let Some(next) = next
        && let Ok(value) = HeaderValue::try_from(next.to_string())
    {
        headers.insert("x-next-before", value);
    }
    Ok((headers, Json(bodies(hub, &jobs).await?)))
}

async fn skip(
    hub: &Shared,
    filter: &JobFilter,
    before: Option<Seq>,
    limit: usize,
    offset: usize,
) -> Answer<(Vec<Job>, Option<JobId>)> {
    let request = ListRequest { filter: filter.clone(), before, limit: limit + offset };
    let page = hub.store.list(request).await?;
    let more = page.next.is_some();
    let jobs: Vec<Job> = page.rows.into_iter().skip(offset).collect();
    let next = jobs.last().map(Job::id).filter(|_| more);
    Ok((jobs, next))
}

/// Looks at jobs one page after the other until enough of them hold the text. An id finds its job at once.
async fn search(
    hub: &Shared,
    filter: &JobFilter,
    mut before: Option<Seq>,
    limit: usize,
    text: &str,
) -> Answer<(Vec<Job>, Option<JobId>)> {
    if let Ok(id) = text.parse::<JobId>() {
        let found = hub.store.get(vec![id]).await?.into_iter().flatten();
        return Ok((found.filter(|job| filter.matches(job)).collect(), None));
    }
    let text = text.to_lowercase();
    let (mut found, mut looked) = (Vec::new(), 0);
    loop {
        let request = ListRequest { filter: filter.clone(), before, limit: PAGE };
        let page = hub.store.list(request).await?;
        looked += page.rows.len();
        let last = page.rows.last().map(Job::id);
        for job in page.rows {
            if holds(&job, &text) {
                found.push(job);
                if found.len() == limit {
                    let next = found.last().map(Job::id);
                    return Ok((found, next));
                }
            }
        }
        before = page.next;
        if before.is_none() {
            return Ok((found, None));
        }
        if looked >= SEARCHED {
            return Ok((found, last));
        }
    }
}

fn holds(job: &Job, text: &str) -> bool {
    let spec = &job.spec;
    let has = |field: &str| field.to_lowercase().contains(text);
    has(spec.task.as_str())
        || spec.target.as_deref().is_some_and(has)
        || spec.group.as_ref().is_some_and(|group| has(group.as_str()))
        || job.life.last_error.as_deref().is_some_and(has)
        || spec.id.to_string().contains(text)
        || has(spec.params.as_str())
}

/// A job that must be there.
pub async fn find(hub: &Shared, id: JobId) -> Answer<Job> {
    let job = hub.store.get(vec![id]).await?.into_iter().next().flatten();
    job.ok_or_else(|| Refusal::no_job(id))
}

/// An id in a path.
pub fn id(text: &str) -> Answer<JobId> {
    text.parse()
        .map_err(|error: runcue_core::NameError| Refusal::new(Code::NotFound, error.to_string()))
}

/// Jobs as they are shown, with the names of their workers.
pub async fn bodies(hub: &Shared, jobs: &[Job]) -> Result<Vec<JobBody>, StoreError> {
    let workers = workers(hub, jobs).await?;
    Ok(jobs.iter().zip(workers).map(|(job, worker)| shown(hub, job, worker)).collect())
}

/// One job as it is shown.
pub async fn body(hub: &Shared, job: &Job) -> Result<JobBody, StoreError> {
    let workers = workers(hub, std::slice::from_ref(job)).await?;
    Ok(shown(hub, job, workers.into_iter().next().flatten()))
}

/// Who holds each job, or ran its last attempt. The names of all workers that the jobs speak of are known afterwards.
async fn workers(hub: &Shared, jobs: &[Job]) -> Result<Vec<Option<WorkerId>>, StoreError> {
    let ended_by = hub.ended_by.of(&*hub.store, jobs).await?;
    let holder = |job: &Job| job.life.state.lease().map(|lease| lease.worker);
    let workers: Vec<Option<WorkerId>> =
        jobs.iter().zip(ended_by).map(|(job, ended_by)| holder(job).or(ended_by)).collect();
    let failed = jobs.iter().flat_map(|job| &job.life.failures).filter_map(|one| one.worker_id);
    let named: Vec<WorkerId> = workers.iter().flatten().copied().chain(failed).collect();
    hub.names.learn(&*hub.store, &named, hub.now()).await;
    Ok(workers)
}

fn shown(hub: &Shared, job: &Job, worker: Option<WorkerId>) -> JobBody {
    let worker_id = worker.map(|id| hub.names.of(id));
    JobBody { worker_id, ..JobBody::new(job, &hub.names, hub.config.lease) }
}

/// What a worker is called.
pub async fn worker_name(hub: &Shared, worker: WorkerId) -> String {
    hub.names.learn(&*hub.store, &[worker], hub.now()).await;
    hub.names.of(worker)
}

/// `GET /api/jobs/{id}`
pub async fn get(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
) -> Answer<Json<JobDetail>> {
    let job = find(&hub, id(&text)?).await?;
    let (before, after) = hub.store.relatives(job.id()).await?;
    let why = match job.life.state.word() {
        StateWord::Queued => hub.store.why(hub.now(), job.id()).await?,
        _ => Vec::new(),
    };
    Ok(Json(JobDetail {
        prerequisites: relatives(&hub, before).await?,
        dependents: relatives(&hub, after).await?,
        why: why.iter().map(ReasonView::from).collect(),
        job: body(&hub, &job).await?,
    }))
}

async fn relatives(hub: &Shared, mut ids: Vec<JobId>) -> Answer<Vec<Relative>> {
    ids.truncate(RELATIVES);
    let found = hub.store.get(ids.clone()).await?;
    let relative = |(id, job): (JobId, Option<Job>)| {
        let state = job.as_ref().map(|job| job.life.state.word());
        let task = job.map(|job| job.spec.task.clone());
        Relative { id, task, state, status: state.map(status_of) }
    };
    Ok(ids.into_iter().zip(found).map(relative).collect())
}

/// Why a job waits.
#[derive(Debug, Serialize)]
pub struct WhyBody {
    /// The job.
    pub id: JobId,
    /// Where it is.
    pub state: StateWord,
    /// Most important first.
    pub reasons: Vec<ReasonView>,
}

impl Described for WhyBody {
    const NAME: &'static str = "Why";

    fn schema() -> Schema {
        let reasons = list_of(named::<ReasonView>()).says("Most important first.");
        object([must("id", an_id()), must("state", state()), must("reasons", reasons)])
    }
}

/// `GET /api/jobs/{id}/why`
pub async fn why(
    State(hub): State<Arc<Shared>>,
    Part(text): Part<String>,
) -> Answer<Json<WhyBody>> {
    let job = find(&hub, id(&text)?).await?;
    let reasons = hub.store.why(hub.now(), job.id()).await?;
    let reasons = reasons.iter().map(ReasonView::from).collect();
    Ok(Json(WhyBody { id: job.id(), state: job.life.state.word(), reasons }))
}
