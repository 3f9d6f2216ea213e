//! The document of every route in the OpenAPI format, made from the table that the router is made from: a route
//! cannot be there without being described. What a body looks like is said beside its type.

mod operation;
mod schema;
mod views;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use operation::Operation;
pub use schema::{
    Described, Schema, an_id, any, both, count, count32, count64, either, flag, id_read, instant,
    list_of, may, must, name, named, number, object, read_as, seconds, signed32, text, word,
};

use crate::error::Code;
use crate::guard::COOKIE;
use crate::routes::Route;

/// The document of these routes.
pub fn document(routes: &[Route]) -> Value {
    let mut paths = Map::new();
    let mut names: BTreeMap<&'static str, fn() -> Schema> = BTreeMap::new();
    for route in routes {
        names.extend(route.said.names());
        let written = route.said.written(route.path, route.role, route.most_bytes);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.word()] = written;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "runcue hub",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable work queue over HTTP. Instants are whole milliseconds since the Unix epoch, \
                spans are seconds unless a name ends in `_ms`, ids are 32 lower-case hexadecimal digits. `params` \
                and `result` are any JSON value. Lengths of texts are bounded in bytes; `maxLength` counts \
                characters and is never tighter. Later versions may add fields to answers.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": shapes(names),
            "responses": refusals(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token."},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "What POST /api/login sets, for the dashboard. A request that changes something \
                        also carries X-Requested-With and an Origin that is the hub's.",
                },
            },
        },
    })
}

/// Every shape that is named, and those that these name.
fn shapes(mut open: BTreeMap<&'static str, fn() -> Schema>) -> Map<String, Value> {
    let mut shapes = Map::new();
    while let Some((name, shape)) = open.pop_first() {
        if shapes.contains_key(name) {
            continue;
        }
        let shape = shape();
        shapes.insert(name.to_owned(), shape.written());
        open.extend(shape.names());
    }
    let codes: Vec<Value> = Code::ALL.iter().map(|code| json!(code)).collect();
    let inner = object([
        must("code", text().with("enum", codes).says("Stable: programs go by it.")),
        must("message", text().says("What is the matter, naming the place.")),
        may("help", text().says("What to do about it.")),
    ]);
    let error = object([must("error", inner)]).says("Every error has this shape.");
    shapes.insert("Error".to_owned(), error.written());
    shapes
}

/// The answers that say no, by status, with the codes that come with each.
fn refusals() -> Map<String, Value> {
    let mut refusals: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in Code::ALL {
        let word = json!(code).as_str().unwrap_or_default().to_owned();
        refusals.entry(code.status().as_u16()).or_default().push(format!("`{word}`"));
    }
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
    let written = |(status, codes): (u16, Vec<String>)| {
        let mut refusal = json!({"description": codes.join(" or "), "content": content});
        if matches!(status, 429 | 503) {
            let wait = count().says("Seconds to wait.").written();
            refusal["headers"]["Retry-After"] = json!({ "schema": wait });
        }
        (status.to_string(), refusal)
    };
    refusals.into_iter().map(written).collect()
}
