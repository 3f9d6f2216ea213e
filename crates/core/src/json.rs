//! JSON that passes through unparsed: params and results are checked once on the way in and then carried
//! as text, so that a large payload costs a copy and not a tree.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// A valid JSON document as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Takes a text after checking that it is JSON.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self(text))
    }

    /// Takes a text a store has written itself, and which was checked then.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Any serializable value as JSON.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Reads it into a type.
    pub fn to<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }
}

impl Default for Json {
    fn default() -> Self {
        static EMPTY: LazyLock<Json> = LazyLock::new(|| Json(Arc::from("{}")));
        EMPTY.clone()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from).map_err(de::Error::custom)?;
        Ok(Self(Arc::from(raw.get())))
    }
}
