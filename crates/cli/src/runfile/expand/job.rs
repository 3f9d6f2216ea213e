//! One job out of an element and one combination of values: its id, its fields, its costs.

use std::collections::BTreeMap;

use super::super::error::Problems;
use super::super::fingerprint;
use super::super::model::{Cost, JobDef, TaskDef};
use super::super::read::{JobEntry, Sections, TaskOf, apply_cost, check_name};
use super::super::suggest::{did_you_mean, listed};
use super::super::template::Template;
use super::axes::{Bound, Group};
use super::scope::{self, Scope};

/// How the ids of a family are made.
pub(super) struct Ids {
    /// The name of the whole family.
    pub(super) base: String,
    template: Option<Template>,
    /// Whether the values are appended.
    suffix: bool,
}

impl Ids {
    /// From the id as written, or from `base` when there is none.
    pub(super) fn new(entry: &JobEntry, axes: &[Group<'_>], base: String) -> Self {
        let Some(template) = &entry.id else {
            return Self { base, template: None, suffix: !axes.is_empty() };
        };
        let of_axis = |name: &str| axes.iter().any(|axis| axis.names().any(|own| own == name));
        Self {
            base: base_of(template),
            suffix: !axes.is_empty() && !template.names().any(of_axis),
            template: Some(template.clone()),
        }
    }
}

/// The name for all jobs of an id: `train` for `train`, `train-{lr}` and `train-lr{lr}-s{seed}`.
fn base_of(template: &Template) -> String {
    let separators = ['-', '_', '.', ':', '/'];
    let source = template.source();
    let Some(name) = template.names().next() else {
        return source.to_owned();
    };
    let hole = format!("{{{name}}}");
    let head = source.split(hole.as_str()).next().unwrap_or(source);
    let words = head.rfind(separators).map_or(head, |end| &head[..end]);
    words.trim_end_matches(separators).to_owned()
}

/// Makes the jobs of one element.
pub(super) struct Maker<'a> {
    entry: &'a JobEntry,
    task_name: String,
    task: &'a TaskDef,
    task_hash: fingerprint::Fnv,
    services: BTreeMap<String, Cost>,
    default_queue: Option<&'a str>,
}

impl<'a> Maker<'a> {
    /// Looks up the task; `None` when there is a problem with it.
    pub(super) fn new(
        sections: &'a mut Sections,
        entry: &'a JobEntry,
        base: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let task_name = task_name(sections, entry, base, problems)?;
        let task = sections.tasks.get(&task_name)?;
        let mut services = entry.services.clone().unwrap_or_else(|| task.services.clone());
        if let Some(cost) = &entry.cost
            && let Err(reason) = apply_cost(&mut services, cost.clone())
        {
            problems.add(entry.line, &entry.place, format!("cost {reason}"));
            return None;
        }
        Some(Self {
            entry,
            task_hash: fingerprint::of_task(task),
            task_name,
            task,
            services,
            default_queue: sections.queue.as_deref(),
        })
    }

