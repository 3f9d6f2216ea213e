//! From the jobs as written to the jobs that will be: lists, files and grids are multiplied out, the
//! defaults of tasks applied, job templates filled.
//!
//! The number of jobs is known before the first one is made, so a grid that is too large costs
//! nothing. When a job of an expansion has a problem the rest of it is skipped: it would be the same
//! problem again.

mod axes;
mod job;
mod scope;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::error::Problems;
use super::model::{JobDef, ScheduleDef};
use super::read::{JobEntry, ScheduleEntry, Sections, TaskOf};
use job::{Ids, Maker};

pub(crate) use scope::unknown_name;

/// The most jobs one file may have after expansion.
pub const MAX_JOBS: usize = 1_000_000;

/// The jobs of one element of `jobs`.
pub(crate) struct Family {
    /// Where the element stands.
    pub place: String,
    /// Its line.
    pub line: usize,
    /// The name that `depends_on` may use for all of them.
    pub base: Option<String>,
    /// Their positions in the list of jobs.
    pub jobs: Range<usize>,
}

/// Expanded jobs, with their dependencies still as written names.
pub(crate) struct Expanded {
    /// The jobs, in the order of the file.
    pub jobs: Vec<JobDef>,
    /// One family per element that could be read.
    pub families: Vec<Family>,
}

/// Expands every element. Inline commands become tasks in `sections.tasks`.
pub(crate) fn expand(
    sections: &mut Sections,
    directory: &Path,
    problems: &mut Problems,
) -> Expanded {
    let entries = std::mem::take(&mut sections.jobs);
    let mut planned = Vec::with_capacity(entries.len());
    let mut total = 0_usize;
    let mut bases = Bases::default();
    for entry in &entries {
        let Some(axes) = axes::of(entry, directory, problems) else {
            continue;
        };
        let count = axes
            .iter()
            .try_fold(1_usize, |count, axis| count.checked_mul(axis.values()))
            .unwrap_or(usize::MAX);
        total = total.saturating_add(count);
        if total > MAX_JOBS {
            let message = format!(
                "brings the file to more than {MAX_JOBS} jobs after expansion; make it smaller or split the file"
            );
            problems.add(entry.line, &entry.place, message);
            break;
        }
        planned.push((entry, axes, bases.of(entry)));
    }
    let mut expanded = Expanded {
        jobs: Vec::with_capacity(total.min(MAX_JOBS)),
        families: Vec::with_capacity(planned.len()),
    };
    if problems.count() > 0 && total > MAX_JOBS {
        return expanded;
    }
    for (entry, axes, base) in planned {
        let first = expanded.jobs.len();
        let id = Ids::new(entry, &axes, base);
        if let Some(maker) = Maker::new(sections, entry, &id.base, problems) {
            maker.all(&axes, &id, &mut expanded.jobs, problems);
        }
        expanded.families.push(Family {
            place: entry.place.clone(),
            line: entry.line,
            base: (!axes.is_empty()).then_some(id.base),
            jobs: first..expanded.jobs.len(),
        });
    }
    expanded
}

/// The jobs of the schedules: one each, called after it.
pub(crate) fn schedules(sections: &mut Sections, problems: &mut Problems) -> Expanded {
    let entries = std::mem::take(&mut sections.schedules);
    let mut expanded = Expanded { jobs: Vec::new(), families: Vec::new() };
    for entry in &entries {
        let first = expanded.jobs.len();
        let id = Ids::new(&entry.job, &[], entry.name.clone());
        if let Some(maker) = Maker::new(sections, &entry.job, &entry.name, problems) {
            maker.all(&[], &id, &mut expanded.jobs, problems);
        }
        expanded.families.push(Family {
            place: entry.job.place.clone(),
            line: entry.job.line,
            base: None,
            jobs: first..expanded.jobs.len(),
        });
    }
    sections.schedules = entries;
    expanded
}

/// The schedules with their jobs, of a file without problems.
pub(crate) fn scheduled(entries: Vec<ScheduleEntry>, expanded: Expanded) -> Vec<ScheduleDef> {
    let with_job = |(entry, job): (ScheduleEntry, JobDef)| ScheduleDef {
        cron: entry.cron,
        zone: entry.zone,
        missed: entry.missed,
        overlap: entry.overlap,
        job,
    };
    entries.into_iter().zip(expanded.jobs).map(with_job).collect()
}

/// Names for jobs that have none: the task's name and a number.
#[derive(Default)]
struct Bases {
    seen: HashMap<String, usize>,
}

impl Bases {
    fn of(&mut self, entry: &JobEntry) -> String {
        let task = match &entry.task {
            TaskOf::Named(task) => task.clone(),
            TaskOf::Inline(_) => "job".to_owned(),
        };
        if entry.id.is_some() {
            return task;
        }
        let count = self.seen.entry(task.clone()).or_insert(0);
        *count += 1;
        let expands = entry.for_each.is_some() || entry.glob.is_some() || !entry.grid.is_empty();
        match (expands, *count) {
            (true, 1) => task,
            (_, count) => format!("{task}-{count}"),
        }
    }
}
