//! The placeholders of job fields, filled while the job is made, and the message for unknown ones.

use serde_json::{Map, Value};

use super::super::invocation::param;
use super::super::suggest::{did_you_mean, listed};
use super::super::template::Template;
use super::axes::Bound;

/// What the templates of a job can see while it is made.
pub(super) struct Scope<'a> {
    bound: &'a [Bound<'a>],
    params: &'a Value,
    job: Vec<(&'static str, &'a str)>,
}

impl<'a> Scope<'a> {
    /// With what the expansion gives, the params and the task.
    pub(super) fn new(bound: &'a [Bound<'a>], params: &'a Value, task: &'a str) -> Self {
        let mut job = Vec::with_capacity(5);
        job.push(("task", task));
        Self { bound, params, job }
    }

    /// Notes a field of the job, if it has it.
    pub(super) fn know(&mut self, field: &'static str, value: Option<&'a str>) {
        self.job.extend(value.map(|value| (field, value)));
    }

    /// What a placeholder stands for.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.bound.iter().find(|(bound, _)| *bound == name) {
            return Some(value.text.clone());
        }
        if let Some((_, value)) = self.job.iter().find(|(field, _)| *field == name) {
            return Some((*value).to_owned());
        }
        param(self.params, name)
    }

    /// What there is, for a message.
    fn names(&self) -> Vec<String> {
        let bound = self.bound.iter().map(|(name, _)| (*name).to_owned());
        let fields = self.job.iter().map(|(name, _)| (*name).to_owned());
        let params = self.params.as_object().into_iter().flat_map(Map::keys);
        let params = params
            .filter(|key| !self.bound.iter().any(|(name, _)| name == key))
            .map(|key| format!("params.{key}"));
        bound.chain(fields).chain(params).collect()
    }

    /// Fills a template of the field `field`.
    pub(super) fn fill(&self, field: &str, template: &Template) -> Result<String, String> {
        template
            .fill(&|name| self.value(name))
            .map_err(|unfilled| unknown_name(field, &unfilled.name, &self.names()))
    }
}

/// `target: {itm} names nothing; did you mean {item}? …`
pub(crate) fn unknown_name(field: &str, name: &str, known: &[String]) -> String {
    let known = || known.iter().map(String::as_str);
    let near = did_you_mean(name, known());
    let all = listed(known(), 12);
    format!(
        "{field} has {{{name}}}, which names nothing here{near}{} there is {all}; write {{{{{name}}}}} for literal braces",
        if near.is_empty() { ";" } else { "" }
    )
}

/// The params of one job: those written, their texts filled, and what it was expanded over.
pub(super) fn params(
    written: &Map<String, Value>,
    bound: &[Bound<'_>],
    task: &str,
) -> Result<Value, String> {
    let scope = Scope::new(bound, &Value::Null, task);
    let mut params = Map::new();
    for (key, value) in written {
        params.insert(key.clone(), fill_texts(value, key, &scope)?);
    }
    for (name, value) in bound {
        params.insert((*name).to_owned(), value.json.clone());
    }
    Ok(Value::Object(params))
}

fn fill_texts(value: &Value, key: &str, scope: &Scope<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) if text.contains(['{', '}']) => {
            let filled = Template::parse(text).fill(&|name| scope.value(name));
            Value::String(filled.map_err(|unfilled| {
                unknown_name(&format!("params.{key}"), &unfilled.name, &scope.names())
            })?)
        }
        Value::Array(items) => Value::Array(
            items.iter().map(|item| fill_texts(item, key, scope)).collect::<Result<_, _>>()?,
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| Ok((name.clone(), fill_texts(value, key, scope)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}
