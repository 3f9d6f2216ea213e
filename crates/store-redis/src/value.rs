//! Taking replies of the server apart.

use redis::Value;

use crate::failure::Unreadable;

/// A text, or nothing where there is none.
pub fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

/// A text that must be there.
pub fn some<'a>(what: &str, value: &'a Value) -> Result<&'a [u8], Unreadable> {
    text(value).ok_or_else(|| Unreadable::new(what, "it is not there"))
}

/// A number, however it is written; zero where there is none.
pub fn number<N: std::str::FromStr + Default + TryFrom<i64>>(value: &Value) -> N {
    match value {
        Value::Int(number) => N::try_from(*number).unwrap_or_default(),
        other => parse(other).unwrap_or_default(),
    }
}

/// A number that is written as a text.
pub fn parse<N: std::str::FromStr>(value: &Value) -> Option<N> {
    std::str::from_utf8(text(value)?).ok()?.parse().ok()
}

/// The items of a list; none where there is no list.
pub fn items(value: &Value) -> &[Value] {
    value.as_sequence().unwrap_or_default()
}

/// An item of a list; nothing beyond its end.
pub fn item(value: &Value, n: usize) -> &Value {
    items(value).get(n).unwrap_or(&Value::Nil)
}

/// The pairs of a list that has names and values in turn.
pub fn pairs(value: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    items(value).chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}

/// A field of what the server says of itself.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// An entry of a stream: the number before the dash of its id, the whole id, and its values.
pub fn entry(value: &Value) -> Option<(u64, &[u8], Vec<&Value>)> {
    let id = text(item(value, 0))?;
    let number = std::str::from_utf8(id).ok()?.split_once('-')?.0.parse().ok()?;
    Some((number, id, pairs(item(value, 1)).map(|(_, value)| value).collect()))
}
