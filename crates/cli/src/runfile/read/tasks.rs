//! The `tasks` section, and `run`, which jobs may have as well.

use super::super::error::Problems;
use super::super::fields::Fields;
use super::super::model::{Command, Requires, TaskDef};
use super::super::template::{ShellTemplate, Template};
use super::super::tree::{Kind, Node};
use super::services::{self, apply_cost};
use super::{attempts, name};

const TASK_FIELDS: [&str; 14] = [
    "run",
    "timeout",
    "retry",
    "max_attempts",
    "services",
    "cost",
    "key",
    "env",
    "cwd",
    "priority",
    "group",
    "queue",
    "labels",
    "requires",
];

/// One task.
pub(super) fn task(node: &Node, place: &str, problems: &mut Problems) -> Option<TaskDef> {
    let fields = Fields::open(node, place, &TASK_FIELDS, problems)?;
    if fields.get("run").is_none() {
        let message = "has no run; add run: [program, argument] or run: \"a shell command\"";
        problems.add(node.line, place, message);
    }
    let mut used = services::used(&fields, problems).unwrap_or_default();
    if let Some(cost) = services::cost(&fields, problems)
        && let Err(reason) = apply_cost(&mut used, cost)
    {
        fields.refuse("cost", problems, reason);
    }
    let rest = TaskDef {
        run: Command::Args(Vec::new()),
        timeout: fields.span("timeout", problems),
        retry: attempts::retry(&fields, problems),
        services: used,
        key: fields.word("key", problems).map(|text| Template::parse(&text)),
        env: env(&fields, problems),
        cwd: fields.word("cwd", problems).map(|text| Template::parse(&text)),
        priority: attempts::priority(&fields, problems),
        group: name(&fields, "group", problems),
        queue: name(&fields, "queue", problems),
        labels: labels(&fields, problems),
        requires: requires(&fields, problems),
    };
    let run = command(&fields, problems)?;
    Some(TaskDef { run, ..rest })
}

/// `run: [program, arguments…]` or `run: "shell string"`.
pub(super) fn command(fields: &Fields<'_>, problems: &mut Problems) -> Option<Command> {
    let node = fields.get("run")?;
    match &node.kind {
        Kind::List(items) => arguments(fields, items, problems),
        Kind::Scalar { text, .. } if text.trim().is_empty() => {
            fields.refuse("run", problems, "is empty; write the command to run");
            None
        }
        Kind::Scalar { text, .. } => match ShellTemplate::parse(text) {
            Ok(line) => Some(Command::Shell(line)),
            Err(error) => {
                problems.add(node.line, &fields.place, format!("run: {error}"));
                None
            }
        },
        _ => fields.wrong("run", node, "a list of arguments or a shell string", problems),
    }
}

fn arguments(fields: &Fields<'_>, items: &[Node], problems: &mut Problems) -> Option<Command> {
    let mut args = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match (item.text(), &item.kind) {
            (Some(text), _) => args.push(Template::parse(text)),
            // An empty value written in a list is most likely meant as an empty argument or the
            // word null; both are a guess.
            _ => {
                let name = format!("run[{index}]");
                let expected = "text (put quotes around it)";
                return fields.wrong(&name, item, expected, problems);
            }
        }
    }
    if args.first().is_none_or(|program| program.source().trim().is_empty()) {
        fields.refuse("run", problems, "is empty; write the program and its arguments");
        return None;
    }
    Some(Command::Args(args))
}

fn env(
    fields: &Fields<'_>,
    problems: &mut Problems,
) -> std::collections::BTreeMap<String, Template> {
    let mut env = std::collections::BTreeMap::new();
    for entry in fields.map("env", problems).unwrap_or_default() {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let message =
                format!("the variable name \"{}\" is not valid", entry.key.escape_debug());
            problems.add(entry.line, &fields.path("env"), message);
        }
        match (&entry.value.kind, entry.value.text()) {
            (Kind::Null, _) => env.insert(entry.key.clone(), Template::literal("")),
            (_, Some(text)) => env.insert(entry.key.clone(), Template::parse(text)),
            _ => {
                let name = format!("env.{}", entry.key);
                fields.wrong(&name, &entry.value, "text", problems)
            }
        };
    }
    env
}

/// A list of labels, or a map, which gives `key=value`.
pub(super) fn labels(fields: &Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let Some(node) = fields.get("labels") else {
        return Vec::new();
    };
    let Kind::Map(entries) = &node.kind else {
        return fields.words("labels", problems).unwrap_or_default();
    };
    let mut labels = Vec::with_capacity(entries.len());
    for entry in entries {
        match (entry.value.text(), entry.value.is_null()) {
            (Some(text), _) => labels.push(format!("{}={text}", entry.key)),
            (None, true) => labels.push(entry.key.clone()),
            (None, false) => {
                let name = format!("labels.{}", entry.key);
                let _: Option<()> = fields.wrong(&name, &entry.value, "text", problems);
            }
        }
    }
    labels
}

fn requires(fields: &Fields<'_>, problems: &mut Problems) -> Option<Requires> {
    let node = fields.get("requires")?;
    let place = fields.path("requires");
    let fields = Fields::open(node, &place, &["cores", "ram_gb", "tags"], problems)?;
    Some(Requires {
        cores: fields.count("cores", problems),
        ram_gb: fields.positive("ram_gb", problems),
        tags: fields.words("tags", problems).unwrap_or_default(),
    })
}
