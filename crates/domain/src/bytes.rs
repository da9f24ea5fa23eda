//! Byte strings: command arguments, environment values and paths, which on Unix need not be UTF-8.
//!
//! Serialised as a plain string when the bytes are UTF-8, else as `{"base64": "..."}`, so that nothing is lost and the
//! common case stays readable.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are usually text: an argument, an environment value, a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteString(Vec<u8>);

impl ByteString {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The text for people; bytes that are no UTF-8 become U+FFFD.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// True when there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use super::ByteString;

    impl From<OsString> for ByteString {
        fn from(text: OsString) -> Self {
            Self(text.into_vec())
        }
    }

    impl From<&Path> for ByteString {
        fn from(path: &Path) -> Self {
            Self(path.as_os_str().as_bytes().to_vec())
        }
    }

    impl From<PathBuf> for ByteString {
        fn from(path: PathBuf) -> Self {
            Self(path.into_os_string().into_vec())
        }
    }

    impl ByteString {
        /// The same bytes as the operating system's string.
        pub fn as_os_str(&self) -> &OsStr {
            OsStr::from_bytes(&self.0)
        }

        /// The same bytes as a path.
        pub fn as_path(&self) -> &Path {
            Path::new(self.as_os_str())
        }
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByteStringVisitor)
    }
}

struct ByteStringVisitor;

impl<'de> Visitor<'de> for ByteStringVisitor {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an object {\"base64\": \"...\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByteString, A::Error> {
        let Some((key, value)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::custom("an object with the key base64 expected"));
        };
        if key != "base64" || map.next_entry::<String, String>()?.is_some() {
            return Err(de::Error::custom("an object with the one key base64 expected"));
        }
        STANDARD.decode(value).map(ByteString).map_err(|e| de::Error::custom(format_args!("base64: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_survive_json(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let before = ByteString::from(bytes);
            let json = serde_json::to_string(&before).unwrap();
            prop_assert_eq!(serde_json::from_str::<ByteString>(&json).unwrap(), before);
        }
    }

    #[test]
    fn text_stays_readable_and_other_bytes_are_base64() {
        assert_eq!(serde_json::to_string(&ByteString::from("a b")).unwrap(), r#""a b""#);
        assert_eq!(serde_json::to_string(&ByteString::from(vec![0xff])).unwrap(), r#"{"base64":"/w=="}"#);
        assert!(serde_json::from_str::<ByteString>(r#"{"hex":"ff"}"#).is_err());
        assert!(serde_json::from_str::<ByteString>("7").is_err());
    }
}
