//! How values are written on the command line: durations, sizes, environment entries.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use codespace_domain::ByteString;

/// A duration such as `500ms`, `1.5s` or `1m30s`, in whole milliseconds. What is shorter than one counts as one, because 0
/// has a meaning of its own. A number without a unit is refused: nobody knows whether it was meant as seconds.
pub(crate) fn millis(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "a duration such as 500ms, 90s or 1m30s expected";
    const TOO_LONG: &str = "longer than any process can live";
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text.trim();
    if Decimal::split(rest).is_some_and(|(_, after)| after.is_empty()) {
        return Err(format!("it has no unit; {rest}s for seconds, {rest}ms for milliseconds"));
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = Decimal::split(rest).ok_or(EXPECTED)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: Duration = humantime::parse_duration(&format!("1{unit}")).map_err(|_| EXPECTED)?;
        let part = number.times(unit.as_nanos()).ok_or(TOO_LONG)?;
        nanos = nanos.checked_add(part).ok_or(TOO_LONG)?;
        rest = after.trim_start();
    }
    if text.trim().is_empty() {
        return Err(EXPECTED.to_owned());
    }
    let millis = u64::try_from(nanos / 1_000_000).map_err(|_| TOO_LONG)?;
    Ok(if nanos == 0 { 0 } else { millis.max(1) })
}

/// A duration in whole seconds, rounded up.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    Ok(millis(text)?.div_ceil(1000))
}

/// A number of bytes, such as `4096`, `64K`, `1.5G` or `2GiB`; the units are powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "a number of bytes such as 4096, 64K, 1.5G or 2GiB expected";
    let (number, unit) = Decimal::split(text.trim()).ok_or(EXPECTED)?;
    let shift = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(EXPECTED.to_owned()),
    };
    if shift == 0 && number.digits > 0 {
        return Err("a part of a byte; a whole number of bytes, or a unit such as K expected".to_owned());
    }
    let count = number.times(1 << shift).and_then(|count| u64::try_from(count).ok());
    count.ok_or_else(|| "more bytes than can be counted".to_owned())
}

/// A number with digits after its point, exact.
struct Decimal {
    /// Without the point.
    number: u128,
    /// How many of its digits come after the point.
    digits: u32,
}

impl Decimal {
    /// The number that the text begins with, and what follows.
    fn split(text: &str) -> Option<(Self, &str)> {
        let digits_of = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, after) = text.split_at(digits_of(text));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits_of(after)),
            None => ("", after),
        };
        let pointed = text.as_bytes().get(whole.len()) == Some(&b'.');
        // So few digits that no product below overflows.
        let sound = !whole.is_empty() && pointed != fraction.is_empty() && whole.len() <= 20 && fraction.len() <= 9;
        let number = format!("{whole}{fraction}").parse().ok().filter(|_| sound)?;
        Some((Self { number, digits: u32::try_from(fraction.len()).ok()? }, after))
    }

    /// So many of a unit, the rest cut off.
    fn times(&self, unit: u128) -> Option<u128> {
        Some(self.number.checked_mul(unit)? / 10_u128.pow(self.digits))
    }
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
        for (text, expected) in [
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("1.5s", 1500),
            ("0.5h", 1_800_000),
            ("2h", 7_200_000),
            ("1 minute", 60_000),
            ("10us", 1),
            ("0.0001ms", 1),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        assert_eq!(seconds("1500ms"), Ok(2));
        for bad in ["", " ", "soon", "-1s", "s", "1.s", ".5s", "1..5s", "1s2", "1parsec", "99999999999999999999y"] {
            assert!(millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_what_may_have_been_meant() {
        assert!(millis("90").unwrap_err().contains("90s for seconds"));
        assert!(millis("1.5").unwrap_err().contains("1.5s"));
    }

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, expected) in [
            ("7", 7),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1.5G", 1_610_612_736),
            ("2GiB", 2 << 30),
            ("2 GiB", 2 << 30),
            ("0.5K", 512),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for bad in ["", "K", "1X", "-1", "1.5", "1.5B", "1.K", "99999999T", "1K2"] {
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
