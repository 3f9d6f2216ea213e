//! The table of every route: by the role it needs, with what it reads, answers and refuses.

use std::sync::Arc;

use axum::handler::Handler;
use runcue_view::{GroupView, QueueView, ScheduleView, ServiceView};

use super::route::Method::{self, Delete, Get, Patch, Post, Put};
use super::{
    Route, actions, claim, definitions, events, fleet, jobs, login, logs, openapi, report, status,
    submit, tokens, webhooks, workers,
};
use crate::access::{Caller, Role};
use crate::config::{MAX_BULK, MAX_BULK_BODY};
use crate::error::Code;
use crate::fleet::{MOST_PUSHED, Measured, Node};
use crate::health::Health;
use crate::hub::Shared;
use crate::openapi::{Described, Operation, count64, either, flag, list_of, named, object, text};
use crate::series::SeriesBody;
use crate::tokens::TokenInfo;
use crate::webhooks::{MadeWebhook, WebhookInfo};
use crate::wire::{
    ActionBody, BeatBody, BeatsBody, ClaimBody, ClaimedBody, EndedBody, EndedManyBody, EndsBody,
    FailBody, HeartbeatBody, HeartbeatsBody, JobBody, JobDetail, NewJobBody, RegisterBody,
    ReleaseBody, ResultBody,
};

const EVENTS: &str = "text/event-stream";
const METRICS: &str = "application/openmetrics-text";

/// Every route.
pub fn routes() -> Vec<Route> {
    let mut routes = for_everybody();
    for (role, more) in [
        (Role::Read, reading()),
        (Role::Submit, submitting()),
        (Role::Work, working()),
        (Role::Admin, administering()),
    ] {
        routes.extend(more.into_iter().map(|route| route.needs(role)));
    }
    routes
}

fn says(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, summary)
}

fn events_after(operation: Operation) -> Operation {
    operation
        .asks("after", count64().says("The number of the last event that was seen."))
        .reads("Last-Event-ID", text().with("pattern", "^[0-9]+$").says("The same; comes first."))
        .gives_text(200, EVENTS, "A stream of events, which does not end by itself.")
}

fn in_a_trace(operation: Operation) -> Operation {
    let said = "The trace of jobs that name none, in the form of W3C Trace Context; ignored if it has another.";
    operation.reads("traceparent", text().says(said))
}

fn for_everybody() -> Vec<Route> {
    vec![
        Route::new(
            Get,
            "/openapi.json",
            openapi::show,
            says("getDocument", "This document").without_a_store().gives(
                200,
                "In the OpenAPI format.",
                object([]),
            ),
        ),
        Route::new(
            Get,
            "/healthz",
            status::healthz,
            says("getHealth", "Whether all is well")
                .gives_a::<Health>(
                    200,
                    "The store is there. `stuck`: ready work, and nothing is claimed.",
                )
                .gives_a::<Health>(503, "The store is away."),
        ),
        Route::new(
            Get,
            "/api/jobs/events",
            events::jobs,
            events_after(says(
                "streamJobEvents",
                "What happens to jobs; without a token only id, type, status and time",
            )),
        ),
        Route::new(
            Post,
            "/api/login",
            login::login,
            says("login", "Turns a token into a cookie for a browser")
                .without_a_store()
                .takes::<login::LoginBody>()
                .gives_a::<Caller>(200, "Logged in.")
                .with_header(200, "Set-Cookie", text()),
        ),
        Route::new(
            Post,
            "/api/logout",
            login::logout,
            says("logout", "Takes the cookie back")
                .without_a_store()
                .gives_nothing(204, "Logged out.")
                .with_header(204, "Set-Cookie", text()),
        ),
        Route::new(
            Get,
            "/api/me",
            login::me,
            says("getMe", "Who asks").without_a_store().gives_a::<Caller>(200, "The caller."),
        ),
    ]
}

