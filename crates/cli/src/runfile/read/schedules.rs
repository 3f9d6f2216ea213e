//! The `schedules` section: when each fires, and the job it submits.

use runcue_core::timetable::BadTimetable;
use runcue_core::{Missed, Overlap, Timetable};

use super::super::error::Problems;
use super::super::fields::Fields;
use super::super::suggest::did_you_mean;
use super::super::tree::Node;
use super::jobs::{self, JobEntry};

const FIELDS: [&str; 19] = [
    "cron",
    "zone",
    "missed",
    "overlap",
    "task",
    "run",
    "target",
    "params",
    "group",
    "priority",
    "labels",
    "project",
    "queue",
    "timeout",
    "retry",
    "max_attempts",
    "services",
    "cost",
    "key",
];

/// A schedule as written.
#[derive(Debug)]
pub(crate) struct ScheduleEntry {
    /// Its name.
    pub name: String,
    /// When.
    pub cron: String,
    /// In which zone.
    pub zone: String,
    /// What becomes of missed firings.
    pub missed: Missed,
    /// What happens while the last job lives.
    pub overlap: Overlap,
    /// What it submits.
    pub job: JobEntry,
}

/// Reads one schedule.
pub(super) fn schedule(
    node: &Node,
    name: &str,
    index: usize,
    place: &str,
    problems: &mut Problems,
) -> Option<ScheduleEntry> {
    let before = problems.count();
    let fields = Fields::open(node, place, &FIELDS, problems)?;
    let zone = fields.word("zone", problems).unwrap_or_else(|| "UTC".to_owned());
    let cron = fields.word("cron", problems).unwrap_or_default();
    if fields.get("cron").is_none() {
        fields.refuse("cron", problems, "is missing; say when, such as cron: \"0 3 * * *\"");
    } else if let Err(error) = Timetable::parse(&cron, &zone) {
        let field = if matches!(error, BadTimetable::Zone { .. }) { "zone" } else { "cron" };
        fields.refuse(field, problems, format!("cannot be used: {error}"));
    }
    let missed = [("skip", Missed::Skip), ("once", Missed::Once), ("all", Missed::All)];
    let overlap = [("allow", Overlap::Allow), ("skip", Overlap::Skip)];
    let entry = ScheduleEntry {
        name: name.to_owned(),
        cron,
        zone,
        missed: choice(&fields, "missed", &missed, problems).unwrap_or_default(),
        overlap: choice(&fields, "overlap", &overlap, problems).unwrap_or_default(),
        job: jobs::entry(&fields, index, node.line, problems)?,
    };
    (problems.count() == before).then_some(entry)
}

fn choice<T: Copy>(
    fields: &Fields<'_>,
    name: &str,
    choices: &[(&str, T)],
    problems: &mut Problems,
) -> Option<T> {
    let text = fields.text(name, problems)?;
    let found = choices.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let near = did_you_mean(&text, words.iter().copied());
        let words = words.join(", ");
        fields.refuse(name, problems, format!("is \"{text}\"; it must be one of {words}{near}"));
    }
    found.map(|(_, value)| *value)
}
