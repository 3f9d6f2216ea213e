//! One element of `jobs`, as written: templates unfilled, names unresolved.

use std::time::Duration;

use serde_json::{Map, Value};

use super::super::error::Problems;
use super::super::fields::Fields;
use super::super::invocation::NAMES;
use super::super::model::{Command, RetryDef};
use super::super::template::Template;
use super::super::tree::{Kind, Node, plain_to_json};
use super::services::{self, CostField, ServicesField};
use super::{attempts, name, tasks};

const JOB_FIELDS: [&str; 25] = [
    "id",
    "task",
    "run",
    "target",
    "params",
    "depends_on",
    "for_each",
    "glob",
    "grid",
    "group",
    "priority",
    "labels",
    "project",
    "queue",
    "timeout",
    "dependency_timeout",
    "run_at",
    "in",
    "expires_in",
    "idempotency_key",
    "retry",
    "max_attempts",
    "services",
    "cost",
    "key",
];
/// The most values one range may have; the limit on jobs bounds the product.
const MAX_RANGE: i64 = 1_000_000;

/// What a job runs.
#[derive(Debug)]
pub(crate) enum TaskOf {
    /// A task of the file.
    Named(String),
    /// Its own command.
    Inline(Box<Command>),
}

/// One value of an axis: the text for placeholders, the data for params.
#[derive(Debug, Clone)]
pub(crate) struct AxisValue {
    /// The text as written.
    pub text: String,
    /// The value in params.
    pub json: Value,
}

/// One name that takes several values.
#[derive(Debug)]
pub(crate) struct Axis {
    /// The placeholder.
    pub name: String,
    /// Its values.
    pub values: Vec<AxisValue>,
}

/// A job as written.
#[derive(Debug)]
pub(crate) struct JobEntry {
    /// Its position in `jobs`, from 0.
    pub index: usize,
    /// Its line.
    pub line: usize,
    /// `jobs[3]`, or `jobs[3] (id "x")`.
    pub place: String,
    /// The id, a template.
    pub id: Option<Template>,
    /// What it runs.
    pub task: TaskOf,
    /// The target, a template.
    pub target: Option<Template>,
    /// The params as data; texts in it are templates.
    pub params: Map<String, Value>,
    /// Names of jobs, templates.
    pub depends_on: Vec<Template>,
    /// Expanded over a list.
    pub for_each: Option<Vec<AxisValue>>,
    /// Expanded over files.
    pub glob: Option<String>,
    /// Expanded over every combination.
    pub grid: Vec<Axis>,
    /// The group, a template.
    pub group: Option<Template>,
    /// The priority.
    pub priority: Option<i32>,
    /// Labels, templates.
    pub labels: Vec<Template>,
    /// The project.
    pub project: Option<String>,
    /// The queue.
    pub queue: Option<String>,
    /// The timeout of one attempt.
    pub timeout: Option<Duration>,
    /// How long to wait for dependencies.
    pub dependency_timeout: Option<Duration>,
    /// Not before.
    pub run_at: Option<jiff::Timestamp>,
    /// Not before so long from now.
    pub delay: Option<Duration>,
    /// Cancelled if not started by then.
    pub expires_in: Option<Duration>,
    /// Idempotency key, a template.
    pub idempotency_key: Option<Template>,
    /// Retry policy, `max_attempts` included.
    pub retry: Option<RetryDef>,
    /// Services that replace those of the task.
    pub services: Option<ServicesField>,
    /// Costs that replace those of the task.
    pub cost: Option<CostField>,
    /// The key, a template.
    pub key: Option<Template>,
}

/// Reads one job; `None` if so much is wrong that expanding it would only repeat the problem.
pub(super) fn job(node: &Node, index: usize, problems: &mut Problems) -> Option<JobEntry> {
    let before = problems.count();
    let place = place(node, index);
    let fields = Fields::open(node, &place, &JOB_FIELDS, problems)?;
    let entry = entry(&fields, index, node.line, problems);
    exclusive(&fields, "for_each", "glob", problems);
    exclusive(&fields, "run_at", "in", problems);
    entry.filter(|_| problems.count() == before)
}

/// Reads the fields of a job, as far as they are there.
pub(super) fn entry(
    fields: &Fields<'_>,
    index: usize,
    line: usize,
    problems: &mut Problems,
) -> Option<JobEntry> {
    let task = task_of(fields, problems);
    let template = |field: &str, problems: &mut Problems| {
        let text = fields.word(field, problems)?;
        Some(Template::parse(&text))
    };
    Some(JobEntry {
        index,
        line,
        id: template("id", problems),
        target: fields.text("target", problems).map(|text| Template::parse(&text)),
        params: params(fields, problems),
        depends_on: templates(fields.words("depends_on", problems).unwrap_or_default()),
        for_each: for_each(fields, problems),
        glob: fields.word("glob", problems),
        grid: grid(fields, problems),
        group: template("group", problems),
        priority: attempts::priority(fields, problems),
        labels: templates(tasks::labels(fields, problems)),
        project: name(fields, "project", problems),
        queue: name(fields, "queue", problems),
        timeout: fields.span("timeout", problems),
        dependency_timeout: fields.span("dependency_timeout", problems),
        run_at: run_at(fields, problems),
        delay: fields.duration("in", problems),
        expires_in: fields.span("expires_in", problems),
        idempotency_key: template("idempotency_key", problems),
        retry: attempts::retry(fields, problems),
        services: services::used(fields, problems),
        cost: services::cost(fields, problems),
        key: template("key", problems),
        task: task?,
        place: fields.place.clone(),
    })
}

