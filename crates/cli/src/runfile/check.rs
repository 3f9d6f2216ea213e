//! What holds only across the file: ids are unique, names lead somewhere, nothing waits for itself,
//! and every job could start one day.
//!
//! Everything is linear in jobs and dependencies and nothing recurses, so a chain of a million jobs
//! is checked like any other.

use std::collections::HashMap;

use super::error::Problems;
use super::expand::{Expanded, Family, unknown_name};
use super::invocation::{JobView, NAMES};
use super::model::{JobDef, ServiceDef};
use super::read::Sections;
use super::suggest::{did_you_mean, listed};

/// The most dependencies a file may have after expansion.
const MAX_EDGES: usize = 5_000_000;
/// How many jobs of a cycle are printed.
const MAX_CYCLE: usize = 12;

/// Checks the expanded jobs and turns the names in `depends_on` into ids.
pub(crate) fn check(
    sections: &Sections,
    expanded: &mut Expanded,
    schedules: &Expanded,
    problems: &mut Problems,
) {
    task_services(sections, problems);
    for family in &schedules.families {
        job_services(sections, &schedules.jobs, family, problems);
        job_templates(sections, &schedules.jobs, family, problems);
    }
    for family in &expanded.families {
        job_services(sections, &expanded.jobs, family, problems);
        job_templates(sections, &expanded.jobs, family, problems);
    }
    unique(expanded, problems);
    if let Some(edges) = resolve(expanded, problems) {
        cycle(expanded, &edges, problems);
        name_dependencies(&mut expanded.jobs, &edges);
    }
}

fn unknown_service(name: &str, sections: &Sections) -> String {
    let known = || sections.services.keys().map(String::as_str);
    let near = match did_you_mean(name, known()) {
        near if near.is_empty() => format!("; the services are {}", listed(known(), 12)),
        near => near,
    };
    format!("services names \"{name}\", which is not in services{near}")
}

fn task_services(sections: &Sections, problems: &mut Problems) {
    for (name, task) in &sections.tasks {
        for service in task.services.keys() {
            if !sections.services.contains_key(service) {
                let line = sections.task_lines.get(name).copied().unwrap_or_default();
                let message = unknown_service(service, sections);
                problems.add(line, &format!("tasks.{name}"), message);
            }
        }
    }
}

/// Services a job names itself, and costs that could never be paid.
fn job_services(sections: &Sections, jobs: &[JobDef], family: &Family, problems: &mut Problems) {
    for job in &jobs[family.jobs.clone()] {
        let of_task = sections.tasks.get(&job.task).map(|task| &task.services);
        for (name, units) in &job.services {
            let message = match sections.services.get(name) {
                Some(service) => match too_dear(service, *units) {
                    Some(limit) => format!(
                        "costs {units} of \"{name}\", whose limit is {limit}; it could never start"
                    ),
                    None => continue,
                },
                // Said for the task already.
                None if of_task.is_some_and(|services| services.contains_key(name)) => continue,
                None => unknown_service(name, sections),
            };
            problems.add(family.line, &family.place, message);
            return;
        }
    }
}

fn too_dear(service: &ServiceDef, units: u64) -> Option<String> {
    let per_key = service.per_key.iter().flat_map(|key| &key.limits);
    let mut limits = service.limits.iter().chain(per_key);
    limits.find(|rate| units > rate.limit).map(ToString::to_string)
}

/// The templates of the task, which are filled at run time, must have their values in every job.
fn job_templates(sections: &Sections, jobs: &[JobDef], family: &Family, problems: &mut Problems) {
    let Some(task) = jobs
        .get(family.jobs.start)
        .filter(|_| !family.jobs.is_empty())
        .and_then(|job| sections.tasks.get(&job.task))
    else {
        return;
    };
    let templates = task.templates();
    let wanted: Vec<(&str, &str)> = templates
        .iter()
        .flat_map(|(field, template)| template.names().map(move |name| (field.as_str(), name)))
        .filter(|(_, name)| !matches!(*name, "id" | "attempt" | "task"))
        .collect();
    for job in &jobs[family.jobs.clone()] {
        let view = view(job);
        let missing = wanted.iter().find(|(_, name)| !view.has(name));
        if let Some((field, name)) = missing {
            problems.add(family.line, &family.place, missing_value(job, field, name));
            return;
        }
    }
}

