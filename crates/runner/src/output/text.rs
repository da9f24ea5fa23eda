//! Where characters begin and end in bytes that are probably UTF-8. Knows nothing of streams or readers.

/// The longest beginning of a character that is not yet the character.
pub(super) const LONGEST_BEGINNING: usize = 3;

/// How many bytes at the end are the beginning of a character that more bytes could still complete: 0 to 3.
///
/// Bytes that no continuation could make valid are not counted, so nobody ever waits for them.
pub(super) fn unfinished(bytes: &[u8]) -> usize {
    let beginnings = (1..=LONGEST_BEGINNING.min(bytes.len())).map(|len| (len, &bytes[bytes.len() - len..]));
    for (len, end) in beginnings {
        if is_continuation(end[0]) {
            continue;
        }
        // Every other byte starts a new sequence, whatever stands before it. `error_len` is `None` exactly when the
        // bytes are fine so far but stop too early.
        return match std::str::from_utf8(end) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => len,
            Ok(_) | Err(_) => 0,
        };
    }
    0
}

/// Text for a reader. Bytes that are no UTF-8 become U+FFFD, one for each maximal part that looked like a beginning.
pub(super) fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_character_cut_at_any_place_is_unfinished_there() {
        for text in ["é", "€", "한", "😀", "a€", "€😀"] {
            let last = text.chars().last().unwrap().len_utf8();
            let before = text.len() - last;
            for cut in 0..=last {
                let expected = if cut == last { 0 } else { cut };
                assert_eq!(unfinished(&text.as_bytes()[..before + cut]), expected, "{text:?} cut after {cut}");
            }
        }
    }

    #[test]
    fn what_can_never_become_a_character_is_not_unfinished() {
        let hopeless: [&[u8]; 9] = [
            b"",
            b"\x80",
            b"\x80\x80\x80",
            b"\xff",
            b"\xc0",
            b"\xc1", // an overlong form, a surrogate, beyond U+10FFFF
            b"\xe0\x80",
            b"\xed\xa0",
            b"\xf4\x90",
        ];
        for bytes in hopeless {
            assert_eq!(unfinished(bytes), 0, "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_unfinished_can_be_finished_and_the_rest_cannot(bytes in proptest::collection::vec(any::<u8>(), 0..8)) {
            let len = unfinished(&bytes);
            let end = &bytes[bytes.len() - len..];
            let finishes = |more: &[u8]| std::str::from_utf8(&[end, more].concat()).is_ok();
            let all = || (0x80..=0xbf_u8).flat_map(|a| [vec![a], vec![a, 0x80], vec![a, 0x80, 0x80]]);
            prop_assert!(len == 0 || all().any(|more| finishes(&more)));
        }
    }
}
