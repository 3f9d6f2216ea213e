//! Shapes of JSON, as a document of the routes describes them. A shape that is named by others is described once,
//! beside the type it belongs to, and brought along by whoever names it.

use std::collections::BTreeMap;

use runcue_core::ids::MAX_NAME;
use runcue_core::strict::fields_of;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// No control characters: they would garble a terminal, a log line or a path.
const PRINTABLE: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";

/// A type that says what it looks like as JSON.
pub trait Described {
    /// What the shape is called.
    const NAME: &'static str;

    /// The shape.
    fn schema() -> Schema;
}

/// A shape of JSON, and the shapes it names.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    words: Map<String, Value>,
    names: BTreeMap<&'static str, fn() -> Schema>,
}

/// A field of an object: its name, its shape, and whether it is always there.
pub struct Field {
    name: &'static str,
    schema: Schema,
    always: bool,
}

/// A field that is always there.
pub fn must(name: &'static str, schema: Schema) -> Field {
    Field { name, schema, always: true }
}

/// A field that may be left out.
pub fn may(name: &'static str, schema: Schema) -> Field {
    Field { name, schema, always: false }
}

impl Schema {
    fn of(kind: &str) -> Self {
        Self::default().with("type", kind)
    }

    /// The same with one more word.
    #[must_use]
    pub fn with(mut self, word: &str, value: impl Into<Value>) -> Self {
        self.words.insert(word.to_owned(), value.into());
        self
    }

    /// The same with what it means.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        self.with("description", text)
    }

    /// The same with an upper bound, for texts in characters: a bound in bytes is never looser.
    #[must_use]
    pub fn up_to(self, most: usize) -> Self {
        let word = match self.words.get("type").and_then(Value::as_str) {
            Some("string") => "maxLength",
            Some("array") => "maxItems",
            _ => "maximum",
        };
        self.with(word, most)
    }

    /// The same, or `null`.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        if let Some(Value::Array(words)) = self.words.get_mut("enum") {
            words.push(Value::Null);
        }
        match self.words.get("type").cloned() {
            Some(kind) => self.with("type", json!([kind, "null"])),
            // What says nothing of its type allows null already.
            None if !self.words.contains_key("$ref") && !self.words.contains_key("anyOf") => self,
            None => either([self, Self::of("null")]),
        }
    }

    /// The shapes it names.
    pub fn names(&self) -> &BTreeMap<&'static str, fn() -> Schema> {
        &self.names
    }

    /// The shape as it is written.
    pub fn written(&self) -> Value {
        Value::Object(self.words.clone())
    }

    fn take(&mut self, other: Self) -> Value {
        self.names.extend(other.names);
        Value::Object(other.words)
    }
}

/// Any value.
pub fn any() -> Schema {
    Schema::default()
}

/// A text.
pub fn text() -> Schema {
    Schema::of("string")
}

/// A truth value.
pub fn flag() -> Schema {
    Schema::of("boolean")
}

/// A whole number that is not negative.
pub fn count() -> Schema {
    Schema::of("integer").with("minimum", 0)
}

/// The same, in 32 bits.
pub fn count32() -> Schema {
    count().with("maximum", u32::MAX)
}

/// The same, in 64 bits. Only for what is read: nothing that is written comes near.
pub fn count64() -> Schema {
    count().with("maximum", u64::MAX)
}

/// A whole number in 32 bits.
pub fn signed32() -> Schema {
    Schema::of("integer").with("minimum", i32::MIN).with("maximum", i32::MAX)
}

/// A number.
pub fn number() -> Schema {
    Schema::of("number")
}

/// A span in seconds.
pub fn seconds() -> Schema {
    number().with("minimum", 0)
}

/// An instant: whole milliseconds since the Unix epoch.
pub fn instant() -> Schema {
    Schema::of("integer").with("format", "int64")
}

/// An id as it is written.
pub fn an_id() -> Schema {
    text().with("pattern", "^[0-9a-f]{32}$")
}