fn place(node: &Node, index: usize) -> String {
    let Kind::Map(entries) = &node.kind else {
        return format!("jobs[{index}]");
    };
    let id = entries.iter().find(|entry| entry.key == "id");
    match id.and_then(|entry| entry.value.text()) {
        Some(id) => {
            let short: String = id.chars().take(60).collect();
            format!("jobs[{index}] (id \"{}\")", short.escape_debug())
        }
        None => format!("jobs[{index}]"),
    }
}

fn task_of(fields: &Fields<'_>, problems: &mut Problems) -> Option<TaskOf> {
    exclusive(fields, "task", "run", problems);
    if fields.get("run").is_some() {
        return tasks::command(fields, problems).map(|run| TaskOf::Inline(Box::new(run)));
    }
    if fields.get("task").is_none() {
        let message = "has neither task nor run; say which task it is, or give it a command";
        problems.add(fields.line, &fields.place, message);
        return None;
    }
    fields.word("task", problems).map(TaskOf::Named)
}

fn exclusive(fields: &Fields<'_>, one: &str, other: &str, problems: &mut Problems) {
    if fields.get(one).is_some() && fields.get(other).is_some() {
        fields.refuse(one, problems, format!("and {other} are both set; keep one"));
    }
}

fn templates(texts: Vec<String>) -> Vec<Template> {
    texts.iter().map(|text| Template::parse(text)).collect()
}

fn params(fields: &Fields<'_>, problems: &mut Problems) -> Map<String, Value> {
    let entries = fields.map("params", problems).unwrap_or_default();
    let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
    pairs.collect()
}

fn for_each(fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<AxisValue>> {
    let node = fields.get("for_each")?;
    values(fields, "for_each", node, problems)
}

fn grid(fields: &Fields<'_>, problems: &mut Problems) -> Vec<Axis> {
    let Some(entries) = fields.map("grid", problems) else {
        return Vec::new();
    };
    if entries.is_empty() {
        fields.refuse("grid", problems, "is empty; add an axis like lr: [0.1, 0.01]");
    }
    let mut axes = Vec::with_capacity(entries.len());
    for entry in entries {
        let field = format!("grid.{}", entry.key);
        if let Err(reason) = check_axis(&entry.key) {
            problems.add(entry.line, &fields.place, format!("{field} {reason}"));
        }
        if let Some(values) = values(fields, &field, &entry.value, problems) {
            axes.push(Axis { name: entry.key.clone(), values });
        }
    }
    axes
}

fn check_axis(name: &str) -> Result<(), String> {
    if NAMES.contains(&name) || matches!(name, "params" | "item" | "name" | "stem") {
        return Err(format!("would hide the placeholder {{{name}}}; call the axis something else"));
    }
    let template = Template::parse(&format!("{{{name}}}"));
    if template.is_literal() || name.contains('.') {
        return Err("cannot be a placeholder; use letters, digits, _ and -".to_owned());
    }
    Ok(())
}

/// The values of an axis: a list, or a range `{from, to, step}`.
fn values(
    fields: &Fields<'_>,
    field: &str,
    node: &Node,
    problems: &mut Problems,
) -> Option<Vec<AxisValue>> {
    let values = match &node.kind {
        Kind::List(items) => {
            let values = items.iter().map(axis_value).collect::<Option<Vec<_>>>();
            let Some(values) = values else {
                return fields.wrong(field, node, "a list of plain values", problems);
            };
            values
        }
        Kind::Map(_) => range(fields, field, node, problems)?,
        Kind::Scalar { .. } => vec![axis_value(node)?],
        Kind::Null => Vec::new(),
    };
    if values.is_empty() {
        let message = format!("{field} has no values, so there would be no job");
        problems.add(node.line, &fields.place, message);
        return None;
    }
    Some(values)
}

/// A decimal that JSON would not write back as it stands (`1.10`, a version) stays text in params.
fn axis_value(node: &Node) -> Option<AxisValue> {
    let text = node.text()?.to_owned();
    let json = match node.plain().map(plain_to_json) {
        Some(Value::Number(number)) if !text.contains(['e', 'E']) && number.to_string() != text => {
            Value::String(text.clone())
        }
        Some(value) => value,
        None => Value::String(text.clone()),
    };
    Some(AxisValue { text, json })
}

fn range(
    fields: &Fields<'_>,
    field: &str,
    node: &Node,
    problems: &mut Problems,
) -> Option<Vec<AxisValue>> {
    let place = fields.path(field);
    let range = Fields::open(node, &place, &["from", "to", "step"], problems)?;
    let whole = |name: &str, problems: &mut Problems| {
        if range.get(name).is_none() {
            range.refuse(name, problems, "is missing; a range is {from: 1, to: 5}");
        }
        range.whole(name, i64::MIN / 4, i64::MAX / 4, problems)
    };
    let (from, to) = (whole("from", problems)?, whole("to", problems)?);
    let step = match range.get("step") {
        Some(_) => range.whole("step", 1, i64::MAX / 4, problems)?,
        None => 1,
    };
    if (to - from) / step >= MAX_RANGE {
        let message = format!("has more than {MAX_RANGE} values");
        problems.add(node.line, &place, message);
        return None;
    }
    let numbers = (0..).map(|n| from + n * step).take_while(|n| *n <= to);
    Some(
        numbers.map(|number| AxisValue { text: number.to_string(), json: number.into() }).collect(),
    )
}

fn run_at(fields: &Fields<'_>, problems: &mut Problems) -> Option<jiff::Timestamp> {
    let text = fields.word("run_at", problems)?;
    match text.parse() {
        Ok(instant) => Some(instant),
        Err(_) => {
            let message = format!(
                "is \"{text}\"; write an instant with its offset, like 2027-01-31T08:00:00Z"
            );
            fields.refuse("run_at", problems, message);
            None
        }
    }
}
