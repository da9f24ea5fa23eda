//! The keys that leave a process without ending it: how they are written, and how they are found among what is typed.
//!
//! Pure. Keys that turn out to be no such sequence are passed on, each at its place; until the next key is there, a
//! beginning of the sequence is held back.

use std::str::FromStr;

/// A sequence of keys, and how much of it was typed just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachKeys {
    sequence: Vec<u8>,
    typed: Vec<u8>,
}

/// What becomes of what was typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// For the process.
    pub(crate) bytes: Vec<u8>,
    /// The sequence is complete. What was typed after it is for nobody.
    pub(crate) detach: bool,
}

impl DetachKeys {
    /// No key leaves.
    pub(crate) fn none() -> Self {
        Self { sequence: Vec::new(), typed: Vec::new() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.sequence.is_empty()
    }

    /// Takes what was typed.
    pub(crate) fn feed(&mut self, typed: Vec<u8>) -> Passed {
        if self.is_none() {
            return Passed { bytes: typed, detach: false };
        }
        let mut bytes = Vec::with_capacity(typed.len() + self.typed.len());
        for key in typed {
            self.typed.push(key);
            while !self.sequence.starts_with(&self.typed) {
                bytes.push(self.typed.remove(0));
            }
            if self.typed.len() == self.sequence.len() {
                self.typed.clear();
                return Passed { bytes, detach: true };
            }
        }
        Passed { bytes, detach: false }
    }

    /// Nothing more will be typed: what was held back.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.typed)
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    /// Keys with commas between them, each a character or `ctrl-` and one of `a` to `z`, `@`, `[`, `\`, `]`, `^`, `_`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::none());
        }
        let sequence = text.split(',').map(key).collect::<Result<_, _>>()?;
        Ok(Self { sequence, typed: Vec::new() })
    }
}

fn key(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [key] if key.is_ascii_graphic() => Ok(*key),
        [b'c', b't', b'r', b'l', b'-', key @ (b'a'..=b'z' | b'@' | b'['..=b'_')] => Ok(*key & 0x1f),
        _ => Err(format!("{text:?} is no key; such as ctrl-p,ctrl-q or ~,. or none expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> DetachKeys {
        text.parse().unwrap()
    }

    /// Fed one by one and all at once, which must not differ.
    fn fed(sequence: &str, typed: &[u8]) -> (Vec<u8>, bool, Vec<u8>) {
        let mut at_once = keys(sequence);
        let whole = at_once.feed(typed.to_vec());
        let mut one_by_one = keys(sequence);
        let mut bytes = Vec::new();
        let mut detach = false;
        for key in typed {
            if !detach {
                let passed = one_by_one.feed(vec![*key]);
                bytes.extend(passed.bytes);
                detach = passed.detach;
            }
        }
        assert_eq!((&bytes, detach), (&whole.bytes, whole.detach));
        assert_eq!(at_once, one_by_one);
        (bytes, detach, at_once.release())
    }

    #[test]
    fn the_sequence_leaves_and_what_was_typed_before_it_is_passed_on() {
        assert_eq!(fed("ctrl-p,ctrl-q", b"ls\r\x10\x11rest"), (b"ls\r".to_vec(), true, vec![]));
        assert_eq!(fed("~,.", b"a~."), (b"a".to_vec(), true, vec![]));
        assert_eq!(fed("ctrl-]", b"\x1d"), (vec![], true, vec![]));
    }

    #[test]
    fn a_first_key_that_another_one_follows_is_passed_on_at_its_place() {
        assert_eq!(fed("ctrl-p,ctrl-q", b"\x10a\x11"), (b"\x10a\x11".to_vec(), false, vec![]));
        assert_eq!(fed("ctrl-p,ctrl-q", b"\x10\x10"), (b"\x10".to_vec(), false, b"\x10".to_vec()));
        assert_eq!(fed("ctrl-p,ctrl-q", b"\x10\x10\x11"), (b"\x10".to_vec(), true, vec![]));
        assert_eq!(fed("a,a,b", b"aaab"), (b"a".to_vec(), true, vec![]));
        assert_eq!(fed("a,b,a,c", b"ababac"), (b"ab".to_vec(), true, vec![]));
    }

    #[test]
    fn none_holds_nothing_back() {
        assert_eq!(fed("none", b"\x10\x11\x00"), (b"\x10\x11\x00".to_vec(), false, vec![]));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for bad in ["", ",", "ctrl-", "ctrl-1", "ctrl-p,", "ab", "\u{e9}", " "] {
            assert!(bad.parse::<DetachKeys>().is_err(), "{bad:?}");
        }
        assert_eq!(keys("ctrl-@").sequence, [0]);
    }
}