/// An id as it is read: digits in capitals are understood.
pub fn id_read() -> Schema {
    text().with("pattern", "^[0-9a-fA-F]{32}$")
}

/// A name of a job type, queue, group, service, schedule or worker.
pub fn name() -> Schema {
    text().with("minLength", 1).with("pattern", PRINTABLE).up_to(MAX_NAME)
}

/// One of some words.
pub fn word(words: &[&str]) -> Schema {
    text().with("enum", words.to_vec())
}

/// An array.
pub fn list_of(of: Schema) -> Schema {
    let mut list = Schema::of("array");
    let items = list.take(of);
    list.with("items", items)
}

/// One of several shapes.
pub fn either(shapes: impl IntoIterator<Item = Schema>) -> Schema {
    joined("anyOf", shapes)
}

/// All of several shapes at once.
pub fn both(shapes: impl IntoIterator<Item = Schema>) -> Schema {
    joined("allOf", shapes)
}

fn joined(word: &str, shapes: impl IntoIterator<Item = Schema>) -> Schema {
    let mut whole = Schema::default();
    let parts: Vec<Value> = shapes.into_iter().map(|shape| whole.take(shape)).collect();
    whole.with(word, parts)
}

/// A shape that is described once for all.
pub fn named<T: Described>() -> Schema {
    let mut shape = Schema::default().with("$ref", format!("#/components/schemas/{}", T::NAME));
    shape.names.insert(T::NAME, T::schema);
    shape
}

/// An object that is written. More fields may come with later versions.
pub fn object(fields: impl IntoIterator<Item = Field>) -> Schema {
    let mut object = Schema::of("object");
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        if field.always {
            required.push(field.name);
        }
        properties.insert(field.name.to_owned(), object.take(field.schema));
    }
    if !required.is_empty() {
        object = object.with("required", required);
    }
    object.with("properties", properties)
}

/// An object that is read as a type: it has the fields of that type and no other.
pub fn read_as<T: for<'de> Deserialize<'de>>(fields: impl IntoIterator<Item = Field>) -> Schema {
    let object = object(fields);
    // Every test that makes the document finds a field that was forgotten here.
    if cfg!(debug_assertions) {
        let described = object.words["properties"].as_object().into_iter().flatten();
        let mut described: Vec<&str> = described.map(|(name, _)| name.as_str()).collect();
        let mut read = fields_of::<T>().to_vec();
        described.sort_unstable();
        read.sort_unstable();
        assert_eq!(described, read, "described, and read: {}", std::any::type_name::<T>());
    }
    object.with("additionalProperties", false)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Part;

    impl Described for Part {
        const NAME: &'static str = "Part";

        fn schema() -> Schema {
            object([must("id", an_id())])
        }
    }

    #[test]
    fn null_is_allowed_whatever_the_shape_was() {
        assert_eq!(flag().or_null().written(), json!({"type": ["boolean", "null"]}));
        let words = word(&["a"]).or_null().written();
        assert_eq!(words, json!({"type": ["string", "null"], "enum": ["a", null]}));
        let part = named::<Part>().or_null().written();
        let kinds = json!([{"$ref": "#/components/schemas/Part"}, {"type": "null"}]);
        assert_eq!(part, json!({ "anyOf": kinds }));
        assert_eq!(any().or_null().written(), json!({}));
    }

    #[test]
    fn a_shape_brings_along_the_shapes_it_names() {
        let whole = object([may("parts", list_of(named::<Part>()))]);
        assert!(whole.names().contains_key("Part"));
    }

    #[test]
    fn an_object_that_is_read_has_the_fields_of_its_type_and_no_other() {
        #[derive(Deserialize)]
        struct Read {
            #[serde(rename = "type")]
            _kind: String,
        }
        let schema = read_as::<Read>([must("type", text())]).written();
        assert_eq!(schema["additionalProperties"], false);
        let forgotten = std::panic::catch_unwind(|| read_as::<Read>([]));
        assert!(forgotten.is_err());
    }
}
