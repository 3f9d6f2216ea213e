//! JSON into the tree. Raw slices give both the number as written and, by their offset, the line.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Entry, Kind, Lines, MAX_DEPTH, Node, SyntaxError, check_unique};

/// Reads JSON.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::of(text);
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(&error, 0))?;
    Reader { text, lines }.node(raw, 0)
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines,
}

impl<'a> Reader<'a> {
    fn node(&self, raw: &'a RawValue, depth: usize) -> Result<Node, SyntaxError> {
        let line = self.line(raw.get());
        if depth > MAX_DEPTH {
            return Err(SyntaxError::too_deep(line));
        }
        let again = |error: serde_json::Error| syntax(&error, line);
        let kind = match raw.get().as_bytes().first() {
            Some(b'{') => self.map(serde_json::from_str(raw.get()).map_err(again)?, depth)?,
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(again)?;
                let nodes = items.into_iter().map(|item| self.node(item, depth + 1));
                Kind::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'"') => {
                Kind::Scalar { text: serde_json::from_str(raw.get()).map_err(again)?, plain: false }
            }
            _ if raw.get() == "null" => Kind::Null,
            _ => Kind::Scalar { text: raw.get().to_owned(), plain: true },
        };
        Ok(Node::new(line, kind))
    }

    fn map(&self, pairs: Pairs<'a>, depth: usize) -> Result<Kind, SyntaxError> {
        let entry = |(key, raw): (String, &'a RawValue)| {
            let value = self.node(raw, depth + 1)?;
            Ok(Entry { key, line: value.line, value })
        };
        let entries: Vec<Entry> = pairs.0.into_iter().map(entry).collect::<Result<_, _>>()?;
        check_unique(&entries)?;
        Ok(Kind::Map(entries))
    }

    /// `slice` borrows from the whole text, so the distance of the two addresses is its offset.
    fn line(&self, slice: &str) -> usize {
        let offset = slice.as_ptr().addr() - self.text.as_ptr().addr();
        self.lines.at(offset)
    }
}

/// The pairs of an object in order, repeated keys included.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

fn syntax(error: &serde_json::Error, line: usize) -> SyntaxError {
    let line = if line == 0 { error.line() } else { line };
    let message = error.to_string();
    let words = message.split(" at line ").next().unwrap_or_default();
    SyntaxError::new(line, format!("not valid JSON: {words}"))
}
