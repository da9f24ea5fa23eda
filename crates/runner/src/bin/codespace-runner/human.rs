//! Durations and sizes as people write them. For tables and text; JSON has the exact numbers.

use std::time::{Duration, SystemTime};

/// `976ms`, `1.5s`, `12s`, `2m 3s`, `1h 5m`, `2d 3h`: two units at most, the rest is cut off.
pub(crate) fn millis(ms: u64) -> String {
    let seconds = ms / 1000;
    let two = |big: u64, unit: &str, small: u64, rest: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit} {small}{rest}"),
    };
    match seconds {
        0 => format!("{ms}ms"),
        1..10 if ms % 1000 >= 100 => format!("{seconds}.{}s", ms % 1000 / 100),
        1..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86400, "d", seconds % 86400 / 3600, "h"),
    }
}

/// `26 B`, `1.5 MiB`, `64 KiB`: powers of 1024, rounded to a tenth below 100.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    // In tenths, as whole numbers: a float would round where nobody sees it.
    let tenths_of = |power: usize| (u128::from(count) * 10 + (1 << (10 * power)) / 2) >> (10 * power);
    // What would be rounded to 1024 of a unit is 1 of the next.
    let power = (1..UNITS.len()).find(|power| tenths_of(*power) < 10_235).unwrap_or(UNITS.len());
    let tenths = tenths_of(power);
    let unit = UNITS[power - 1];
    match (tenths / 10, tenths % 10) {
        (whole @ 0..100, tenth @ 1..) => format!("{whole}.{tenth} {unit}"),
        (whole, tenth) => format!("{} {unit}", whole + u128::from(tenth >= 5)),
    }
}

/// Milliseconds from one RFC 3339 time to another; `None` where one is no time, 0 where the clock was set back.
pub(crate) fn between(from: &str, to: SystemTime) -> Option<u64> {
    let from = time(from)?;
    u64::try_from(to.duration_since(from).unwrap_or(Duration::ZERO).as_millis()).ok()
}

/// An RFC 3339 time.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_two_units_that_matter() {
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1099, "1s"),
            (1500, "1.5s"),
            (9999, "9.9s"),
            (12_345, "12s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (123_000, "2m 3s"),
            (3_900_000, "1h 5m"),
            (86_400_000, "1d"),
            (183_600_000, "2d 3h"),
        ] {
            assert_eq!(millis(ms), shown);
        }
        assert!(millis(u64::MAX).contains('d'));
    }

    #[test]
    fn sizes_are_rounded_and_never_a_thousand_of_a_unit() {
        for (count, shown) in [
            (0, "0 B"),
            (26, "26 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (65_536, "64 KiB"),
            (102_400 + 600, "101 KiB"),
            (1_572_864, "1.5 MiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1 << 30, "1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(count), shown, "{count}");
        }
    }

    #[test]
    fn a_time_before_is_no_time_at_all() {
        let at = time("2026-01-02T03:04:05.678Z").unwrap();
        assert_eq!(between("2026-01-02T03:04:05.178Z", at), Some(500));
        assert_eq!(between("2026-01-02T03:05:05Z", at), Some(0));
        assert_eq!(between("yesterday", at), None);
    }
}
