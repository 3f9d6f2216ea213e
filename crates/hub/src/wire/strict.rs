//! Objects read strictly: as an object, with the fields of their type and no other. A field that means nothing is most
//! likely a misspelt one, and fields in the order of an array are a mistake. Stores read some of the same types
//! leniently, because another version may have written them.

use std::fmt;
use std::marker::PhantomData;

use runcue_core::strict::fields_of;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An object that has only fields its type knows.
#[derive(Clone, Debug)]
pub struct Known<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Known<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(AsObject(PhantomData)).map(Self)
    }
}

/// Reads a field that is such an object.
pub fn known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Known::deserialize(from).map(|known| known.0)
}

/// The same for one that may be `null`.
pub fn known_if_any<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Known<T>>::deserialize(from)?.map(|known| known.0))
}

/// The same for a list of them.
pub fn each_known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Known<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|known| known.0).collect())
}

struct AsObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AsObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(OnlyKnown { map, fields: fields_of::<T>() }))
    }
}

struct OnlyKnown<A> {
    map: A,
    fields: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OnlyKnown<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.map.next_key_seed(KnownName { seed, fields: self.fields })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The name of a field on its way to whoever asked for it, looked at without keeping it.
struct KnownName<K> {
    seed: K,
    fields: &'static [&'static str],
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KnownName<K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<K::Value, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for KnownName<K> {
    type Value = K::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<K::Value, E> {
        if !self.fields.contains(&name) {
            return Err(E::unknown_field(name, self.fields));
        }
        self.seed.deserialize(name.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Lenient {
        size: u32,
    }

    #[derive(Debug, Deserialize)]
    struct Whole {
        #[serde(default, deserialize_with = "known_if_any")]
        part: Option<Lenient>,
        #[serde(default, deserialize_with = "each_known")]
        parts: Vec<Lenient>,
    }

    fn read(text: &str) -> Result<Whole, String> {
        let read = serde_json::from_str::<Known<Whole>>(text);
        read.map(|known| known.0).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_known_is_read() {
        let whole = read(r#"{"part": {"size": 3}, "parts": [{}, {"size": 1}]}"#).unwrap();
        assert_eq!((whole.part.unwrap().size, whole.parts[1].size), (3, 1));
        assert!(read(r#"{"part": null}"#).unwrap().part.is_none());
    }

    #[test]
    fn a_field_that_means_nothing_is_refused_at_every_depth() {
        for text in [r#"{"prat": {}}"#, r#"{"part": {"sise": 1}}"#, r#"{"parts": [{"sise": 1}]}"#] {
            let why = read(text).unwrap_err();
            assert!(why.contains("unknown field"), "{why}");
        }
    }

    #[test]
    fn an_array_is_no_object() {
        for text in [r#"[]"#, r#"{"part": [3]}"#, r#"{"parts": [[3]]}"#] {
            let why = read(text).unwrap_err();
            assert!(why.contains("expected an object"), "{why}");
        }
    }
}