fn view(job: &JobDef) -> JobView<'_> {
    JobView {
        id: &job.id,
        task: &job.task,
        queue: job.queue.as_deref(),
        group: job.group.as_deref(),
        target: job.target.as_deref(),
        attempt: 1,
        params: &job.params,
    }
}

fn missing_value(job: &JobDef, field: &str, name: &str) -> String {
    let of_task = match job.task.strip_prefix("run:") {
        Some(_) => field.to_owned(),
        None => format!("{field} of its task \"{}\"", job.task),
    };
    if NAMES.contains(&name) {
        return format!("{of_task} has {{{name}}}, but the job has no {name}; add {name}: …");
    }
    let view = view(job);
    let fields = NAMES.iter().filter(|name| view.has(name));
    let params = job.params.as_object().into_iter().flat_map(|map| map.keys());
    let known: Vec<String> = fields
        .map(|name| (*name).to_owned())
        .chain(params.map(|key| format!("params.{key}")))
        .collect();
    unknown_name(&of_task, name, &known)
}

fn unique(expanded: &Expanded, problems: &mut Problems) {
    let jobs = &expanded.jobs;
    let mut ids: HashMap<&str, usize> = HashMap::with_capacity(jobs.len());
    let mut keys: HashMap<&str, usize> = HashMap::new();
    for family in &expanded.families {
        for index in family.jobs.clone() {
            let job = &jobs[index];
            let message = if let Some(first) = ids.insert(&job.id, index) {
                let other = jobs[first].entry;
                match other == job.entry {
                    true => format!(
                        "two jobs of this expansion get the id \"{}\"; put every placeholder in the id",
                        job.id
                    ),
                    false => format!(
                        "the id \"{}\" is taken by jobs[{other}]; ids must be unique",
                        job.id
                    ),
                }
            } else if let Some(key) = job.idempotency_key.as_deref()
                && let Some(first) = keys.insert(key, index)
            {
                format!(
                    "idempotency_key \"{key}\" is that of job \"{}\" too; put {{id}} in it",
                    jobs[first].id
                )
            } else {
                continue;
            };
            problems.add(family.line, &family.place, message);
            break;
        }
    }
}

/// For each job the positions of those it waits for.
struct Edges {
    starts: Vec<usize>,
    ends: Vec<u32>,
}

impl Edges {
    fn of(&self, job: usize) -> &[u32] {
        &self.ends[self.starts[job]..self.starts[job + 1]]
    }
}

/// Finds what the names in `depends_on` mean: an id, or the base name of an expansion.
fn resolve(expanded: &Expanded, problems: &mut Problems) -> Option<Edges> {
    let jobs = &expanded.jobs;
    let ids: HashMap<&str, usize> =
        jobs.iter().enumerate().map(|(index, job)| (job.id.as_str(), index)).collect();
    let mut bases: HashMap<&str, Vec<&Family>> = HashMap::new();
    for family in &expanded.families {
        if let Some(base) = &family.base {
            bases.entry(base).or_default().push(family);
        }
    }
    let before = problems.count();
    let mut edges = Edges { starts: Vec::with_capacity(jobs.len() + 1), ends: Vec::new() };
    for family in &expanded.families {
        let mut said = false;
        for index in family.jobs.clone() {
            let start = edges.ends.len();
            edges.starts.push(start);
            for name in &jobs[index].depends_on {
                if let Some(one) = ids.get(name.as_str()) {
                    edges.ends.extend(u32::try_from(*one).ok());
                } else if let Some(all) = bases.get(name.as_str()) {
                    let all = all.iter().flat_map(|family| family.jobs.clone());
                    edges.ends.extend(all.filter_map(|one| u32::try_from(one).ok()));
                } else if !said {
                    said = true;
                    let message = unknown_job(name, &jobs[index].id, &ids, &bases);
                    problems.add(family.line, &family.place, message);
                }
            }
            drop_repeats(&mut edges.ends, start);
            if edges.ends.len() > MAX_EDGES {
                let message = format!(
                    "depends_on brings the file to more than {MAX_EDGES} dependencies; put one job in between that collects them"
                );
                problems.add(family.line, &family.place, message);
                return None;
            }
        }
    }
    edges.starts.push(edges.ends.len());
    (problems.count() == before).then_some(edges)
}

