//! YAML into the tree, from the parser's events, with a stack of our own instead of recursion.
//!
//! Bounds: depth, values in all, and values that aliases repeat, counted before anything is copied,
//! so that a few lines of nested anchors ("a billion laughs") cost nothing. `<<` merges are read.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle};

use super::{Entry, Kind, MAX_DEPTH, MAX_NODES, Node, SyntaxError, check_unique};

/// How many values aliases may repeat in all.
const MAX_ALIASED: usize = 250_000;

/// Reads one YAML document.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            let line = error.marker().line();
            SyntaxError::new(line, format!("not valid YAML: {}", error.info()))
        })?;
        builder.on_event(event, span.start.line())?;
    }
    Ok(builder.root.unwrap_or(Node::new(1, Kind::Null)))
}

/// A collection whose end has not come yet.
struct Open {
    line: usize,
    anchor: usize,
    size: usize,
    state: State,
}

enum State {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, usize)>, merges: Vec<Node> },
}

#[derive(Default)]
struct Builder {
    stack: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    aliased: usize,
    anchored: usize,
    documents: usize,
    root: Option<Node>,
}

impl Builder {
    fn on_event(&mut self, event: Event<'_>, line: usize) -> Result<(), SyntaxError> {
        match event {
            Event::DocumentStart(..) => self.on_document(line),
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let node = Node::new(line, scalar(text.into_owned(), plain));
                self.keep(anchor, &node, 1)?;
                self.add(node, 1)
            }
            Event::SequenceStart(_, anchor, _) => self.open(line, anchor, State::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let state = State::Map { entries: Vec::new(), key: None, merges: Vec::new() };
                self.open(line, anchor, state)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.on_alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn on_document(&mut self, line: usize) -> Result<(), SyntaxError> {
        self.documents += 1;
        if self.documents > 1 {
            let message = "a second document starts here (---); put it in a file of its own";
            return Err(SyntaxError::new(line, message));
        }
        Ok(())
    }

    fn on_alias(&mut self, anchor: usize, line: usize) -> Result<(), SyntaxError> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(SyntaxError::new(
                line,
                "an alias (*name) stands inside the value it names",
            ));
        };
        self.aliased += size;
        if self.aliased > MAX_ALIASED {
            let message = format!(
                "aliases (*name) repeat more than {MAX_ALIASED} values; write fewer, or use for_each"
            );
            return Err(SyntaxError::new(line, message));
        }
        let (mut node, size) = (node.clone(), *size);
        node.line = line;
        self.add(node, size)
    }

    fn open(&mut self, line: usize, anchor: usize, state: State) -> Result<(), SyntaxError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(line));
        }
        self.stack.push(Open { line, anchor, size: 1, state });
        Ok(())
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let Some(open) = self.stack.pop() else {
            return Ok(());
        };
        let kind = match open.state {
            State::List(items) => Kind::List(items),
            State::Map { mut entries, merges, .. } => {
                check_unique(&entries)?;
                if !merges.is_empty() {
                    merge_all(&mut entries, merges)?;
                }
                Kind::Map(entries)
            }
        };
        let node = Node::new(open.line, kind);
        self.keep(open.anchor, &node, open.size)?;
        self.add(node, open.size)
    }

    /// Remembers an anchored value. Anchors inside anchors are copied once per level, hence the bound.
    fn keep(&mut self, anchor: usize, node: &Node, size: usize) -> Result<(), SyntaxError> {
        if anchor == 0 {
            return Ok(());
        }
        self.anchored += size;
        if self.anchored > MAX_NODES {
            let message = format!("anchors (&name) hold more than {MAX_NODES} values");
            return Err(SyntaxError::new(node.line, message));
        }
        self.anchors.insert(anchor, (node.clone(), size));
        Ok(())
    }

    /// Puts a finished value where it belongs: into the open list or map, or as the whole.
    fn add(&mut self, node: Node, size: usize) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values; split the file");
            return Err(SyntaxError::new(node.line, message));
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size += size;
        match &mut open.state {
            State::List(items) => items.push(node),
            State::Map { entries, key, merges } => match key.take() {
                None => *key = Some(map_key(node)?),
                Some((name, _)) if name == "<<" => merges.push(node),
                Some((name, line)) => entries.push(Entry { key: name, line, value: node }),
            },
        }
        Ok(())
    }
}

fn scalar(text: String, plain: bool) -> Kind {
    if plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
        return Kind::Null;
    }
    Kind::Scalar { text, plain }
}

fn map_key(node: Node) -> Result<(String, usize), SyntaxError> {
    match node.kind {
        Kind::Scalar { text, .. } => Ok((text, node.line)),
        Kind::Null => Ok((String::new(), node.line)),
        _ => Err(SyntaxError::new(
            node.line,
            "a key must be text; put quotes around a value that starts with { or [",
        )),
    }
}

/// `<<: *base` or `<<: [*a, *b]`: keys that are not there yet are taken over, the first source wins.
fn merge_all(entries: &mut Vec<Entry>, merges: Vec<Node>) -> Result<(), SyntaxError> {
    let mut keys: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for source in merges {
        let maps = match source.kind {
            Kind::List(items) => items,
            _ => vec![source],
        };
        for map in maps {
            let Kind::Map(more) = map.kind else {
                let message = "<< merges maps; this is not one";
                return Err(SyntaxError::new(map.line, message));
            };
            entries.extend(more.into_iter().filter(|entry| keys.insert(entry.key.clone())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_billion_laughs_are_refused_before_they_are_copied() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        let error = parse(&text).unwrap_err();
        assert!(error.message.contains("aliases"), "{}", error.message);
    }

    #[test]
    fn a_merge_takes_over_what_is_missing() {
        let text = "base: &base {a: 1, b: 2}\nnext:\n  <<: *base\n  b: 3\n";
        let json = parse(text).unwrap().to_json();
        assert_eq!(json["next"], serde_json::json!({"a": 1, "b": 3}));
    }

    #[test]
    fn a_list_that_holds_itself_is_refused() {
        let error = parse("a: &a [*a]\n").unwrap_err();
        assert!(error.message.contains("inside"), "{}", error.message);
    }

    #[test]
    fn a_second_document_is_refused() {
        let error = parse("a: 1\n---\nb: 2\n").unwrap_err();
        assert_eq!(error.line, 2);
    }
}
