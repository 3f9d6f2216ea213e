//! What a job is expanded over: a list, files, the axes of a grid.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::error::Problems;
use super::super::glob;
use super::super::read::{Axis, AxisValue, JobEntry};

/// A placeholder with its value in one job.
pub(super) type Bound<'a> = (&'a str, Cow<'a, AxisValue>);

/// Names that take values together: `item` alone, `item`, `name` and `stem` of a file, or one axis.
pub(super) enum Group<'a> {
    Items(&'a [AxisValue]),
    Files(Vec<String>),
    Axis(&'a Axis),
}

impl Group<'_> {
    /// How many values.
    pub(super) fn values(&self) -> usize {
        match self {
            Group::Items(items) => items.len(),
            Group::Files(files) => files.len(),
            Group::Axis(axis) => axis.values.len(),
        }
    }

    /// The placeholders it gives; the first is what ids are made of.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let (first, rest): (&str, &[&str]) = match self {
            Group::Items(_) => ("item", &[]),
            Group::Files(_) => ("item", &["name", "stem"]),
            Group::Axis(axis) => (&axis.name, &[]),
        };
        std::iter::once(first).chain(rest.iter().copied())
    }

    /// The values at one position, in the order of `names`.
    pub(super) fn bind<'v>(&'v self, at: usize, bound: &mut Vec<Bound<'v>>) {
        match self {
            Group::Items(items) => bound.push(("item", Cow::Borrowed(&items[at]))),
            Group::Axis(axis) => bound.push((&axis.name, Cow::Borrowed(&axis.values[at]))),
            Group::Files(files) => {
                let path = PathBuf::from(&files[at]);
                let part = |part: Option<&std::ffi::OsStr>| {
                    part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
                };
                bound.push(("item", text_value(files[at].clone())));
                bound.push(("name", text_value(part(path.file_name()))));
                bound.push(("stem", text_value(part(path.file_stem()))));
            }
        }
    }
}

fn text_value(text: String) -> Cow<'static, AxisValue> {
    Cow::Owned(AxisValue { json: Value::String(text.clone()), text })
}

/// The groups of an element; `None` when there is a problem with them.
pub(super) fn of<'a>(
    entry: &'a JobEntry,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Vec<Group<'a>>> {
    let mut groups = Vec::new();
    if let Some(items) = &entry.for_each {
        groups.push(Group::Items(items));
    }
    if let Some(pattern) = &entry.glob {
        groups.push(Group::Files(files(entry, pattern, directory, problems)?));
    }
    groups.extend(entry.grid.iter().map(Group::Axis));
    for name in groups.iter().flat_map(Group::names) {
        if entry.params.contains_key(name) {
            let message =
                format!("params.{name} is also what the expansion gives as {{{name}}}; rename one");
            problems.add(entry.line, &entry.place, message);
            return None;
        }
    }
    Some(groups)
}

fn files(
    entry: &JobEntry,
    pattern: &str,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    let message = match glob::find(directory, pattern) {
        Ok(files) if !files.is_empty() => return Some(files),
        Ok(_) => format!("glob \"{pattern}\" matches no file in {}", directory.display()),
        Err(error) => format!("glob \"{pattern}\" cannot be read: {error}"),
    };
    problems.add(entry.line, &entry.place, message);
    None
}