    /// Every combination, the last axis fastest.
    pub(super) fn all(
        &self,
        axes: &[Group<'_>],
        ids: &Ids,
        jobs: &mut Vec<JobDef>,
        problems: &mut Problems,
    ) {
        let mut at = vec![0; axes.len()];
        let mut bound = Vec::new();
        loop {
            bound.clear();
            for (axis, position) in axes.iter().zip(&at) {
                axis.bind(*position, &mut bound);
            }
            match self.one(&bound, axes, ids) {
                Ok(job) => jobs.push(job),
                Err(message) => {
                    problems.add(self.entry.line, &self.entry.place, message);
                    return;
                }
            }
            let more = |axis: &usize| at[*axis] + 1 < axes[*axis].values();
            let Some(turn) = (0..axes.len()).rev().find(more) else {
                return;
            };
            at[turn] += 1;
            at[turn + 1..].fill(0);
        }
    }

    fn one(&self, bound: &[Bound<'_>], axes: &[Group<'_>], ids: &Ids) -> Result<JobDef, String> {
        let (entry, task) = (self.entry, self.task);
        let fill = |scope: &Scope<'_>, field: &str, template: &Option<Template>| {
            let filled = template.as_ref().map(|template| scope.fill(field, template));
            filled.transpose()
        };
        // A field can use those before it: params, target, group, id, then the rest.
        let params = scope::params(&entry.params, bound, &self.task_name)?;
        let mut scope = Scope::new(bound, &params, &self.task_name);
        let queue = entry.queue.as_deref().or(task.queue.as_deref()).or(self.default_queue);
        scope.know("queue", queue);
        let target = fill(&scope, "target", &entry.target)?;
        scope.know("target", target.as_deref());
        let group = fill(&scope, "group", &entry.group)?.or_else(|| task.group.clone());
        if let Some(group) = &group {
            check_name(group).map_err(|reason| format!("group {reason}"))?;
        }
        scope.know("group", group.as_deref());
        let id = self.id(&scope, axes, ids)?;
        scope.know("id", Some(&id));
        let key = entry.key.as_ref().or(task.key.as_ref());
        let key = key.map(|key| scope.fill("key", key)).transpose()?;
        let mut labels = task.labels.clone();
        for label in &entry.labels {
            labels.push(scope.fill("labels", label)?);
        }
        let depends_on = entry
            .depends_on
            .iter()
            .map(|name| scope.fill("depends_on", name))
            .collect::<Result<Vec<_>, _>>()?;
        let retry = entry.retry.clone().or_else(|| task.retry.clone());
        let services = self.costs(&scope)?;
        let idempotency_key = fill(&scope, "idempotency_key", &entry.idempotency_key)?;
        let mut job = JobDef {
            params,
            entry: entry.index,
            task: self.task_name.clone(),
            depends_on,
            queue: queue.map(str::to_owned),
            priority: entry.priority.or(task.priority).unwrap_or(0),
            labels,
            project: entry.project.clone(),
            timeout: entry.timeout.or(task.timeout),
            dependency_timeout: entry.dependency_timeout,
            run_at: entry.run_at,
            delay: entry.delay,
            expires_in: entry.expires_in,
            idempotency_key,
            max_attempts: retry.as_ref().and_then(|retry| retry.max_attempts),
            retry,
            services,
            key,
            requires: task.requires.clone(),
            id,
            target,
            group,
            fingerprint: 0,
        };
        job.fingerprint = fingerprint::of_job(&self.task_hash, &job);
        Ok(job)
    }

    fn id(&self, scope: &Scope<'_>, axes: &[Group<'_>], ids: &Ids) -> Result<String, String> {
        let mut id = match &ids.template {
            Some(template) => scope.fill("id", template)?,
            None => ids.base.clone(),
        };
        if ids.suffix {
            for name in axes.iter().filter_map(|axis| axis.names().next()) {
                id.push('-');
                id.push_str(&scope.value(name).unwrap_or_default());
            }
        }
        check_name(&id).map_err(|reason| match ids.suffix {
            true => format!(
                "the id made from the values {reason}; give it a shorter id with placeholders"
            ),
            false => format!("id {reason}"),
        })?;
        Ok(id)
    }

    fn costs(&self, scope: &Scope<'_>) -> Result<BTreeMap<String, u64>, String> {
        let units = |(service, cost): (&String, &Cost)| match cost {
            Cost::Units(units) => Ok((service.clone(), *units)),
            Cost::From(template) => {
                let text = scope.fill("cost", template)?;
                let units = text.trim().parse().ok().filter(|units| *units > 0);
                let units = units.ok_or_else(|| {
                    format!(
                        "cost of {service} comes out of {template} as \"{text}\"; it must be a whole number from 1"
                    )
                })?;
                Ok((service.clone(), units))
            }
        };
        self.services.iter().map(units).collect()
    }
}

/// The task of an element; an inline command becomes one.
fn task_name(
    sections: &mut Sections,
    entry: &JobEntry,
    base: &str,
    problems: &mut Problems,
) -> Option<String> {
    match &entry.task {
        TaskOf::Named(name) if sections.tasks.contains_key(name) => Some(name.clone()),
        // The task is there but could not be read; that was said already.
        TaskOf::Named(name) if sections.task_lines.contains_key(name) => None,
        TaskOf::Named(name) => {
            let known = || sections.tasks.keys().map(String::as_str);
            let near = match did_you_mean(name, known()) {
                near if near.is_empty() => format!("; the tasks are {}", listed(known(), 12)),
                near => near,
            };
            let message = format!("task \"{name}\" is not in tasks{near}");
            problems.add(entry.line, &entry.place, message);
            None
        }
        TaskOf::Inline(run) => {
            let mut name = format!("run:{base}");
            if sections.tasks.contains_key(&name) {
                name = format!("run:{base}#{}", entry.index);
            }
            let task = TaskDef::inline((**run).clone());
            sections.tasks.insert(name.clone(), task);
            Some(name)
        }
    }
}
