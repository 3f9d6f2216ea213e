//! From the tree to what the file says: one reader per section. Only what a field says by itself is
//! checked here; names across sections are `expand` and `check`.

mod attempts;
mod jobs;
mod schedules;
mod services;
mod tasks;

use std::collections::BTreeMap;

pub(crate) use jobs::{Axis, AxisValue, JobEntry, TaskOf};
pub(crate) use schedules::ScheduleEntry;
pub(crate) use services::apply_cost;

use super::error::Problems;
use super::fields::{Fields, join};
use super::model::{ServiceDef, TaskDef};
use super::tree::{Kind, Node};

/// The longest id or name.
pub(crate) const MAX_NAME_CHARS: usize = 200;

const FILE_FIELDS: [&str; 8] =
    ["name", "store", "queue", "max_parallel", "services", "tasks", "schedules", "jobs"];

/// The sections of a file, before expansion.
#[derive(Default)]
pub(crate) struct Sections {
    /// What the file calls itself.
    pub name: Option<String>,
    /// Store URL.
    pub store: Option<String>,
    /// Default queue.
    pub queue: Option<String>,
    /// How many jobs may run at once.
    pub max_parallel: Option<u32>,
    /// The services.
    pub services: BTreeMap<String, ServiceDef>,
    /// The tasks.
    pub tasks: BTreeMap<String, TaskDef>,
    /// The line of each task.
    pub task_lines: BTreeMap<String, usize>,
    /// The schedules as written.
    pub schedules: Vec<ScheduleEntry>,
    /// The jobs as written.
    pub jobs: Vec<JobEntry>,
}

/// Reads the whole file.
pub(crate) fn file(root: &Node, problems: &mut Problems) -> Sections {
    let Some(fields) = Fields::open(root, "", &FILE_FIELDS, problems) else {
        return Sections::default();
    };
    let mut sections = Sections {
        name: fields.word("name", problems),
        store: fields.word("store", problems),
        queue: name(&fields, "queue", problems),
        max_parallel: fields.count("max_parallel", problems),
        ..Sections::default()
    };
    for entry in fields.map("services", problems).unwrap_or_default() {
        let place = named(&entry.key, entry.line, "services", problems);
        let service = services::service(&entry.value, &place, problems);
        sections.services.extend(service.map(|def| (entry.key.clone(), def)));
    }
    for entry in fields.map("tasks", problems).unwrap_or_default() {
        let place = named(&entry.key, entry.line, "tasks", problems);
        let task = tasks::task(&entry.value, &place, problems);
        sections.task_lines.insert(entry.key.clone(), entry.line);
        sections.tasks.extend(task.map(|def| (entry.key.clone(), def)));
    }
    let schedules = fields.map("schedules", problems).unwrap_or_default();
    for (index, entry) in schedules.iter().enumerate() {
        let place = named(&entry.key, entry.line, "schedules", problems);
        let read = schedules::schedule(&entry.value, &entry.key, index, &place, problems);
        sections.schedules.extend(read);
    }
    // A file may do nothing but define schedules.
    if fields.get("jobs").is_some() || schedules.is_empty() {
        sections.jobs = job_list(&fields, problems);
    }
    sections
}

fn job_list(fields: &Fields<'_>, problems: &mut Problems) -> Vec<JobEntry> {
    let Some(node) = fields.get("jobs") else {
        problems.add(0, "", "there are no jobs; add a list \"jobs\"");
        return Vec::new();
    };
    let Kind::List(items) = &node.kind else {
        return fields.wrong("jobs", node, "a list of jobs", problems).unwrap_or_default();
    };
    let jobs = items.iter().enumerate();
    jobs.filter_map(|(index, item)| jobs::job(item, index, problems)).collect()
}

/// Checks the key of a section and answers its place.
fn named(key: &str, line: usize, section: &str, problems: &mut Problems) -> String {
    if let Err(reason) = check_name(key) {
        problems.add(line, section, format!("the name \"{}\" {reason}", key.escape_debug()));
    }
    join(section, key)
}

/// A text field that is a name.
pub(crate) fn name(fields: &Fields<'_>, field: &str, problems: &mut Problems) -> Option<String> {
    let text = fields.word(field, problems)?;
    if let Err(reason) = check_name(&text) {
        fields.refuse(field, problems, reason);
        return None;
    }
    Some(text)
}

/// What an id or a name may be: not empty, at most 200 characters, no control characters.
pub(crate) fn check_name(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    let length = text.chars().count();
    if length > MAX_NAME_CHARS {
        return Err(format!("is {length} characters long; at most {MAX_NAME_CHARS} are allowed"));
    }
    if text.chars().any(char::is_control) {
        return Err(
            "has a control character (a tab, a line break or the like); remove it".to_owned()
        );
    }
    Ok(())
}
