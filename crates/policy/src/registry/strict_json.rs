//! Reads JSON text into a value and refuses what `serde_json` lets pass: a key that is there twice, of which the last
//! would silently win. Knows nothing of what the keys mean.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::RegistryError;

/// The value of `text`. Errors: no JSON (with line and column), or a key that is there twice (with its path).
pub(super) fn parse(text: &str) -> Result<Value, RegistryError> {
    let mut twice = None;
    let mut reader = serde_json::Deserializer::from_str(text);
    let parsed = Node { path: String::new(), twice: &mut twice }.deserialize(&mut reader);
    let parsed = parsed.and_then(|value| reader.end().map(|()| value));
    match (parsed, twice) {
        (_, Some(key)) => Err(RegistryError::at(key, "this key is there twice")),
        (Ok(value), None) => Ok(value),
        (Err(e), None) => Err(RegistryError::file(format!("no JSON: {e}"))),
    }
}

/// One value at `path`.
struct Node<'a> {
    path: String,
    /// Where the first repeated key is; leaves by here because a deserialiser's error is only text.
    twice: &'a mut Option<String>,
}

impl Node<'_> {
    fn below(&mut self, key: &str) -> Node<'_> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Node { path, twice: self.twice }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = {
            let path = format!("{}[{}]", self.path, values.len());
            seq.next_element_seed(Node { path, twice: &mut *self.twice })?
        } {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let child = self.below(&key);
            if values.contains_key(&key) {
                *child.twice = Some(child.path);
                return Err(de::Error::custom("a key is there twice"));
            }
            let value = map.next_value_seed(child)?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_reads_as_serde_json_reads_it() {
        let text = r#"{"a": [1, -2, 2.5, true, null, "x", {"b": {}}], "b": {"a": "é"}}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_key_that_is_there_twice_is_named_wherever_it_is() {
        for (text, key) in [
            (r#"{"workspaces": {"demo": {}, "demo": {}}}"#, "workspaces.demo"),
            (r#"{"a": 1, "a": 1}"#, "a"),
            (r#"{"a": [0, {"b": 1, "b": 2}]}"#, "a[1].b"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.key.as_str(), error.message.as_str()), (key, "this key is there twice"));
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for text in ["", "{", "{} {}", "{\"a\": }"] {
            let error = parse(text).unwrap_err();
            assert!(error.key.is_empty() && error.message.contains("line 1"), "{error}");
        }
    }
}
