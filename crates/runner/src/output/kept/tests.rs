//! Kept bytes against a model that keeps everything and knows for each byte whether it should be gone.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SELECTIONS: [StreamSelection; 3] = [StreamSelection::Combined, StreamSelection::Stdout, StreamSelection::Stderr];

struct Model {
    all: Vec<(Stream, u8)>,
    head: usize,
    output: usize,
}

impl Model {
    fn retained_from(&self) -> usize {
        self.all.len().saturating_sub(self.output)
    }

    /// A selection's bytes, each with whether it is kept.
    fn selected(&self, selection: StreamSelection) -> Vec<(u8, bool)> {
        let kept = |index| index < self.head || index >= self.retained_from();
        let wanted = label(selection);
        let all = self.all.iter().enumerate();
        all.filter(|(_, (stream, _))| wanted.is_none_or(|w| w == *stream))
            .map(|(i, (_, byte))| (*byte, kept(i)))
            .collect()
    }

    fn read(&self, wanted: &Wanted) -> Slice {
        let selected = self.selected(wanted.selection);
        let at = wanted.cursor as usize;
        let gone = |index: usize| selected.get(index).is_some_and(|(_, kept)| !kept);
        let piece = |from: usize, most: u64| {
            let kept = selected[from..].iter().take_while(|(_, kept)| *kept).map(|(byte, _)| *byte);
            kept.take(most as usize).collect::<Vec<u8>>()
        };
        let before = piece(at, wanted.max_bytes);
        let unfinished = if wanted.whole_characters { text::unfinished(&before) } else { 0 };
        if gone(at + before.len()) && unfinished < before.len() {
            // The rest of what is unfinished is gone: nobody waits for it.
            let bytes = before[..before.len() - unfinished].to_vec();
            return Slice { cursor: (at + before.len()) as u64, lost: false, bytes };
        }
        let mut from = at;
        while from < selected.len() && (gone(from) || (from == at && gone(at + before.len()))) {
            from += if from == at { before.len().max(1) } else { 1 };
        }
        let lost = from > at;
        if wanted.whole_characters && from > 0 && gone(from - 1) {
            from += text::rest(&piece(from, 4));
        }
        let mut bytes = piece(from, wanted.max_bytes);
        let is_end = wanted.closed && from + bytes.len() == selected.len();
        if wanted.whole_characters && !is_end {
            bytes.truncate(bytes.len() - text::unfinished(&bytes));
        }
        Slice { cursor: (from + bytes.len()) as u64, lost, bytes }
    }
}

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("a".as_bytes()),
        Just("é".as_bytes()),
        Just("한".as_bytes()),
        Just("😀".as_bytes()),
        Just(&b"\xff"[..]),
        Just(&b"\x80"[..]),
        Just(&b"\xf0\x9f"[..]),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn sizes() -> impl Strategy<Value = Sizes> {
    (0_u64..20, 1_usize..9, 1_u16..12, LEAST_BUDGET..20).prop_map(|(head_bytes, slab_bytes, block_bytes, overrun)| {
        Sizes { head_bytes, slab_bytes, block_bytes, overrun }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_read_is_the_models(
        sizes in sizes(),
        output_bytes in 0_u64..40,
        appends in vec((stream(), some_bytes()), 0..24),
        max_bytes in 4_u64..30,
        whole_characters: bool,
        closed: bool,
    ) {
        let mut kept = Kept::new(output_bytes, OnFull::Drop, sizes);
        let head = sizes.head_bytes.min(output_bytes) as usize;
        let mut model = Model { all: Vec::new(), head, output: output_bytes as usize };
        for (stream, bytes) in appends {
            kept.append(stream, &bytes);
            model.all.extend(bytes.iter().map(|byte| (stream, *byte)));

            for selection in SELECTIONS {
                let extent = kept.extent(selection);
                let total = model.selected(selection).len() as u64;
                prop_assert_eq!(extent.total, total);
                let before = &model.all[..model.retained_from()];
                let retained = before.iter().filter(|(s, _)| label(selection).is_none_or(|w| w == *s)).count();
                prop_assert_eq!(extent.retained_from, retained as u64);
                for cursor in 0..=total {
                    let wanted = Wanted { selection, cursor, max_bytes, whole_characters, closed };
                    prop_assert_eq!(kept.read(&wanted), model.read(&wanted), "{:?}", wanted);
                }
            }
        }
    }

    #[test]
    fn one_label_at_a_time_brings_the_same_bytes_and_says_whose_each_is(
        sizes in sizes(),
        output_bytes in 0_u64..40,
        appends in vec((stream(), some_bytes()), 0..24),
        max_bytes in 4_u64..30,
        whole_characters: bool,
        closed: bool,
        first in 0_u64..60,
    ) {
        let mut kept = Kept::new(output_bytes, OnFull::Drop, sizes);
        let mut all = Vec::new();
        for (stream, bytes) in appends {
            kept.append(stream, &bytes);
            all.extend(bytes.iter().map(|byte| (stream, *byte)));
        }
        let mut cursor = first.min(all.len() as u64);
        loop {
            let wanted = Wanted { selection: StreamSelection::Combined, cursor, max_bytes, whole_characters, closed };
            let (both, begin) = kept.look(&wanted);
            let (slice, stream) = kept.read_one_label(&wanted);
            prop_assert_eq!(slice.lost, both.lost);
            for (byte, place) in slice.bytes.iter().zip(begin..) {
                prop_assert_eq!((stream.unwrap(), *byte), all[place as usize]);
            }
            // Nobody waits in vain, and nothing is passed over but what a read of both passes over, too.
            prop_assert_eq!(slice.bytes.is_empty(), both.bytes.is_empty());
            prop_assert!(slice.cursor <= both.cursor);
            prop_assert!(slice.cursor == both.cursor || slice.cursor == begin + slice.bytes.len() as u64);
            if slice.cursor == cursor {
                break;
            }
            cursor = slice.cursor;
        }
    }

    #[test]
    fn a_label_that_is_read_loses_nothing_while_room_is_asked_for(
        sizes in sizes(),
        output_bytes in 0_u64..40,
        steps in vec((stream(), some_bytes(), 4_u64..30), 0..60),
        readers in prop_oneof![
            Just(&[StreamSelection::Combined][..]),
            Just(&[StreamSelection::Stdout][..]),
            Just(&[StreamSelection::Stdout, StreamSelection::Stderr][..]),
        ],
    ) {
        let mut kept = Kept::new(output_bytes, OnFull::Wait, sizes);
        let mut all = Vec::new();
        let mut read: Vec<(StreamSelection, u64, Vec<u8>)> = readers.iter().map(|r| (*r, 0, Vec::new())).collect();
        let drain = |kept: &mut Kept, selection, cursor: &mut u64, got: &mut Vec<u8>, max_bytes| {
            let slice = kept.read(&Wanted { selection, cursor: *cursor, max_bytes, whole_characters: false, closed: true });
            assert!(!slice.lost, "{selection:?} at {cursor}");
            *cursor = slice.cursor;
            got.extend(slice.bytes);
        };
        let turns = read.len();
        for (turn, (stream, bytes, max_bytes)) in steps.into_iter().enumerate() {
            let now = &bytes[..bytes.len().min(kept.room() as usize)];
            kept.append(stream, now);
            all.extend(now.iter().map(|byte| (stream, *byte)));
            let (selection, cursor, got) = &mut read[turn % turns];
            drain(&mut kept, *selection, cursor, got, max_bytes);
        }
        // Who was not read until now finds everything of its label too.
        if readers == [StreamSelection::Stdout] {
            read.push((StreamSelection::Stderr, 0, Vec::new()));
        }
        for (selection, mut cursor, mut got) in read {
            for _ in 0..=all.len() {
                drain(&mut kept, selection, &mut cursor, &mut got, 1000);
            }
            let expected: Vec<u8> = all.iter().filter(|(s, _)| label(selection).is_none_or(|w| w == *s)).map(|(_, b)| *b).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_drain_without_readers_keeps_no_more_than_the_overrun(
        sizes in sizes(),
        output_bytes in 0_u64..40,
        appends in vec((stream(), some_bytes()), 0..60),
    ) {
        let mut kept = Kept::new(output_bytes, OnFull::Wait, sizes);
        for (stream, bytes) in appends {
            kept.append(stream, &bytes);
            let most = output_bytes + sizes.overrun;
            let extent = kept.extent(StreamSelection::Combined);
            prop_assert!(extent.total - extent.tail_start <= most);
            for lane in [&kept.stdout, &kept.stderr] {
                prop_assert!(lane.end() - lane.start() <= most);
            }
        }
    }
}

#[test]
fn the_head_stays_and_a_read_never_joins_it_to_what_follows_the_gap() {
    let sizes = Sizes { head_bytes: 4, ..Sizes::DEFAULT };
    let mut kept = Kept::new(6, OnFull::Drop, sizes);
    kept.append(Stream::Stdout, b"0123456789abcdef");
    let mut read = |cursor| {
        let wanted = Wanted {
            selection: StreamSelection::Combined,
            cursor,
            max_bytes: 100,
            whole_characters: true,
            closed: true,
        };
        kept.read(&wanted)
    };
    assert_eq!(read(1), Slice { bytes: b"123".to_vec(), cursor: 4, lost: false });
    assert_eq!(read(4), Slice { bytes: b"abcdef".to_vec(), cursor: 16, lost: true });
    assert_eq!(read(12), Slice { bytes: b"cdef".to_vec(), cursor: 16, lost: false });
}

#[test]
fn of_a_character_that_the_gap_has_cut_a_reader_of_text_gets_nothing_and_a_reader_of_bytes_what_is_left() {
    let mut kept = Kept::new(5, OnFull::Drop, Sizes { head_bytes: 4, ..Sizes::DEFAULT });
    kept.append(Stream::Stdout, "ab€cde€ghi".as_bytes());
    let wanted = |cursor, whole_characters| Wanted {
        selection: StreamSelection::Combined,
        cursor,
        max_bytes: 100,
        whole_characters,
        closed: false,
    };
    let mut read = |cursor, text| kept.read(&wanted(cursor, text));
    assert_eq!(read(0, true), Slice { bytes: b"ab".to_vec(), cursor: 4, lost: false });
    assert_eq!(read(4, true), Slice { bytes: b"ghi".to_vec(), cursor: 14, lost: true });
    assert_eq!(read(9, true), Slice { bytes: b"ghi".to_vec(), cursor: 14, lost: false });
    assert_eq!(read(2, true), Slice { bytes: b"ghi".to_vec(), cursor: 14, lost: true }, "nothing before the gap");
    assert_eq!(read(0, false), Slice { bytes: b"ab\xe2\x82".to_vec(), cursor: 4, lost: false });
    assert_eq!(read(4, false), Slice { bytes: b"\x82\xacghi".to_vec(), cursor: 14, lost: true });
}

#[test]
fn a_budget_of_nothing_keeps_nothing_and_says_so() {
    let mut kept = Kept::new(0, OnFull::Drop, Sizes::DEFAULT);
    kept.append(Stream::Stderr, b"gone");
    let wanted = Wanted {
        selection: StreamSelection::Combined,
        cursor: 0,
        max_bytes: 100,
        whole_characters: true,
        closed: false,
    };
    assert_eq!(kept.read(&wanted), Slice { bytes: Vec::new(), cursor: 4, lost: true });
    assert_eq!(kept.read(&Wanted { cursor: 4, ..wanted }), Slice { bytes: Vec::new(), cursor: 4, lost: false });
    assert_eq!(kept.allocated() / (64 * 1024), 0);
}

#[test]
fn readers_who_wait_for_the_rest_of_characters_leave_room_for_it() {
    let mut kept = Kept::new(0, OnFull::Wait, Sizes::DEFAULT);
    for stream in [Stream::Stdout, Stream::Stderr] {
        assert!(kept.room() >= 3);
        kept.append(stream, b"\xf0\x9f\x98");
    }
    for selection in [StreamSelection::Stdout, StreamSelection::Stderr] {
        let wanted = Wanted { selection, cursor: 0, max_bytes: 100, whole_characters: true, closed: false };
        assert!(kept.read(&wanted).bytes.is_empty());
        assert!(kept.room() >= 1);
    }
    kept.append(Stream::Stderr, b"\x80");
    let selection = StreamSelection::Stderr;
    let wanted = Wanted { selection, cursor: 0, max_bytes: 100, whole_characters: true, closed: false };
    assert_eq!(kept.read(&wanted).bytes, "😀".as_bytes());
    assert_eq!(kept.room(), 4);
}
