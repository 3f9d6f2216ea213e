//! `${NAME}` and `${NAME:-default}` in the values of a config file. `$${` writes `${`.
//!
//! Messages name variables, never their values: these are where the passwords are.

use super::Env;
use crate::runfile::Problems;
use crate::runfile::fields::join;
use crate::runfile::tree::{Kind, Node};

/// Replaces variables in every value below `node`. Depth is bounded by the parser.
pub(super) fn fill(node: &mut Node, place: &str, env: Env<'_>, problems: &mut Problems) {
    match &mut node.kind {
        Kind::Null => {}
        Kind::Scalar { text, plain } => {
            if !text.contains("${") {
                return;
            }
            match text_with_values(text, env) {
                // `jobs = "${JOBS}"` means the number, although TOML wants the quotes.
                Ok(filled) => (*text, *plain) = (filled, true),
                Err(message) => problems.add(node.line, place, message),
            }
        }
        Kind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                fill(item, &format!("{place}[{index}]"), env, problems);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                fill(&mut entry.value, &join(place, &entry.key), env, problems);
            }
        }
    }
}

fn text_with_values(text: &str, env: Env<'_>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        filled.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let Some(end) = inner.find('}') else {
            return Err("has ${ without }; write $${ for a literal ${".to_owned());
        };
        filled.push_str(&variable(&inner[..end], env)?);
        rest = &inner[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

fn variable(reference: &str, env: Env<'_>) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if name.is_empty() || !letters || name.as_bytes()[0].is_ascii_digit() {
        return Err(format!(
            "has ${{{reference}}}, which is no variable; write $${{ for a literal ${{"
        ));
    }
    match (env(name).filter(|value| !value.is_empty()), default) {
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "config names {name} which is not set; set it, or write ${{{name}:-default}}"
        )),
    }
}
