//! Reading, waiting and room. A future that "still waits" has been polled and was not ready; nothing sleeps for luck.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use codespace_domain::ProcessId;

use super::*;

const FAR: u64 = 600_000;

fn journal() -> Journal {
    Journal::new(1024 * 1024, OnFull::Drop)
}

fn request() -> ReadRequest {
    ReadRequest::new(ProcessId::mint())
}

fn waiting(stream: StreamSelection, cursor: u64) -> ReadRequest {
    ReadRequest { stream, cursor, wait_ms: FAR, ..request() }
}

async fn text(journal: &Journal, request: &ReadRequest) -> (String, u64, bool) {
    let chunk = journal.read(request).await.unwrap();
    (chunk.chunk, chunk.cursor, chunk.eof)
}

/// Polls once, without a waker: for "is it ready by now".
fn now<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn bytes_come_in_the_order_of_their_arrival_and_by_label() {
    let journal = journal();
    for (stream, bytes) in [(Stream::Stdout, "one "), (Stream::Stderr, "two "), (Stream::Stdout, "three")] {
        journal.append(stream, bytes.as_bytes());
    }
    assert_eq!(text(&journal, &request()).await, ("one two three".into(), 13, false));
    let of = |stream| ReadRequest { stream, ..request() };
    assert_eq!(text(&journal, &of(StreamSelection::Stdout)).await, ("one three".into(), 9, false));
    assert_eq!(text(&journal, &of(StreamSelection::Stderr)).await, ("two ".into(), 4, false));
    assert_eq!(journal.totals(), Totals { total: 13, retained_from: 0, eof: false });
    journal.close();
    journal.close();
    assert_eq!(text(&journal, &request()).await, ("one two three".into(), 13, true));
    journal.append(Stream::Stdout, b"too late");
    assert_eq!(journal.totals(), Totals { total: 13, retained_from: 0, eof: true });
}

#[tokio::test]
async fn the_end_is_told_only_by_the_read_that_reaches_it() {
    let journal = journal();
    journal.append(Stream::Stdout, b"123456");
    journal.close();
    let first = ReadRequest { max_bytes: 4, ..request() };
    assert_eq!(text(&journal, &first).await, ("1234".into(), 4, false));
    assert_eq!(text(&journal, &ReadRequest { cursor: 4, ..first }).await, ("56".into(), 6, true));
    assert_eq!(text(&journal, &waiting(StreamSelection::Stderr, 0)).await, (String::new(), 0, true));
}

#[tokio::test]
async fn a_read_that_cannot_be_answered_is_refused_at_once() {
    let journal = journal();
    journal.append(Stream::Stdout, b"12345");
    let past = waiting(StreamSelection::Combined, 6);
    assert_eq!(journal.read(&past).await, Err(ReadError::PastEnd { cursor: 6, total: 5 }));
    let past = waiting(StreamSelection::Stderr, 1);
    assert_eq!(journal.read(&past).await, Err(ReadError::PastEnd { cursor: 1, total: 0 }));
    let small = ReadRequest { max_bytes: 3, ..request() };
    assert_eq!(journal.read(&small).await, Err(ReadError::MaxBytesTooSmall { max_bytes: 3 }));
}

#[tokio::test]
async fn a_character_is_never_split_however_it_is_cut() {
    let whole = "aé€한😀z";
    for cut in 0..=whole.len() {
        let journal = journal();
        journal.append(Stream::Stdout, &whole.as_bytes()[..cut]);
        let (before, cursor, _) = text(&journal, &request()).await;
        assert!(whole.starts_with(&before) && cursor == before.len() as u64, "cut at {cut}");
        assert!(cut as u64 - cursor < 4);
        journal.append(Stream::Stdout, &whole.as_bytes()[cut..]);
        let (after, _, _) = text(&journal, &ReadRequest { cursor, ..request() }).await;
        assert_eq!(before + &after, whole);
    }
    // By max_bytes.
    let journal = journal();
    journal.append(Stream::Stdout, whole.as_bytes());
    for max_bytes in 4..20 {
        let (mut all, mut cursor) = (String::new(), 0);
        while cursor < whole.len() as u64 {
            let (chunk, next, _) = text(&journal, &ReadRequest { cursor, max_bytes, ..request() }).await;
            assert!(next > cursor && next - cursor <= max_bytes);
            (all, cursor) = (all + &chunk, next);
        }
        assert_eq!(all, whole);
    }
}

