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

/// How many bytes at the start can only be the rest of a character whose beginning is gone: 0 to 3.
pub(super) fn rest(bytes: &[u8]) -> usize {
    let len = bytes.iter().take_while(|byte| is_continuation(**byte)).count();
    // More than that belong to no character.
    if len <= LONGEST_BEGINNING { len } else { 0 }
}

/// How many of the bytes from `at` on belong to a character that begins before; 0 where none does.
pub(super) fn rest_of_character_at(bytes: &[u8], at: usize) -> usize {
    let beginnings = (1..=LONGEST_BEGINNING.min(at)).map(|len| at - len);
    for begin in beginnings {
        if is_continuation(bytes[begin]) {
            continue;
        }
        let ends = at + 1..=bytes.len().min(begin + LONGEST_BEGINNING + 1);
        let end = ends
            .into_iter()
            .find(|end| std::str::from_utf8(&bytes[begin..*end]).is_ok_and(|text| text.chars().nth(1).is_none()));
        return end.map_or(0, |end| end - at);
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

    #[test]
    fn the_rest_of_a_character_is_known_where_its_beginning_is_gone_and_where_it_is_not() {
        for text in ["é", "€", "한", "😀"] {
            let bytes = text.as_bytes();
            for cut in 1..bytes.len() {
                let left = [&bytes[cut..], b"a\x80"].concat();
                assert_eq!(rest(&left), bytes.len() - cut, "{text:?} cut after {cut}");
                let whole = [b"a", bytes, b"\x80"].concat();
                assert_eq!(rest_of_character_at(&whole, 1 + cut), bytes.len() - cut, "{text:?} at {cut}");
            }
            assert_eq!(rest(bytes), 0);
            assert_eq!(rest_of_character_at(bytes, 0), 0);
            assert_eq!(rest_of_character_at(bytes, bytes.len()), 0);
        }
        assert_eq!(rest(b"\x80\x80\x80\x80"), 0, "no character is that long");
        for (hopeless, at) in [(&b"\xff\x80"[..], 1), (b"\xe2\x82", 1), (b"a\x80", 1), (b"\x80\x80", 1)] {
            assert_eq!(rest_of_character_at(hopeless, at), 0, "{hopeless:x?}");
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