fn reading() -> Vec<Route> {
    vec![
        Route::new(
            Get,
            "/api/jobs",
            jobs::list,
            jobs::listing(says("listJobs", "Jobs, newest first")),
        ),
        Route::new(
            Get,
            "/api/quarantine",
            jobs::quarantine,
            jobs::listing(says("listQuarantine", "Quarantined jobs, newest first")),
        ),
        Route::new(
            Get,
            "/api/jobs/{id}",
            jobs::get,
            says("getJob", "One job with its relatives and why it waits")
                .gives_a::<JobDetail>(200, "The job."),
        ),
        Route::new(
            Get,
            "/api/jobs/{id}/why",
            jobs::why,
            says("getWhy", "Why a job waits").gives_a::<jobs::WhyBody>(200, "The reasons."),
        ),
        Route::new(
            Get,
            "/api/jobs/{id}/logs",
            logs::read,
            says("getLogs", "A job's output")
                .asks("after", count64().says("The number of the last piece that was seen."))
                .asks("follow", flag().says("Stream what comes until the job ends."))
                .gives_a::<logs::LogsBody>(
                    200,
                    "The output; with `follow` as a stream of `log`, at last `end`.",
                )
                .gives_text(200, EVENTS, ""),
        ),
        many::<workers::WorkerBody, _, _>("/api/workers", workers::list, "listWorkers", "Workers"),
        many::<GroupView, _, _>("/api/groups", definitions::groups, "listGroups", "Groups"),
        many::<QueueView, _, _>("/api/queues", definitions::queues, "listQueues", "Queues"),
        many::<ServiceView, _, _>(
            "/api/services",
            definitions::services,
            "listServices",
            "Services",
        ),
        many::<ScheduleView, _, _>(
            "/api/schedules",
            definitions::schedules,
            "listSchedules",
            "Schedules",
        ),
        many::<definitions::TaskBody, _, _>("/api/tasks", definitions::tasks, "listTasks", "Tasks"),
        many::<Node, _, _>("/api/fleet", fleet::show, "listFleet", "Machines with their workers"),
        Route::new(
            Get,
            "/api/status",
            status::status,
            says("getStatus", "The queue at a glance")
                .gives_a::<status::StatusBody>(200, "The queue."),
        ),
        Route::new(
            Get,
            "/api/series",
            status::series,
            says("getSeries", "The figures of the last hour")
                .without_a_store()
                .gives_a::<SeriesBody>(200, "The figures."),
        ),
        Route::new(
            Get,
            "/api/events",
            events::all,
            events_after(says("streamEvents", "Everything that happens")),
        ),
        Route::new(
            Get,
            "/metrics",
            status::metrics,
            says("getMetrics", "Metrics").gives_text(200, METRICS, "As OpenMetrics has them."),
        ),
    ]
}

