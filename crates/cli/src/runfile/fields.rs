//! Typed access to the maps of the tree: the one place where "unknown field" and "expected a
//! number" are worded.
//!
//! A getter that finds the wrong type records the problem and answers `None`, so that reading goes
//! on and the report shows more than the first mistake.

use std::time::Duration;

use super::duration;
use super::error::Problems;
use super::suggest::{did_you_mean, listed};
use super::tree::{Entry, Kind, Node};

/// A map being read, with its place in the file.
pub(crate) struct Fields<'a> {
    /// The path of the map, for example `tasks.fetch`.
    pub place: String,
    /// Its line.
    pub line: usize,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// Opens `node` as a map with the keys `known`; every other key is a problem. An empty value
    /// counts as an empty map.
    pub(crate) fn open(
        node: &'a Node,
        place: &str,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Self> {
        let entries = entries(node, place, problems)?;
        for entry in entries {
            if !known.contains(&entry.key.as_str()) {
                problems.add(entry.line, place, unknown_field(&entry.key, known));
            }
        }
        Some(Self { place: place.to_owned(), line: node.line, entries })
    }

    /// The value of `name`, unless it is missing or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Node> {
        self.entries
            .iter()
            .find(|entry| entry.key == name)
            .map(|entry| &entry.value)
            .filter(|node| !node.is_null())
    }

    /// The path of the field `name`.
    pub(crate) fn path(&self, name: &str) -> String {
        join(&self.place, name)
    }

    /// Records a problem with the field `name`.
    pub(crate) fn refuse(
        &self,
        name: &str,
        problems: &mut Problems,
        message: impl std::fmt::Display,
    ) {
        let line = self.get(name).map_or(self.line, |node| node.line);
        problems.add(line, &self.place, format!("{name} {message}"));
    }

    /// A scalar as text, as written.
    pub(crate) fn text(&self, name: &str, problems: &mut Problems) -> Option<String> {
        let node = self.get(name)?;
        match node.text() {
            Some(text) => Some(text.to_owned()),
            None => self.wrong(name, node, "text", problems),
        }
    }

    /// A scalar as text that may not be empty.
    pub(crate) fn word(&self, name: &str, problems: &mut Problems) -> Option<String> {
        let text = self.text(name, problems)?;
        if text.trim().is_empty() {
            self.refuse(name, problems, "is empty; give it a value or remove it");
            return None;
        }
        Some(text)
    }

    /// A whole number within `least..=most`.
    pub(crate) fn whole(
        &self,
        name: &str,
        least: i64,
        most: i64,
        problems: &mut Problems,
    ) -> Option<i64> {
        let node = self.get(name)?;
        let Some(number) = node.plain().and_then(|text| text.parse::<i64>().ok()) else {
            return self.wrong(name, node, "a whole number", problems);
        };
        if !(least..=most).contains(&number) {
            let range = if most >= i64::from(u32::MAX) {
                format!("at least {least}")
            } else {
                format!("from {least} to {most}")
            };
            self.refuse(name, problems, format!("is {number}; it must be {range}"));
            return None;
        }
        Some(number)
    }

    /// A count of at least 1.
    pub(crate) fn count(&self, name: &str, problems: &mut Problems) -> Option<u32> {
        self.whole(name, 1, i64::from(u32::MAX), problems)
            .and_then(|number| u32::try_from(number).ok())
    }

    /// A positive number, fractions included.
    pub(crate) fn positive(&self, name: &str, problems: &mut Problems) -> Option<f64> {
        let node = self.get(name)?;
        match node.plain().and_then(|text| text.parse::<f64>().ok()) {
            Some(number) if number.is_finite() && number > 0.0 => Some(number),
            Some(number) => {
                self.refuse(name, problems, format!("is {number}; it must be above 0"));
                None
            }
            None => self.wrong(name, node, "a number", problems),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, name: &str, problems: &mut Problems) -> Option<bool> {
        let node = self.get(name)?;
        match node.plain() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => self.wrong(name, node, "true or false", problems),
        }
    }

    /// A duration: seconds, or `500ms`, `5m`, `1h30m`.
    pub(crate) fn duration(&self, name: &str, problems: &mut Problems) -> Option<Duration> {
        let node = self.get(name)?;
        let Some(text) = node.text() else {
            return self.wrong(name, node, "a duration like 30, 500ms or 1h30m", problems);
        };
        match duration::parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(name, problems, error);
                None
            }
        }
    }

    /// A duration above zero.
    pub(crate) fn span(&self, name: &str, problems: &mut Problems) -> Option<Duration> {
        let value = self.duration(name, problems)?;
        if value.is_zero() {
            self.refuse(name, problems, "is 0; it must be above 0");
            return None;
        }
        Some(value)
    }

    /// A list of texts; a single text counts as a list of one.
    pub(crate) fn words(&self, name: &str, problems: &mut Problems) -> Option<Vec<String>> {
        let node = self.get(name)?;
        match &node.kind {
            Kind::Scalar { text, .. } => Some(vec![text.clone()]),
            Kind::List(items) => {
                let words = items.iter().map(|item| item.text().map(str::to_owned));
                match words.collect::<Option<Vec<_>>>() {
                    Some(words) => Some(words),
                    None => self.wrong(name, node, "a list of plain values", problems),
                }
            }
            _ => self.wrong(name, node, "text or a list of texts", problems),
        }
    }

    /// The entries of a map field.
    pub(crate) fn map(&self, name: &str, problems: &mut Problems) -> Option<&'a [Entry]> {
        let node = self.get(name)?;
        entries(node, &self.path(name), problems)
    }

    /// Records "expected …, found …" and answers `None`.
    pub(crate) fn wrong<T>(
        &self,
        name: &str,
        node: &Node,
        expected: &str,
        problems: &mut Problems,
    ) -> Option<T> {
        let found = node.describe();
        let message = format!("{name} must be {expected}, but it is {found}");
        problems.add(node.line, &self.place, message);
        None
    }
}

fn entries<'a>(node: &'a Node, place: &str, problems: &mut Problems) -> Option<&'a [Entry]> {
    match &node.kind {
        Kind::Map(entries) => Some(entries),
        Kind::Null => Some(&[]),
        _ => {
            let message = format!("must be a map, but it is {}", node.describe());
            problems.add(node.line, place, message);
            None
        }
    }
}

fn unknown_field(key: &str, known: &[&str]) -> String {
    match did_you_mean(key, known.iter().copied()) {
        near if near.is_empty() => format!(
            "unknown field \"{key}\"; the fields here are {}",
            listed(known.iter().copied(), 40)
        ),
        near => format!("unknown field \"{key}\"{near}"),
    }
}

/// `place.name`, or `name` at the top of the file.
pub(crate) fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}
