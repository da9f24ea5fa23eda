//! Ids: what ties an answer to its request.
//!
//! Owns what an id may be. It is kept as the text that came, so that the answer carries it byte for byte: a number of 30
//! digits, `1.0` and `1e3` would come back as something else if they were read as numbers.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

/// The most bytes of an id's JSON text. An id is held for as long as its answer is pending, and goes into every answer.
pub const MAX_ID: usize = 1024;

/// A JSON number or string, chosen by the client.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Id(Box<RawValue>);

/// Why something is no id. The message finishes "failed to take ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdFault {
    /// `null`, a boolean, an array or an object.
    #[error("an id that is neither a number nor a string")]
    Kind,
    /// Half of a surrogate pair.
    #[error("an id that is no text: a \\u escape in it is no character")]
    Text,
    /// Beyond [`MAX_ID`].
    #[error("an id of {0} bytes: the most is {MAX_ID}")]
    Long(usize),
}

impl Id {
    /// Takes a JSON value as an id.
    pub fn read(value: &RawValue) -> Result<Self, IdFault> {
        let text = value.get();
        match text.as_bytes() {
            [b'0'..=b'9' | b'-' | b'"', ..] if text.len() > MAX_ID => Err(IdFault::Long(text.len())),
            [b'0'..=b'9' | b'-', ..] => Ok(Self(value.to_owned())),
            [b'"', ..] => match serde_json::from_str::<String>(text) {
                Ok(_) => Ok(Self(value.to_owned())),
                Err(_) => Err(IdFault::Text),
            },
            _ => Err(IdFault::Kind),
        }
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// The number, where it is a whole one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        serde_json::from_str(self.as_json()).ok()
    }
}

/// Of the same text: two ids that are written differently are two ids.
impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for Id {}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(&value).map_err(de::Error::custom)
    }
}
