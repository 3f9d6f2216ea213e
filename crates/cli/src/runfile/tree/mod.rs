//! The file as a tree of maps, lists and scalars, each with its line and its text as written.
//!
//! YAML, TOML and JSON all end here, so that one reader serves the three and can say "line 12" in
//! each. A scalar keeps the characters of the file: `1.10`, `no` and `0755` reach an argument list
//! unharmed, and only a field that wants a number turns the text into one.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Number, Value};

/// How deep lists and maps may nest.
pub(crate) const MAX_DEPTH: usize = 64;
/// How many values a file may hold in all, aliases counted as often as they are used.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// The notation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.1.
    Toml,
    /// JSON.
    Json,
}

/// What a parser objects to: the line (0 when unknown) and the words.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    /// The line, 0 when unknown.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl SyntaxError {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    fn too_deep(line: usize) -> Self {
        Self::new(line, format!("lists and maps are nested deeper than {MAX_DEPTH}"))
    }

    fn duplicate(key: &str, line: usize, first: usize) -> Self {
        Self::new(
            line,
            format!("the key \"{key}\" is written twice, first on line {first}; remove one"),
        )
    }
}

/// One value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The line it starts on, from 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Nothing: an empty YAML value, `null` or `~`.
    Null,
    /// Text. `plain` when it stood there without quotes, so that it may also be a number or a bool.
    Scalar {
        /// The text as written, escapes resolved.
        text: String,
        /// Whether it was written without quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, keys unique.
    Map(Vec<Entry>),
}

/// One key of a map with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key as written.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// The value.
    pub value: Node,
}

impl Node {
    fn new(line: usize, kind: Kind) -> Self {
        Self { line, kind }
    }

    /// What it is, for "expected a list, found …".
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Scalar { text, plain } => describe_scalar(text, *plain),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
        }
    }

    /// The text of a scalar as written.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text of a scalar written without quotes.
    pub(crate) fn plain(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, plain: true } => Some(text),
            _ => None,
        }
    }

    /// Whether there is nothing.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// The value as JSON data: plain `true`, `12` and `1.5` become bool and number.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Scalar { text, plain: true } => plain_to_json(text),
            Kind::Scalar { text, .. } => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

fn describe_scalar(text: &str, plain: bool) -> String {
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    match (plain, plain_to_json(text)) {
        (true, Value::Bool(_)) => format!("the bool {short}"),
        (true, Value::Number(_)) => format!("the number {short}{dots}"),
        _ => format!("the text \"{short}{dots}\""),
    }
}

/// JSON for unquoted text. Digits with a leading zero (`0755`, a postal code) stay text.
pub(crate) fn plain_to_json(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => plain_number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn plain_number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let first = *digits.as_bytes().first()?;
    let leading_zero = first == b'0' && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if leading_zero || !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = text.parse::<u64>() {
        return Some(number.into());
    }
    Number::from_f64(text.parse::<f64>().ok()?)
}

/// Reads `text` into a tree.
pub(crate) fn parse(text: &str, format: Format) -> Result<Node, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml => yaml::parse(text),
        Format::Toml => toml::parse(text),
        Format::Json => json::parse(text),
    }
}

/// Refuses a key that is there already. Long maps are looked up in `seen`, short ones by eye.
fn check_unique(entries: &[Entry]) -> Result<(), SyntaxError> {
    if entries.len() <= 16 {
        for (n, entry) in entries.iter().enumerate() {
            if let Some(first) = entries[..n].iter().find(|other| other.key == entry.key) {
                return Err(SyntaxError::duplicate(&entry.key, entry.line, first.line));
            }
        }
        return Ok(());
    }
    let mut seen = std::collections::HashMap::with_capacity(entries.len());
    for entry in entries {
        if let Some(first) = seen.insert(entry.key.as_str(), entry.line) {
            return Err(SyntaxError::duplicate(&entry.key, entry.line, first));
        }
    }
    Ok(())
}

/// Byte offsets to lines, for the parsers that give offsets.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1));
        Self { starts: starts.collect() }
    }

    fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_leading_zeros_stay_text() {
        assert_eq!(plain_to_json("12"), serde_json::json!(12));
        assert_eq!(plain_to_json("-1.5"), serde_json::json!(-1.5));
        assert_eq!(plain_to_json("1e-3"), serde_json::json!(0.001));
        assert_eq!(plain_to_json("0755"), serde_json::json!("0755"));
        assert_eq!(plain_to_json("no"), serde_json::json!("no"));
        assert_eq!(plain_to_json("nan"), serde_json::json!("nan"));
        assert_eq!(plain_to_json("1e999"), serde_json::json!("1e999"));
    }

    #[test]
    fn every_notation_keeps_text_order_and_lines() {
        let yaml = "b: 1.10\na: [no, 'x']\n";
        let toml = "b = 1.10\na = ['no', 'x']\n";
        let json = "{\"b\": 1.10,\n\"a\": [\"no\", \"x\"]}";
        for (text, format) in [(yaml, Format::Yaml), (toml, Format::Toml), (json, Format::Json)] {
            let Kind::Map(entries) = parse(text, format).unwrap().kind else {
                panic!("{format:?} gives no map");
            };
            assert_eq!(entries[0].key, "b", "{format:?}");
            assert_eq!(entries[0].value.text(), Some("1.10"), "{format:?}");
            assert_eq!(entries[1].value.line, 2, "{format:?}");
            let Kind::List(items) = &entries[1].value.kind else {
                panic!("{format:?} gives no list");
            };
            assert_eq!(items[0].text(), Some("no"), "{format:?}");
        }
    }

    #[test]
    fn a_key_written_twice_is_refused_with_both_lines() {
        for (text, format) in [
            ("a: 1\nb: 2\na: 3\n", Format::Yaml),
            ("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", Format::Json),
        ] {
            let error = parse(text, format).unwrap_err();
            assert_eq!(error.line, 3);
            assert!(error.message.contains("twice, first on line 1"), "{}", error.message);
        }
        let error = parse("a = 1\nb = 2\na = 3\n", Format::Toml).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.message.contains("duplicate key"), "{}", error.message);
    }

    #[test]
    fn nesting_is_bounded_in_every_notation() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let block: String = (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        for (text, format) in [
            (deep.clone(), Format::Yaml),
            (block, Format::Yaml),
            (deep.clone(), Format::Json),
            (format!("a = {deep}"), Format::Toml),
        ] {
            let error = parse(&text, format).unwrap_err();
            let message = error.message;
            assert!(
                ["nested", "nesting", "recursion"].iter().any(|word| message.contains(word)),
                "{format:?}: {message}"
            );
        }
    }
}
