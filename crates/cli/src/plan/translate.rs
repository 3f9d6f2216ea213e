//! From the words of a run file to those of a store: services, tasks and jobs.

use runcue_core::service::KeyLimits;
use runcue_core::submission::normalise;
use runcue_core::{
    GroupName, JobId, JobSpec, Json, Key, QueueName, Rate, ScheduleName, ScheduleSpec, ServiceName,
    ServiceSpec, TaskName, TaskSpec, Timestamp, Use,
};
use serde_json::Value;

use super::Source;
use crate::runfile::{self, JobDef};
use crate::stored_task::{ORIGIN, Origin, StoredTask, policy, requires};
use crate::trouble::{Trouble, bad_json};

/// What the reader calls the task of a job that has only a command.
const INLINE: &str = "run:";

/// The services of a file.
pub fn services(source: &Source) -> Result<Vec<ServiceSpec>, Trouble> {
    let rates = |limits: &[runfile::Rate]| -> Vec<Rate> {
        limits.iter().map(|rate| Rate { limit: rate.limit, window: rate.window }).collect()
    };
    let service = |(name, def): (&String, &runfile::ServiceDef)| {
        let plain = ServiceSpec::new(ServiceName::new(name.as_str())?);
        Ok(ServiceSpec {
            max_concurrent: def.max_concurrent,
            rates: rates(&def.limits),
            per_key: def.per_key.as_ref().map(|limits| KeyLimits {
                max_concurrent: limits.max_concurrent,
                rates: rates(&limits.limits),
            }),
            circuit_threshold: def.circuit_threshold,
            circuit_timeout: def.circuit_timeout.unwrap_or(plain.circuit_timeout),
            ..plain
        })
    };
    source.file.services.iter().map(service).collect()
}

/// The tasks of a file, with what a worker needs to run their jobs.
pub fn tasks(source: &Source) -> Result<Vec<(TaskSpec, StoredTask)>, Trouble> {
    let task = |(name, def): (&String, &runfile::TaskDef)| {
        let stored = StoredTask {
            file: source.key.name().to_owned(),
            directory: source.directory.clone(),
            def: def.clone(),
        };
        Ok((stored.spec(task_name(source, name)?)?, stored))
    };
    source.file.tasks.iter().map(task).collect()
}

/// The schedules of a file.
pub fn schedules(source: &Source) -> Result<Vec<ScheduleSpec>, Trouble> {
    let schedule = |def: &runfile::ScheduleDef| {
        let name = ScheduleName::new(def.job.id.as_str())?;
        // Nothing in a schedule counts from now.
        let job = job(source, &def.job, JobId::from_u128(0), Vec::new(), Timestamp::ZERO)?;
        Ok(ScheduleSpec {
            zone: def.zone.clone(),
            missed: def.missed,
            overlap: def.overlap,
            ..ScheduleSpec::new(name, def.cron.as_str(), job)
        })
    };
    source.file.schedules.iter().map(schedule).collect()
}

/// The task's name in the store. Commands written into a job have no name of their own, and must not meet
/// those of another file.
pub(super) fn task_name(source: &Source, name: &str) -> Result<TaskName, Trouble> {
    let name = match name.strip_prefix(INLINE) {
        Some(job) => format!("{INLINE}{}:{job}", source.key.short()),
        None => name.to_owned(),
    };
    Ok(TaskName::new(name)?)
}

/// A job as it is submitted.
pub(super) fn job(
    source: &Source,
    def: &JobDef,
    id: JobId,
    depends_on: Vec<JobId>,
    now: Timestamp,
) -> Result<JobSpec, Trouble> {
    let uses = |(service, units): (&String, &u64)| -> Result<Use, Trouble> {
        Ok(Use { service: ServiceName::new(service.as_str())?, units: *units })
    };
    let delayed = def.delay.map(|delay| now.plus(delay));
    let at = def.run_at.map(|at| Timestamp::from_micros(at.as_microsecond()));
    let queue = def.queue.as_deref().map(QueueName::new).transpose()?;
    let mut spec = JobSpec {
        queue: queue.unwrap_or_default(),
        target: def.target.clone(),
        params: params(source, def)?,
        priority: def.priority,
        group: def.group.as_deref().map(GroupName::new).transpose()?,
        labels: def.labels.iter().cloned().collect(),
        project: def.project.clone(),
        depends_on,
        timeout: def.timeout,
        dependency_timeout: def.dependency_timeout,
        idempotency_key: def.idempotency_key.clone(),
        retry: policy(def.retry.as_ref(), def.max_attempts),
        run_at: at.or(delayed),
        expires_at: def.expires_in.map(|span| now.plus(span)),
        requires: requires(def.requires.as_ref()),
        services: def.services.iter().map(uses).collect::<Result<_, _>>()?,
        key: def.key.as_deref().map(Key::new).transpose()?,
        ..JobSpec::new(id, task_name(source, &def.task)?)
    };
    normalise(&mut spec);
    Ok(spec)
}

fn params(source: &Source, def: &JobDef) -> Result<Json, Trouble> {
    let mut params = def.params.clone();
    let origin = Origin {
        file: source.key.name().to_owned(),
        id: def.id.clone(),
        fingerprint: def.fingerprint(),
    };
    let origin = serde_json::to_value(origin).map_err(|error| bad_json("the job", &error))?;
    let Value::Object(map) = &mut params else {
        return Err(Trouble::usage(format!("job {:?}: params must be an object", def.id)));
    };
    if map.insert(ORIGIN.to_owned(), origin).is_some() {
        return Err(Trouble::usage(format!("job {:?}: the param {ORIGIN} is taken", def.id))
            .help("give it another name"));
    }
    Json::from_value(&params).map_err(|error| bad_json("params", &error))
}
