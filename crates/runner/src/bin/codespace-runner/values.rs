//! How values are written on the command line: durations, sizes, environment entries.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use codespace_domain::ByteString;

/// A duration such as `500ms`, `30s` or `1m30s`, in whole milliseconds. What is shorter than one counts as one, because 0
/// has a meaning of its own.
pub(crate) fn millis(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let duration = humantime::parse_duration(text).map_err(|e| format!("{e}; such as 500ms, 30s or 5m expected"))?;
    let millis = u64::try_from(duration.as_millis()).map_err(|_| "longer than any process can live".to_owned())?;
    Ok(if duration.is_zero() { 0 } else { millis.max(1) })
}

/// A duration in whole seconds, rounded up.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    Ok(millis(text)?.div_ceil(1000))
}

/// A number of bytes, such as `4096`, `64K`, `10M` or `2G`; the units are powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("a number of bytes such as 4096, 64K, 10M or 2G expected".to_owned()),
    };
    let number: u64 =
        number.parse().map_err(|_| "a number of bytes such as 4096, 64K, 10M or 2G expected".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more bytes than can be counted".to_owned())
}

/// `NAME=VALUE`, or `NAME` with the value of our own environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvEntry {
    pub(crate) name: String,
    /// `None` where our own environment has no such name.
    pub(crate) value: Option<ByteString>,
}

/// Reads an environment entry; the value may be any bytes.
pub(crate) fn env_entry(text: OsString) -> Result<EnvEntry, String> {
    let bytes = text.into_vec();
    let (name, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (&bytes[..at], Some(ByteString::from(bytes[at + 1..].to_vec()))),
        None => (bytes.as_slice(), std::env::var_os(OsStr::from_bytes(&bytes)).map(ByteString::from)),
    };
    let name = std::str::from_utf8(name).map_err(|_| "the name is no UTF-8".to_owned())?;
    if name.is_empty() {
        return Err("NAME or NAME=VALUE expected".to_owned());
    }
    Ok(EnvEntry { name: name.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_and_never_zero_by_rounding() {
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("10us"), Ok(1));
        assert_eq!((millis("0"), millis("0s")), (Ok(0), Ok(0)));
        assert_eq!(seconds("1500ms"), Ok(2));
        for bad in ["", "5", "soon", "-1s"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!((bytes("7"), bytes("64K"), bytes("2GiB")), (Ok(7), Ok(65536), Ok(2 << 30)));
        for bad in ["", "K", "1X", "-1", "1.5G", "99999999T"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_environment_entry_is_split_at_its_first_equals_sign() {
        let entry = env_entry("A=b=c".into()).unwrap();
        assert_eq!((entry.name.as_str(), entry.value), ("A", Some("b=c".into())));
        let raw = env_entry(OsString::from_vec(b"A=\xff".to_vec())).unwrap();
        assert_eq!(raw.value, Some(vec![0xff].into()));
        assert_eq!(env_entry("CODESPACE_SURELY_UNSET".into()).unwrap().value, None);
        assert!(env_entry("=x".into()).is_err());
    }
}
