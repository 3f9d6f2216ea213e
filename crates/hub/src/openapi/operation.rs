//! What one route does, said beside the route: what it reads, what it answers and what it refuses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::schema::{Described, Schema, id_read, name, named, text, word};
use crate::access::Role;
use crate::error::Code;

/// What one route does.
#[derive(Debug)]
pub struct Operation {
    id: &'static str,
    summary: &'static str,
    actions: &'static [&'static str],
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    refused: BTreeSet<u16>,
    names: BTreeMap<&'static str, fn() -> Schema>,
}

/// Any request may be addressed wrongly, come from a foreign page, or bring a token that is not known.
const ALWAYS: [Code; 4] =
    [Code::Unauthorized, Code::WrongOrigin, Code::WrongHost, Code::TooManyAttempts];
/// Whatever asks the store may find it away, or at fault.
const OF_THE_STORE: [Code; 2] = [Code::Internal, Code::Unavailable];
/// Whatever reads a body may find it unreadable.
const OF_A_BODY: [Code; 4] =
    [Code::BadRequest, Code::TooLarge, Code::UnsupportedMediaType, Code::Invalid];

impl Operation {
    /// An operation by a stable id, in a line.
    pub fn new(id: &'static str, summary: &'static str) -> Self {
        let refused = ALWAYS.iter().chain(&OF_THE_STORE).map(|code| code.status().as_u16());
        Self {
            id,
            summary,
            actions: &[],
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            refused: refused.collect(),
            names: BTreeMap::new(),
        }
    }

    /// The words that stand for `{action}` in the path.
    #[must_use]
    pub fn actions(mut self, words: &'static [&'static str]) -> Self {
        self.actions = words;
        self
    }

    /// A parameter of the query.
    #[must_use]
    pub fn asks(self, name: &str, schema: Schema) -> Self {
        self.parameter("query", name, schema).refuses(&[Code::Invalid])
    }

    /// A header that is read.
    #[must_use]
    pub fn reads(self, name: &str, schema: Schema) -> Self {
        self.parameter("header", name, schema)
    }

    fn parameter(mut self, place: &str, name: &str, schema: Schema) -> Self {
        let schema = self.take(schema);
        self.parameters.push(json!({"name": name, "in": place, "schema": schema}));
        self
    }

    /// A JSON body, which may be left out if everything in it may.
    #[must_use]
    pub fn takes<T: Described>(self) -> Self {
        let required = T::schema().written().get("required").is_some();
        self.takes_shape(named::<T>(), required)
    }

    /// A JSON body of any shape.
    #[must_use]
    pub fn takes_shape(mut self, schema: Schema, required: bool) -> Self {
        let schema = self.take(schema);
        let content = json!({"application/json": {"schema": schema}});
        self.body = Some(json!({"required": required, "content": content}));
        self.refuses(&OF_A_BODY)
    }

    /// The same body, as text of another media type.
    #[must_use]
    pub fn or_as(mut self, media: &str, says: &str) -> Self {
        if let Some(body) = &mut self.body {
            body["content"][media] = json!({"schema": text().says(says).written()});
        }
        self
    }

    /// An answer in JSON.
    #[must_use]
    pub fn gives(mut self, status: u16, says: &str, schema: Schema) -> Self {
        let schema = self.take(schema);
        self.content(status, says, "application/json", schema)
    }

    /// An answer in JSON of a described type.
    #[must_use]
    pub fn gives_a<T: Described>(self, status: u16, says: &str) -> Self {
        self.gives(status, says, named::<T>())
    }

    /// An answer without a body.
    #[must_use]
    pub fn gives_nothing(mut self, status: u16, says: &str) -> Self {
        self.answers.insert(status, json!({"description": says}));
        self
    }

    /// An answer as text of another media type; an event stream, for example.
    #[must_use]
    pub fn gives_text(self, status: u16, media: &str, says: &str) -> Self {
        self.content(status, says, media, text().written())
    }

    fn content(mut self, status: u16, says: &str, media: &str, schema: Value) -> Self {
        let answer = self.answers.entry(status).or_insert_with(|| json!({"description": says}));
        answer["content"][media] = json!({"schema": schema});
        self
    }

    /// A header of an answer.
    #[must_use]
    pub fn with_header(mut self, status: u16, name: &str, schema: Schema) -> Self {
        let schema = self.take(schema);
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["headers"][name] = json!({"schema": schema});
        }
        self
    }

    /// Where an answer leads: to routes whose `{id}` is the id that was answered.
    #[must_use]
    pub fn leads_to(mut self, status: u16, operations: &[&str]) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            for operation in operations {
                let parameters = json!({"id": "$response.body#/id"});
                answer["links"][*operation] =
                    json!({"operationId": operation, "parameters": parameters});
            }
        }
        self
    }

    /// What it may refuse, besides what every route may.
    #[must_use]
    pub fn refuses(mut self, codes: &[Code]) -> Self {
        self.refused.extend(codes.iter().map(|code| code.status().as_u16()));
        self
    }

    /// It asks no store, so none can be away.
    #[must_use]
    pub fn without_a_store(mut self) -> Self {
        for code in OF_THE_STORE {
            self.refused.remove(&code.status().as_u16());
        }
        self
    }

    fn take(&mut self, schema: Schema) -> Value {
        self.names.extend(schema.names());
        schema.written()
    }

    /// The shapes it names.
    pub fn names(&self) -> &BTreeMap<&'static str, fn() -> Schema> {
        &self.names
    }

    /// As the document has it.
    pub fn written(&self, path: &str, role: Option<Role>, most_bytes: usize) -> Value {
        let mut parameters: Vec<Value> = self.parts(path);
        let mut refused = self.refused.clone();
        if !parameters.is_empty() {
            // A part of a path that is no text at all, and one that is no name or id.
            refused.insert(Code::BadRequest.status().as_u16());
            let wrong = if path.contains("{id}") { Code::NotFound } else { Code::Invalid };
            refused.insert(wrong.status().as_u16());
        }
        if !self.actions.is_empty() {
            refused.insert(Code::NotFound.status().as_u16());
        }
        parameters.extend(self.parameters.iter().cloned());
        let mut answers: Map<String, Value> = self
            .answers
            .iter()
            .map(|(status, answer)| (status.to_string(), answer.clone()))
            .collect();
        for status in refused {
            let shared = json!({"$ref": format!("#/components/responses/{status}")});
            answers.entry(status.to_string()).or_insert(shared);
        }
        let mut written = json!({
            "operationId": self.id,
            "summary": self.summary,
            "tags": [tag(path)],
            "responses": answers,
            "security": [],
        });
        if !parameters.is_empty() {
            written["parameters"] = parameters.into();
        }
        if let Some(mut body) = self.body.clone() {
            body["description"] = format!("At most {most_bytes} bytes.").into();
            written["requestBody"] = body;
        }
        if let Some(role) = role {
            let role = role.as_str();
            written["description"] = format!("Needs the role `{role}`, or `admin`.").into();
            written["x-role"] = role.into();
            written["security"] = json!([{"bearer": []}, {"cookie": []}]);
        }
        written
    }

    fn parts(&self, path: &str) -> Vec<Value> {
        let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let described = |part: &str| {
            let schema = match part {
                "id" => id_read(),
                "action" => word(self.actions),
                _ => name(),
            };
            json!({"name": part, "in": "path", "required": true, "schema": schema.written()})
        };
        parts.map(described).collect()
    }
}

/// What a route belongs to: the first part of its path.
fn tag(path: &str) -> &str {
    let path = path.trim_start_matches("/api").trim_start_matches('/');
    path.split('/').next().unwrap_or_default()
}