fn drop_repeats(ends: &mut Vec<u32>, start: usize) {
    if ends.len() - start > 1 {
        let mut own = ends.split_off(start);
        own.sort_unstable();
        own.dedup();
        ends.append(&mut own);
    }
}

fn unknown_job(
    name: &str,
    own: &str,
    ids: &HashMap<&str, usize>,
    bases: &HashMap<&str, Vec<&Family>>,
) -> String {
    let mut known: Vec<&str> = bases.keys().chain(ids.keys()).copied().collect();
    // The maps have no order; a message must not change from run to run.
    known.retain(|known| *known != own);
    known.sort_unstable();
    let near = did_you_mean(name, known);
    format!("depends_on names \"{name}\", which no job has{near}")
}

/// Takes away jobs that wait for nothing until none is left; what remains holds a cycle.
fn cycle(expanded: &Expanded, edges: &Edges, problems: &mut Problems) {
    let count = expanded.jobs.len();
    let mut waiting: Vec<usize> = (0..count).map(|job| edges.of(job).len()).collect();
    let mut starts = vec![0_usize; count + 1];
    for end in &edges.ends {
        starts[*end as usize + 1] += 1;
    }
    for job in 0..count {
        starts[job + 1] += starts[job];
    }
    let mut fill = starts.clone();
    let mut dependents = vec![0_usize; edges.ends.len()];
    for job in 0..count {
        for end in edges.of(job) {
            dependents[fill[*end as usize]] = job;
            fill[*end as usize] += 1;
        }
    }
    let mut free: Vec<usize> = (0..count).filter(|job| waiting[*job] == 0).collect();
    let mut done = 0;
    while let Some(job) = free.pop() {
        done += 1;
        for dependent in &dependents[starts[job]..starts[job + 1]] {
            waiting[*dependent] -= 1;
            if waiting[*dependent] == 0 {
                free.push(*dependent);
            }
        }
    }
    if done < count {
        report_cycle(expanded, edges, &waiting, problems);
    }
}

/// From any job left, going on to one it waits for always stays among those left, and so comes back.
fn report_cycle(expanded: &Expanded, edges: &Edges, waiting: &[usize], problems: &mut Problems) {
    let Some(mut job) = waiting.iter().position(|count| *count > 0) else {
        return;
    };
    let mut seen = vec![usize::MAX; waiting.len()];
    let mut path = Vec::new();
    while seen[job] == usize::MAX {
        seen[job] = path.len();
        path.push(job);
        let next = edges.of(job).iter().find(|next| waiting[**next as usize] > 0);
        job = next.map_or(job, |next| *next as usize);
    }
    let round = &path[seen[job]..];
    let name = |job: &usize| expanded.jobs[*job].id.clone();
    let mut names: Vec<String> = round.iter().take(MAX_CYCLE).map(name).collect();
    if round.len() > MAX_CYCLE {
        names.push("…".to_owned());
    }
    names.push(name(&job));
    let family = expanded.families.iter().find(|family| family.jobs.contains(&job));
    let (line, place) = family.map_or((0, ""), |family| (family.line, family.place.as_str()));
    let message =
        format!("depends_on goes round in a circle: {}; remove one of these", names.join(" -> "));
    problems.add(line, place, message);
}

fn name_dependencies(jobs: &mut [JobDef], edges: &Edges) {
    for index in 0..jobs.len() {
        let names = edges.of(index).iter();
        jobs[index].depends_on = names.map(|end| jobs[*end as usize].id.clone()).collect();
    }
}
