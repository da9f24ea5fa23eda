//! The outer form of a request: its members, each still the text that came.
//!
//! Owns that a member which is there twice is refused, wherever a reader might otherwise take one of the two in silence, and
//! that params go from their text into the request's own type with nothing between. Knows no method.

use std::borrow::Cow;

use codespace_domain::Request;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of a message that are looked at. Others are ignored, as JSON-RPC has it.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) params: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// The error finishes "failed to ...".
    pub(super) fn read(payload: &'a [u8]) -> Result<Self, String> {
        // All of it, once: what is skipped as JSON would not be looked at as text.
        let text =
            std::str::from_utf8(payload).map_err(|error| format!("read the message as JSON: no UTF-8: {error}"))?;
        let broken = |error: serde_json::Error| format!("read the message as JSON: {error}");
        match text.trim_start_matches([' ', '\t', '\r', '\n']).as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map_err(broken),
            Some(b'[') => Err("take a batch: send one request per frame".to_owned()),
            _ => {
                serde_json::from_str::<IgnoredAny>(text).map_err(broken)?;
                Err("take a message that is no object".to_owned())
            }
        }
    }
}

/// A member that is there, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The text of a JSON string; `None` for every other value.
pub(super) fn text_of(value: &RawValue) -> Option<String> {
    serde_json::from_str::<Cow<'_, str>>(value.get()).ok().map(Cow::into_owned)
}

/// A method and its params as the two entries that a [`Request`] is read from.
pub(super) struct Tagged<'a> {
    method: &'a str,
    params: Option<&'a RawValue>,
    given: usize,
}

impl<'a> Tagged<'a> {
    pub(super) fn new(method: &'a str, params: Option<&'a RawValue>) -> Self {
        Self { method, params, given: 0 }
    }

    /// The error says nothing of a place: it would be counted from the params' beginning.
    pub(super) fn read(self) -> Result<Request, String> {
        Request::deserialize(MapAccessDeserializer::new(self)).map_err(|error| without_place(&error))
    }
}

/// Params whose method is known already; absent ones are an empty object.
pub(super) fn read_params<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, String> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|error| without_place(&error))
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

impl<'de> MapAccess<'de> for Tagged<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let key = ["method", "params"].get(self.given);
        self.given += 1;
        key.map(|key| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        match (self.given, self.params) {
            (1, _) => seed.deserialize(StrDeserializer::new(self.method)),
            (_, Some(params)) => seed.deserialize(params),
            (_, None) => seed.deserialize(&mut serde_json::Deserializer::from_str("{}")),
        }
    }
}
