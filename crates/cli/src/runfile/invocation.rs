//! From a task and a job to the command line: the names a template may use and what they stand for.
//!
//! The reader checks templates with the same lookup that fills them at run time, so a file that was
//! accepted cannot fail later for a name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{Command, TaskDef};
use super::template::{Template, Unfilled};

/// What the templates of a task can see of a job.
#[derive(Debug, Clone, Copy)]
pub struct JobView<'a> {
    /// `{id}`
    pub id: &'a str,
    /// `{task}`
    pub task: &'a str,
    /// `{queue}`
    pub queue: Option<&'a str>,
    /// `{group}`
    pub group: Option<&'a str>,
    /// `{target}`
    pub target: Option<&'a str>,
    /// `{attempt}`, from 1
    pub attempt: u32,
    /// `{params.a.b}`, and the top level also as `{a}`
    pub params: &'a Value,
}

/// The placeholders that are not params.
pub const NAMES: [&str; 6] = ["target", "id", "attempt", "group", "queue", "task"];

impl JobView<'_> {
    /// The text a placeholder stands for.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        match name {
            "id" => Some(self.id.to_owned()),
            "task" => Some(self.task.to_owned()),
            "attempt" => Some(self.attempt.to_string()),
            "queue" => self.queue.map(str::to_owned),
            "group" => self.group.map(str::to_owned),
            "target" => self.target.map(str::to_owned),
            _ => param(self.params, name),
        }
    }

    /// Whether a placeholder stands for anything.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match name {
            "id" | "task" | "attempt" => true,
            "queue" => self.queue.is_some(),
            "group" => self.group.is_some(),
            "target" => self.target.is_some(),
            _ => name == "params" || find(self.params, name).is_some(),
        }
    }
}

/// `params.a.b`, or `a` for the top level.
pub(crate) fn param(params: &Value, name: &str) -> Option<String> {
    if name == "params" {
        return Some(params.to_string());
    }
    find(params, name).map(text_of)
}

fn find<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    let Some(path) = name.strip_prefix("params.") else {
        return params.get(name);
    };
    if let Some(value) = params.get(path) {
        return Some(value);
    }
    let mut value = params;
    for step in path.split('.') {
        value = match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => value.get(step)?,
        };
    }
    Some(value)
}

/// Text as it is, other values as JSON; nothing for null.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A command ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program and its arguments, at least one element.
    pub argv: Vec<String>,
    /// Variables to add to the environment.
    pub env: BTreeMap<String, String>,
    /// The working directory, if the task names one.
    pub cwd: Option<String>,
}

impl TaskDef {
    /// The command for one attempt of a job.
    pub fn invocation(&self, job: &JobView<'_>) -> Result<Invocation, Unfilled> {
        let value = |name: &str| job.value(name);
        let argv = match &self.run {
            Command::Args(args) => {
                args.iter().map(|arg| arg.fill(&value)).collect::<Result<_, _>>()?
            }
            Command::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.fill(&value)?],
        };
        let env = self
            .env
            .iter()
            .map(|(name, template)| Ok((name.clone(), template.fill(&value)?)))
            .collect::<Result<_, _>>()?;
        let cwd = self.cwd.as_ref().map(|cwd| cwd.fill(&value)).transpose()?;
        Ok(Invocation { argv, env, cwd })
    }

    /// The templates filled at run time, each with the name of its field.
    pub(crate) fn templates(&self) -> Vec<(String, &Template)> {
        let run: Vec<&Template> = match &self.run {
            Command::Args(args) => args.iter().collect(),
            Command::Shell(line) => vec![line.template()],
        };
        let run = run.into_iter().map(|template| ("run".to_owned(), template));
        let env = self.env.iter().map(|(name, template)| (format!("env.{name}"), template));
        let cwd = self.cwd.iter().map(|cwd| ("cwd".to_owned(), cwd));
        run.chain(env).chain(cwd).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_found_by_path_by_position_and_by_bare_name() {
        let params = serde_json::json!({"a": {"b": [10, "x"]}, "c.d": true, "n": null});
        for (name, expected) in [
            ("params.a.b.1", Some("x")),
            ("params.a.b", Some("[10,\"x\"]")),
            ("params.c.d", Some("true")),
            ("n", Some("")),
            ("params.a.z", None),
            ("z", None),
        ] {
            assert_eq!(param(&params, name).as_deref(), expected, "{name}");
        }
    }
}
