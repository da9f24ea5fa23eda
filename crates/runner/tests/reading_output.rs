//! What a reader gets of a command's output: whole characters or exact bytes, from wherever it reads, and never less than
//! it is told.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{
    Encoding, ErrorCode, ExecRequest, OnFull, ProcessId, ReadReply, ReadRequest, State, StatusRequest, StreamSelection,
};
use codespace_testkit::fixture::{Fixture, ask};

const FOR_EVER: u64 = u64::MAX;

async fn read(fixture: &Fixture, request: ReadRequest) -> ReadReply {
    fixture.session.read_process(request).await.expect("output")
}

/// Reads to the end in pieces; says also whether something was lost.
async fn read_all(fixture: &Fixture, first: ReadRequest) -> (String, bool) {
    let (mut all, mut lost, mut cursor) = (String::new(), false, first.cursor);
    loop {
        let reply = read(fixture, ReadRequest { cursor, wait_ms: FOR_EVER, ..first.clone() }).await;
        all.push_str(&reply.chunk);
        (lost, cursor) = (lost || reply.output_lost, reply.cursor);
        if reply.eof {
            return (all, lost);
        }
    }
}

async fn ended(fixture: &Fixture, request: ExecRequest) -> ProcessId {
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    ask::ended(&fixture.session, id).await;
    id
}