/// A list of everything of a kind.
fn many<A, H, T>(path: &'static str, handler: H, id: &'static str, what: &'static str) -> Route
where
    A: Described,
    H: Handler<T, Arc<Shared>>,
    T: 'static,
{
    Route::new(Get, path, handler, says(id, what).gives(200, what, list_of(named::<A>())))
}

fn submitting() -> Vec<Route> {
    const BY_ID: [&str; 6] = ["getJob", "getWhy", "getLogs", "cancelJob", "retryJob", "deleteJob"];
    vec![
        Route::new(
            Post,
            "/api/jobs",
            submit::one,
            in_a_trace(says("submitJob", "Submits a job"))
                .takes::<NewJobBody>()
                .gives_a::<submit::SubmittedBody>(201, "It is new.")
                .gives_a::<submit::SubmittedBody>(
                    200,
                    "It was there: the id or idempotency key is known.",
                )
                .leads_to(201, &BY_ID)
                .refuses(&[Code::NotFound, Code::Conflict, Code::QueueFull]),
        ),
        Route::new(
            Post,
            "/api/jobs/bulk",
            submit::bulk,
            in_a_trace(says("submitJobs", "Submits many jobs, all or none"))
                .takes_shape(list_of(named::<NewJobBody>()).up_to(MAX_BULK), true)
                .or_as("application/x-ndjson", "One job per line.")
                .gives_a::<submit::BulkBody>(201, "What became of each.")
                .refuses(&[Code::NotFound, Code::Conflict, Code::QueueFull]),
        )
        .up_to(MAX_BULK_BODY),
        Route::new(
            Delete,
            "/api/jobs/{id}",
            actions::delete,
            says("deleteJob", "Cancels a job that has not begun")
                .gives_nothing(204, "Cancelled.")
                .refuses(&[Code::Conflict]),
        ),
        Route::new(
            Post,
            "/api/jobs/{id}/cancel",
            actions::cancel,
            says("cancelJob", "Cancels a job, or asks it to stop if it runs")
                .takes::<actions::CancelBody>()
                .gives_a::<JobBody>(200, "The job."),
        ),
        Route::new(
            Post,
            "/api/jobs/{id}/retry",
            actions::retry,
            says("retryJob", "Sends a failed, cancelled or quarantined job round again")
                .gives_a::<JobBody>(200, "The job.")
                .refuses(&[Code::Conflict]),
        ),
    ]
}

fn working() -> Vec<Route> {
    vec![
        Route::new(
            Post,
            "/api/workers/register",
            workers::register,
            says("registerWorker", "A worker says what it is")
                .takes::<RegisterBody>()
                .gives_nothing(204, "Registered."),
        ),
        Route::new(
            Delete,
            "/api/workers/{worker_id}",
            workers::goodbye,
            says("removeWorker", "A worker says goodbye; what it holds is handed out again")
                .gives_nothing(204, "Gone.")
                .refuses(&[Code::NotFound]),
        ),
        Route::new(
            Post,
            "/api/jobs/claim",
            claim::claim,
            says("claimJobs", "Takes jobs to work on, at once or as soon as there are some")
                .takes::<ClaimBody>()
                .gives(
                    200,
                    "A job, or with `max` a list of them.",
                    either([JobBody::claimed(), named::<ClaimedBody>()]),
                )
                .gives_nothing(204, "There is none, and `max` was not sent."),
        ),
        report_on(
            "/api/jobs/{id}/heartbeat",
            report::heartbeat,
            says("heartbeat", "The job is being worked on; the first one says that it runs")
                .takes::<HeartbeatBody>()
                .gives_a::<BeatBody>(200, "Held; the lease was sent.")
                .gives_nothing(204, "Held; no lease was sent.")
                .with_header(200, "X-Cancel", text().says("`true` if somebody wants it stopped."))
                .with_header(204, "X-Cancel", text().says("`true` if somebody wants it stopped.")),
        ),
        report_on(
            "/api/jobs/{id}/result",
            report::result,
            says("completeJob", "The job is done; the same result again is no error")
                .reads("X-Idempotency-Key", text().says("What a repeated result is recognised by."))
                .takes::<ResultBody>()
                .gives_a::<EndedBody>(200, "Done."),
        ),
        report_on(
            "/api/jobs/{id}/fail",
            report::fail,
            says("failJob", "The attempt has failed")
                .takes::<FailBody>()
                .gives_a::<EndedBody>(200, "Noted."),
        ),
        report_on(
            "/api/jobs/{id}/release",
            report::release,
            says("releaseJob", "Hands the job back; the attempt is not counted")
                .takes::<ReleaseBody>()
                .gives_a::<EndedBody>(200, "Handed back."),
        ),
        report_on(
            "/api/jobs/{id}/logs",
            logs::append,
            says("appendLogs", "Output of the job")
                .takes::<logs::AppendBody>()
                .gives_nothing(204, "Kept."),
        ),
        Route::new(
            Post,
            "/api/jobs/heartbeats",
            report::heartbeats,
            says("heartbeats", "Heartbeats of many jobs")
                .takes::<HeartbeatsBody>()
                .gives_a::<BeatsBody>(200, "What each is told."),
        ),
        Route::new(
            Post,
            "/api/jobs/ends",
            report::ends,
            says("endJobs", "Ends of many attempts")
                .takes::<EndsBody>()
                .gives_a::<EndedManyBody>(200, "What became of each."),
        ),
        Route::new(
            Post,
            "/api/ingest/{node}",
            fleet::ingest,
            says(
                "pushMetrics",
                "What a machine measured of itself, or several of them, oldest first",
            )
            .without_a_store()
            .takes_shape(
                either([named::<Measured>(), list_of(named::<Measured>()).up_to(MOST_PUSHED)]),
                true,
            )
            .gives_nothing(204, "Taken in."),
        ),
    ]
}

/// A report of whoever holds a job.
fn report_on<H, T>(path: &'static str, handler: H, said: Operation) -> Route
where
    H: Handler<T, Arc<Shared>>,
    T: 'static,
{
    Route::new(Post, path, handler, said.refuses(&[Code::LeaseLost]))
}

fn administering() -> Vec<Route> {
    vec![
        by_filter(
            "/api/jobs/cancel",
            actions::cancel_many,
            "cancelJobs",
            "Cancels the jobs of a filter",
        ),
        by_filter("/api/jobs/retry", actions::retry_many, "retryJobs", "Sends jobs round again"),
        by_filter("/api/quarantine/replay", actions::replay, "replay", "Replays quarantined jobs"),
        Route::new(
            Post,
            "/api/groups/{name}/{action}",
            actions::group,
            says("actOnGroup", "Pauses or resumes a group, or acts on its jobs")
                .actions(&["pause", "resume", "retry", "cancel"])
                .takes::<actions::GroupBody>()
                .gives_a::<actions::GroupAnswer>(200, "What was changed."),
        ),
        many::<TokenInfo, _, _>(
            "/api/tokens",
            tokens::list,
            "listTokens",
            "Tokens, without their secrets",
        ),
        Route::new(
            Post,
            "/api/tokens",
            tokens::create,
            says("createToken", "Makes a token")
                .takes::<tokens::NewTokenBody>()
                .gives_a::<tokens::TokenBody>(201, "The only time it is shown.")
                .refuses(&[Code::Conflict]),
        ),
        Route::new(
            Delete,
            "/api/tokens/{name}",
            tokens::revoke,
            says("revokeToken", "Takes a token back")
                .gives_nothing(204, "Revoked.")
                .refuses(&[Code::NotFound]),
        ),
        many::<WebhookInfo, _, _>(
            "/api/webhooks",
            webhooks::list,
            "listWebhooks",
            "Webhooks, without their secrets",
        ),
        Route::new(
            Post,
            "/api/webhooks",
            webhooks::create,
            says("createWebhook", "Makes a webhook: a receiver is told when jobs have ended")
                .takes::<webhooks::NewWebhookBody>()
                .gives_a::<MadeWebhook>(201, "The only time its secret is shown.")
                .refuses(&[Code::Conflict]),
        ),
        Route::new(
            Get,
            "/api/webhooks/{id}",
            webhooks::get,
            says("getWebhook", "One webhook, without its secret")
                .gives_a::<WebhookInfo>(200, "The webhook."),
        ),
        Route::new(
            Delete,
            "/api/webhooks/{id}",
            webhooks::remove,
            says("removeWebhook", "Removes a webhook; its deliveries that wait are cancelled")
                .gives_nothing(204, "Removed."),
        ),
        Route::new(
            Put,
            "/api/queues/{name}",
            definitions::put_queue,
            says("putQueue", "Sets the cap and the pause of a queue")
                .takes::<definitions::QueueBody>()
                .gives_a::<QueueView>(200, "The queue."),
        ),
        service(Put, "putService", "Defines a service; what is left out has its default"),
        service(Patch, "patchService", "Changes what it names of a service"),
        Route::new(
            Put,
            "/api/schedules/{name}",
            definitions::put_schedule,
            says("putSchedule", "Defines a schedule")
                .takes::<definitions::ScheduleBody>()
                .gives_a::<ScheduleView>(200, "The schedule."),
        ),
        Route::new(
            Delete,
            "/api/schedules/{name}",
            definitions::remove_schedule,
            says("removeSchedule", "Removes a schedule")
                .gives_nothing(204, "Removed.")
                .refuses(&[Code::NotFound]),
        ),
        Route::new(
            Post,
            "/api/schedules/{name}/{action}",
            definitions::pause_schedule,
            says("pauseSchedule", "Pauses or resumes a schedule")
                .actions(&["pause", "resume"])
                .gives_a::<ScheduleView>(200, "The schedule."),
        ),
    ]
}

fn service(method: Method, id: &'static str, what: &'static str) -> Route {
    const PATH: &str = "/api/services/{name}";
    let said = says(id, what)
        .takes::<definitions::ServiceBody>()
        .gives_a::<ServiceView>(200, "The service.");
    match method {
        Put => Route::new(method, PATH, definitions::put_service, said),
        _ => {
            let said = said.refuses(&[Code::NotFound]);
            Route::new(method, PATH, definitions::patch_service, said)
        }
    }
}

/// An action on the jobs that a filter means.
fn by_filter<H, T>(path: &'static str, handler: H, id: &'static str, what: &'static str) -> Route
where
    H: Handler<T, Arc<Shared>>,
    T: 'static,
{
    let said = says(id, what).takes::<ActionBody>();
    Route::new(Post, path, handler, said.gives_a::<actions::CountBody>(200, "How many."))
}