#[tokio::test]
async fn a_reader_waits_for_the_rest_of_a_character_and_gets_what_there_is_at_the_end() {
    let journal = journal();
    journal.append(Stream::Stdout, b"\xe2\x82");
    assert_eq!(text(&journal, &request()).await, (String::new(), 0, false));
    let raw = ReadRequest { encoding: Encoding::Base64, ..request() };
    assert_eq!(text(&journal, &raw).await, ("4oI=".into(), 2, false));

    let request = waiting(StreamSelection::Combined, 0);
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.append(Stream::Stdout, b"\xac");
    assert_eq!(read.await.unwrap().chunk, "€");

    journal.append(Stream::Stdout, b"\xe2\x82");
    let request = waiting(StreamSelection::Combined, 3);
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.close();
    let chunk = read.await.unwrap();
    assert_eq!((chunk.chunk.as_str(), chunk.cursor, chunk.eof), ("\u{fffd}", 5, true));
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_a_byte_of_its_stream_and_by_no_other() {
    let journal = journal();
    let request = waiting(StreamSelection::Stdout, 0);
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.append(Stream::Stderr, b"not for you");
    assert!(now(read.as_mut()).is_pending());
    journal.append(Stream::Stdout, b"x");
    let chunk = read.await.unwrap();
    assert_eq!((chunk.chunk.as_str(), chunk.cursor, chunk.total), ("x", 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_between_two_threads() {
    let journal = journal();
    let writer = tokio::spawn({
        let journal = journal.clone();
        async move {
            for n in 0_u32..20_000 {
                journal.append(if n % 3 == 0 { Stream::Stderr } else { Stream::Stdout }, b"x");
            }
            journal.close();
        }
    });
    let mut cursor = 0;
    loop {
        let chunk = journal.read(&waiting(StreamSelection::Combined, cursor)).await.unwrap();
        assert!(chunk.cursor > cursor || chunk.eof);
        cursor = chunk.cursor;
        if chunk.eof {
            break;
        }
    }
    assert_eq!(cursor, 20_000);
    writer.await.unwrap();
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_the_end() {
    let journal = journal();
    let request = waiting(StreamSelection::Stderr, 0);
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.close();
    assert!(read.await.unwrap().eof);
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_up() {
    let journal = journal();
    let request = ReadRequest { wait_ms: 20, ..request() };
    let begin = Instant::now();
    assert_eq!(text(&journal, &request).await, (String::new(), 0, false));
    assert!(begin.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn a_wait_without_end_is_woken_too() {
    let journal = journal();
    let request = ReadRequest { wait_ms: u64::MAX, ..request() };
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.append(Stream::Stdout, b"x");
    assert_eq!(read.await.unwrap().chunk, "x");
}

#[tokio::test]
async fn a_tail_is_the_last_bytes_of_what_there_is() {
    let journal = Journal::new(100, OnFull::Drop);
    let tail = |tail_bytes| ReadRequest { tail_bytes: Some(tail_bytes), cursor: 999, ..request() };
    journal.append(Stream::Stdout, b"0123456789");
    assert_eq!(text(&journal, &tail(4)).await, ("6789".into(), 10, false));
    assert_eq!(text(&journal, &tail(99)).await, ("0123456789".into(), 10, false));
    assert_eq!(text(&journal, &tail(0)).await, (String::new(), 10, false));

    journal.append(Stream::Stdout, &[b'.'; 290]);
    let chunk = journal.read(&tail(1000)).await.unwrap();
    assert_eq!((chunk.chunk.len(), chunk.output_lost, chunk.retained_from), (100, true, 200));
    let chunk = journal.read(&tail(100)).await.unwrap();
    assert_eq!((chunk.chunk.len(), chunk.output_lost), (100, false));
}

#[tokio::test]
async fn who_looks_at_the_tail_alone_has_not_read_what_lies_before_it() {
    let journal = Journal::new(1000, OnFull::Wait);
    journal.append(Stream::Stdout, &[b'x'; 600]);
    let tail = |tail_bytes| ReadRequest { tail_bytes: Some(tail_bytes), ..request() };
    assert_eq!(journal.read(&tail(100)).await.unwrap().chunk.len(), 100);
    assert_eq!(journal.room(2000).await.bytes(), 400, "what was skipped still waits for its reader");
    assert_eq!(journal.read(&tail(600)).await.unwrap().chunk.len(), 600);
    assert_eq!(journal.room(2000).await.bytes(), 1000, "a tail that skips nothing is a read");
    journal.append(Stream::Stdout, &[b'y'; 300]);
    assert_eq!(journal.read(&ReadRequest { cursor: 600, ..request() }).await.unwrap().chunk.len(), 300);
    assert_eq!(journal.room(2000).await.bytes(), 1000);
}

#[tokio::test]
async fn who_only_peeks_sees_all_and_has_read_nothing() {
    let journal = Journal::new(10, OnFull::Wait);
    journal.append(Stream::Stdout, b"0123456789");
    let mut room = pin!(journal.room(50));
    for peek in [
        ReadRequest { peek: true, ..request() },
        ReadRequest { peek: true, tail_bytes: Some(10), ..request() },
        ReadRequest { peek: true, wait_ms: FAR, ..request() },
    ] {
        assert_eq!(text(&journal, &peek).await, ("0123456789".into(), 10, false));
        assert!(now(room.as_mut()).is_pending(), "{peek:?} made room");
    }
    assert_eq!(journal.read(&request()).await.unwrap().cursor, 10);
    assert_eq!(room.await.bytes(), 10);
}

#[tokio::test]
async fn a_tail_of_text_begins_with_a_whole_character_and_a_tail_of_bytes_where_it_was_asked_to() {
    let journal = journal();
    journal.append(Stream::Stdout, "é€".as_bytes());
    for (tail_bytes, expected) in [(5, "é€"), (4, "€"), (3, "€"), (2, ""), (1, "")] {
        let request = ReadRequest { tail_bytes: Some(tail_bytes), ..request() };
        assert_eq!(text(&journal, &request).await, (expected.into(), 5, false), "{tail_bytes}");
    }
    let bytes = ReadRequest { tail_bytes: Some(2), encoding: Encoding::Base64, ..request() };
    assert_eq!(text(&journal, &bytes).await.0, "gqw=");
}

#[tokio::test]
async fn a_reader_who_waits_at_the_tail_gets_what_comes_next() {
    let journal = journal();
    journal.append(Stream::Stdout, b"before");
    let request = ReadRequest { tail_bytes: Some(0), wait_ms: FAR, ..request() };
    let mut read = pin!(journal.read(&request));
    assert!(now(read.as_mut()).is_pending());
    journal.append(Stream::Stdout, b"after");
    let chunk = read.await.unwrap();
    assert_eq!((chunk.chunk.as_str(), chunk.cursor), ("after", 11));
}

#[tokio::test]
async fn what_is_lost_is_told_once_and_reading_goes_on() {
    let journal = Journal::new(HEAD, OnFull::Drop);
    for n in 0..40_000_u32 {
        journal.append(Stream::Stdout, format!("{n:07}\n").as_bytes());
    }
    journal.close();
    let total = 320_000;
    let read = |cursor| ReadRequest { cursor, max_bytes: 1_000_000, ..request() };
    let head = journal.read(&read(0)).await.unwrap();
    assert_eq!((head.cursor, head.output_lost, head.retained_from), (HEAD, false, total - HEAD));
    assert!(head.chunk.starts_with("0000000\n"));
    let rest = journal.read(&read(head.cursor)).await.unwrap();
    assert_eq!((rest.cursor, rest.output_lost, rest.eof), (total, true, true));
    assert_eq!(rest.chunk.len() as u64, HEAD);
    assert!(rest.chunk.ends_with("0039999\n"));
}

const HEAD: u64 = 64 * 1024;

#[test]
fn a_flood_keeps_memory_bounded() {
    const BUDGET: u64 = 1024 * 1024;
    for (name, len, labels, most) in [
        // One label: head, budget, one slab at each end of the tail, and little else.
        ("large appends", 50_000, 1, HEAD + BUDGET + 3 * 64 * 1024),
        ("single bytes", 1, 1, HEAD + BUDGET + 3 * 64 * 1024),
        ("large appends of two labels", 50_000, 2, HEAD + BUDGET + 6 * 64 * 1024),
        // The worst: each byte is a run, of 4 bytes.
        ("single bytes of two labels", 1, 2, 5 * (HEAD + BUDGET) + 12 * 64 * 1024),
    ] {
        let journal = Journal::new(BUDGET, OnFull::Drop);
        let bytes = vec![b'x'; len];
        let mut most_seen = 0;
        for n in 0..50_000_000 / len / if len == 1 { 20 } else { 1 } {
            journal.append(if n % labels == 0 { Stream::Stdout } else { Stream::Stderr }, &bytes);
            if n % (1 + 500_000 / len) == 0 {
                most_seen = most_seen.max(journal.allocated());
            }
        }
        assert!(most_seen as u64 <= most, "{name}: {most_seen} bytes, expected at most {most}");
    }
}

#[test]
fn a_short_output_takes_little_memory() {
    let journal = journal();
    assert_eq!(journal.allocated(), 0);
    journal.append(Stream::Stdout, b"hello\n");
    assert!(journal.allocated() < 1024, "{}", journal.allocated());
}

#[tokio::test]
async fn there_is_always_room_when_old_output_is_dropped() {
    let journal = Journal::new(10, OnFull::Drop);
    journal.append(Stream::Stdout, &[b'x'; 100]);
    assert_eq!(journal.room(50).await.bytes(), 50);
}

#[tokio::test]
async fn room_blocks_while_the_budget_is_unread_and_resumes_with_a_read() {
    let journal = Journal::new(10, OnFull::Wait);
    assert_eq!(journal.room(50).await.bytes(), 10);
    journal.append(Stream::Stdout, b"01234567");
    let first = journal.room(50).await;
    assert_eq!(first.bytes(), 2);
    // The same room is not given twice.
    let mut second = pin!(journal.room(50));
    assert!(now(second.as_mut()).is_pending());
    journal.append(Stream::Stderr, b"89");
    drop(first);
    assert!(now(second.as_mut()).is_pending());

    text(&journal, &ReadRequest { max_bytes: 4, ..request() }).await;
    assert_eq!(second.await.bytes(), 4);
}

#[tokio::test]
async fn what_the_two_labels_readers_were_given_makes_room_together() {
    let journal = Journal::new(10, OnFull::Wait);
    journal.append(Stream::Stdout, b"01234");
    journal.append(Stream::Stderr, b"56789");
    let mut room = pin!(journal.room(50));
    assert!(now(room.as_mut()).is_pending());
    let of = |stream| ReadRequest { stream, ..request() };
    text(&journal, &of(StreamSelection::Stderr)).await;
    assert_eq!(journal.room(50).await.bytes(), 5);
    text(&journal, &of(StreamSelection::Stdout)).await;
    assert_eq!(room.await.bytes(), 10);
}

#[tokio::test]
async fn what_nobody_has_read_survives_a_drain_beyond_the_budget() {
    let journal = Journal::new(10, OnFull::Wait);
    journal.append(Stream::Stdout, &[b'x'; 500_000]);
    journal.close();
    let chunk = journal.read(&ReadRequest { max_bytes: 1_000_000, ..request() }).await.unwrap();
    assert_eq!((chunk.chunk.len(), chunk.output_lost, chunk.eof), (500_000, false, true));
}

#[test]
fn what_is_printed_for_debugging_holds_no_output() {
    let journal = journal();
    journal.append(Stream::Stdout, b"secret");
    assert_eq!(format!("{journal:?}"), "Journal(Totals { total: 6, retained_from: 0, eof: false })");
}
