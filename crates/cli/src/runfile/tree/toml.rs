//! TOML into the tree. The parser keeps spans and the digits as written; its tables are sorted by
//! key, so entries are put back in the order of the file.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Kind, Lines, MAX_DEPTH, Node, SyntaxError};

/// Reads TOML.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        SyntaxError::new(line, format!("not valid TOML: {}", error.message()))
    })?;
    let kind = map(table.get_ref(), &lines, 0)?;
    Ok(Node::new(1, kind))
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines, depth: usize) -> Result<Node, SyntaxError> {
    let line = lines.at(value.span().start);
    if depth > MAX_DEPTH {
        return Err(SyntaxError::too_deep(line));
    }
    let kind = match value.get_ref() {
        DeValue::String(text) => quoted(text),
        DeValue::Datetime(time) => quoted(&time.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => plain(number.as_str()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => plain(&value.to_string()),
            Err(_) => quoted(&number.to_string()),
        },
        DeValue::Float(number) => plain(number.as_str()),
        DeValue::Boolean(value) => plain(&value.to_string()),
        DeValue::Array(items) => {
            let nodes = items.iter().map(|item| node(item, lines, depth + 1));
            Kind::List(nodes.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => map(table, lines, depth)?,
    };
    Ok(Node::new(line, kind))
}

fn map(table: &DeTable<'_>, lines: &Lines, depth: usize) -> Result<Kind, SyntaxError> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        Ok(Entry {
            key: key.get_ref().to_string(),
            line: lines.at(key.span().start),
            value: node(value, lines, depth + 1)?,
        })
    };
    let entries = pairs.into_iter().map(entry).collect::<Result<_, _>>()?;
    Ok(Kind::Map(entries))
}

fn plain(text: &str) -> Kind {
    Kind::Scalar { text: text.to_owned(), plain: true }
}

fn quoted(text: &str) -> Kind {
    Kind::Scalar { text: text.to_owned(), plain: false }
}