/// Writes a character that many times.
fn many(character: &str, times: usize) -> ExecRequest {
    ask::shell(&format!("yes {character} | head -n {times} | tr -d '\\n'"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_whole_on_both_sides_of_what_is_lost() {
    let Some(fixture) = Fixture::start().await else { return };
    for character in ["é", "한", "😀"] {
        for output_bytes in [1, 7, 65_537, 100_001] {
            let request = ExecRequest { output_bytes: Some(output_bytes), ..many(character, 100_000) };
            let id = ended(&fixture, request).await;
            let (text, lost) = read_all(&fixture, ReadRequest { max_bytes: 1000, ..ReadRequest::new(id) }).await;
            assert!(lost, "{character} {output_bytes}");
            let other = text.chars().find(|c| !character.contains(*c));
            assert_eq!(other, None, "{character} {output_bytes}");
            // Who asks for the bytes gets every one that is kept.
            let status = fixture.session.process_status(StatusRequest { process_id: id, wait_ms: 0 }).await.unwrap();
            let cursor = status.output_retained_from;
            let request = ReadRequest { cursor, encoding: Encoding::Base64, ..ReadRequest::new(id) };
            let bytes = read(&fixture, ReadRequest { max_bytes: 1 << 20, ..request }).await;
            assert_eq!((bytes.cursor - cursor, bytes.output_lost), (output_bytes, false), "{character}");
        }
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_character_is_whole_however_it_was_written_and_however_it_is_read() {
    let Some(fixture) = Fixture::start().await else { return };
    // Byte by byte on both labels in turns; a lone beginning at the end is no character.
    let script = "printf '\\342'; printf '\\303' >&2; sleep 0.1; printf '\\211'; printf '\\251' >&2; sleep 0.1; \
                  printf '\\244\\377'; printf 'x\\360\\237' >&2";
    let id = fixture.session.exec(ask::shell(script)).await.expect("a start").process_id;
    for (stream, expected) in [(StreamSelection::Stdout, "≤\u{fffd}"), (StreamSelection::Stderr, "éx\u{fffd}")] {
        let request = ReadRequest { stream, max_bytes: 4, ..ReadRequest::new(id) };
        assert_eq!(read_all(&fixture, request).await, (expected.to_owned(), false), "{stream:?}");
    }
    // A tail begins with the first whole character within it.
    let id = ended(&fixture, ask::shell("printf 'aé한😀'")).await;
    for (tail_bytes, expected) in [(0, ""), (3, ""), (4, "😀"), (6, "😀"), (7, "한😀"), (9, "é한😀"), (99, "aé한😀")]
    {
        let reply = read(&fixture, ReadRequest { tail_bytes: Some(tail_bytes), ..ReadRequest::new(id) }).await;
        assert_eq!((reply.chunk.as_str(), reply.eof, reply.output_lost), (expected, true, false), "{tail_bytes}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_of_any_length_returns_with_the_first_byte_or_the_end() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let id = session.exec(ask::shell("sleep 0.2; echo one; sleep 0.2; echo two")).await.expect("a start").process_id;
    let waiting = ReadRequest { wait_ms: FOR_EVER, ..ReadRequest::new(id) };
    let none = read(&fixture, ReadRequest { wait_ms: 0, ..waiting.clone() }).await;
    assert_eq!((none.chunk.as_str(), none.cursor, none.eof, none.state), ("", 0, false, State::Running));
    let first = read(&fixture, waiting.clone()).await;
    assert_eq!((first.chunk.as_str(), first.eof), ("one\n", false));
    // Who waits at the end gets what comes next.
    let next = read(&fixture, ReadRequest { tail_bytes: Some(0), ..waiting.clone() }).await;
    assert_eq!(next.chunk, "two\n");
    let end = read(&fixture, ReadRequest { cursor: next.cursor, ..waiting }).await;
    assert_eq!((end.chunk.as_str(), end.cursor, end.eof), ("", next.cursor, true));
    let status = session.process_status(StatusRequest { process_id: id, wait_ms: FOR_EVER }).await.unwrap();
    assert_eq!(status.state, State::Exited);

    let request = ExecRequest { wait_ms: FOR_EVER, ..ask::shell("sleep 0.2; echo early") };
    let reply = session.exec(request).await.expect("a start");
    let output = reply.output.expect("output");
    assert_eq!((output.chunk.as_str(), output.eof), ("early\n", true));
    assert_eq!(reply.status.expect("a status").state, State::Exited);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_cannot_be_answered_says_why() {
    let Some(fixture) = Fixture::start().await else { return };
    let id = ended(&fixture, ask::shell("printf 12345; printf 678 >&2")).await;
    let request = ReadRequest::new(id);
    let bad = [
        (ReadRequest { cursor: 9, ..request.clone() }, ErrorCode::CursorOutOfRange),
        (ReadRequest { cursor: u64::MAX, wait_ms: FOR_EVER, ..request.clone() }, ErrorCode::CursorOutOfRange),
        (ReadRequest { cursor: 6, stream: StreamSelection::Stdout, ..request.clone() }, ErrorCode::CursorOutOfRange),
        (ReadRequest { cursor: 4, stream: StreamSelection::Stderr, ..request.clone() }, ErrorCode::CursorOutOfRange),
        (ReadRequest { max_bytes: 3, ..request.clone() }, ErrorCode::InvalidCommand),
        (ReadRequest { max_bytes: 0, ..request.clone() }, ErrorCode::InvalidCommand),
    ];
    for (request, code) in bad {
        let error = fixture.session.read_process(request.clone()).await.expect_err("a refusal");
        assert_eq!((error.code, error.process_id), (code, Some(id)), "{request:?}: {error:?}");
    }
    for (stream, end) in [(StreamSelection::Combined, 8), (StreamSelection::Stdout, 5), (StreamSelection::Stderr, 3)] {
        let reply = read(&fixture, ReadRequest { cursor: end, stream, max_bytes: u64::MAX, ..request.clone() }).await;
        assert_eq!((reply.chunk.as_str(), reply.eof, reply.total), ("", true, end), "{stream:?}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_labels_keep_their_order_and_the_end_of_a_failed_build_is_there() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "for i in 1 2 3 4; do echo out$i; sleep 0.06; echo err$i >&2; sleep 0.06; done";
    let (_, output) = ask::run(&fixture.session, ask::shell(script)).await;
    assert_eq!(output, "out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\n");

    let id = ended(&fixture, ask::shell("seq 1 500000; sleep 0.1; echo 'error: it failed' >&2; exit 1")).await;
    let (output, lost) = read_all(&fixture, ReadRequest { max_bytes: 1 << 20, ..ReadRequest::new(id) }).await;
    assert!(lost && output.starts_with("1\n2\n3\n") && output.ends_with("\n500000\nerror: it failed\n"));
    // Head, gap, latest: never in one chunk, and the loss is told where it is.
    let head = read(&fixture, ReadRequest { max_bytes: 1 << 20, ..ReadRequest::new(id) }).await;
    assert_eq!((head.cursor, head.output_lost, head.eof), (64 << 10, false, false));
    let behind = ReadRequest { cursor: head.cursor, max_bytes: 2 << 20, ..ReadRequest::new(id) };
    let behind = read(&fixture, behind).await;
    assert_eq!((behind.output_lost, behind.eof, behind.cursor), (true, true, behind.total));
    assert_eq!(behind.total - behind.retained_from, 1 << 20);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_waits_for_its_reader_loses_no_byte() {
    use std::fs;
    let Some(fixture) = Fixture::start().await else { return };
    let script = "head -c 33000000 /dev/urandom > bytes; cat bytes & cat bytes >&2; wait";
    let request = ExecRequest { on_full: OnFull::Wait, output_bytes: Some(65_536), ..ask::shell(script) };
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    let expected = {
        let read_stream = |stream| {
            let fixture = &fixture;
            async move {
                let (mut all, mut cursor) = (Vec::new(), 0);
                loop {
                    let request = ReadRequest { cursor, stream, wait_ms: FOR_EVER, ..ReadRequest::new(id) };
                    let request = ReadRequest { encoding: Encoding::Base64, max_bytes: 2 << 20, ..request };
                    let reply = read(fixture, request).await;
                    assert!(!reply.output_lost, "{stream:?} at {cursor}");
                    all.extend(
                        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, reply.chunk).unwrap(),
                    );
                    cursor = reply.cursor;
                    if reply.eof {
                        return all;
                    }
                }
            }
        };
        let began = Instant::now();
        let both = tokio::join!(read_stream(StreamSelection::Stdout), read_stream(StreamSelection::Stderr));
        assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
        both
    };
    let bytes = fs::read(fixture.workspace().join("bytes")).unwrap();
    assert!(expected.0 == bytes, "stdout differs: {} of {} bytes", expected.0.len(), bytes.len());
    assert!(expected.1 == bytes, "stderr differs: {} of {} bytes", expected.1.len(), bytes.len());
    fixture.end().await;
}
