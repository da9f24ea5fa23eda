//! Pumps on real pipes and terminals. Every wait is for a condition.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use codespace_domain::{OnFull, ProcessId, ReadRequest, StreamSelection};
use codespace_pty::{Pty, Size};
use nix::unistd::pipe;

use super::super::pumps::Pumps;
use super::*;

const LONG: Duration = Duration::from_secs(60);

fn journal() -> Journal {
    Journal::new(16 * 1024 * 1024, OnFull::Drop)
}

fn start(stream: Stream, journal: &Journal) -> (File, Pump) {
    let (reader, writer) = pipe().unwrap();
    (writer.into(), Pump::start(reader, stream, journal.clone(), ()).unwrap())
}

fn reading(cursor: u64) -> ReadRequest {
    ReadRequest { cursor, wait_ms: 60_000, max_bytes: 1_000_000, ..ReadRequest::new(ProcessId::mint()) }
}

/// All of the combined output, once `total` bytes are there.
async fn text(journal: &Journal, total: usize) -> String {
    let (mut all, mut cursor) = (String::new(), 0);
    while cursor < total as u64 {
        let chunk = journal.read(&reading(cursor)).await.unwrap();
        assert!(!chunk.output_lost);
        all += &chunk.chunk;
        cursor = chunk.cursor;
    }
    all
}

#[tokio::test]
async fn a_pipe_is_read_to_its_end() {
    let journal = journal();
    let (mut writer, mut pump) = start(Stream::Stderr, &journal);
    let expected = "0123456789".repeat(100_000);
    let written = tokio::task::spawn_blocking({
        let expected = expected.clone();
        move || writer.write_all(expected.as_bytes())
    });
    assert!(matches!(pump.ended().await, PumpEnd::Eof));
    assert!(matches!(pump.ended().await, PumpEnd::Eof), "the end can be asked for again");
    written.await.unwrap().unwrap();
    assert_eq!(text(&journal, expected.len()).await, expected);
    let stdout = ReadRequest { stream: StreamSelection::Stdout, wait_ms: 0, ..reading(0) };
    assert_eq!(journal.read(&stdout).await.unwrap().total, 0);
    assert!(!journal.totals().eof, "a pump does not close the journal");
}

#[tokio::test]
async fn a_terminal_ends_with_all_that_was_written_before() {
    let journal = journal();
    let pty = Pty::open(Size { rows: 24, cols: 80 }).unwrap();
    let mut slave = File::from(pty.slave);
    let mut pump = Pump::start(pty.master, Stream::Stdout, journal.clone(), ()).unwrap();
    let written = tokio::task::spawn_blocking(move || {
        for n in 0..5000 {
            writeln!(slave, "line {n}").unwrap();
        }
    });
    assert!(matches!(pump.ended().await, PumpEnd::Eof));
    written.await.unwrap();
    let expected: String = (0..5000).map(|n| format!("line {n}\r\n")).collect();
    assert_eq!(text(&journal, expected.len()).await, expected);
}

#[tokio::test]
async fn two_labels_never_cut_into_each_others_characters() {
    let journal = journal();
    let (mut out, _out_pump) = start(Stream::Stdout, &journal);
    let (mut err, _err_pump) = start(Stream::Stderr, &journal);
    let euro = "€".as_bytes();
    out.write_all(b"a").unwrap();
    text(&journal, 1).await;
    out.write_all(&euro[..2]).unwrap();
    err.write_all(b"b").unwrap();
    text(&journal, 2).await;
    out.write_all(&euro[2..]).unwrap();
    assert_eq!(text(&journal, 5).await, "ab€");
}

#[tokio::test]
async fn the_beginning_of_a_character_is_let_go_in_time_and_at_the_end() {
    let journal = journal();
    let (mut writer, mut pump) = start(Stream::Stdout, &journal);
    let raw = |cursor| ReadRequest { encoding: codespace_domain::Encoding::Base64, ..reading(cursor) };
    let begin = Instant::now();
    writer.write_all(b"\xf0\x9f").unwrap();
    let chunk = journal.read(&raw(0)).await.unwrap();
    assert_eq!((chunk.chunk.as_str(), chunk.cursor), ("8J8=", 2));
    assert!(begin.elapsed() >= HOLD, "it was held back");

    writer.write_all(b"\xf0\x9f").unwrap();
    drop(writer);
    assert!(matches!(pump.ended().await, PumpEnd::Eof));
    assert_eq!(journal.totals().total, 4);
}

#[test]
fn what_cannot_become_a_character_is_not_held_back() {
    let journal = journal();
    let (reader, writer) = pipe().unwrap();
    let mut sink = Sink::new(Stream::Stdout, journal.clone(), false);
    for (bytes, held) in [(&b"\xff\xc0\x80"[..], 0), (b"\xf0\x9f", 2), (b"\x98", 3), (b"x", 0)] {
        nix::unistd::write(&writer, bytes).unwrap();
        assert!(matches!(sink.take(reader.as_fd(), READ_BYTES), Took::Bytes(len) if len == bytes.len()));
        assert_eq!((sink.held, sink.held_until.is_some()), (held, held > 0), "after {bytes:x?}");
    }
    assert_eq!(journal.totals().total, 7);
}

#[tokio::test]
async fn a_full_journal_stops_the_pump_until_it_is_read() {
    let journal = Journal::new(100_000, OnFull::Wait);
    let (mut writer, mut pump) = start(Stream::Stdout, &journal);
    let expected = "x".repeat(1_000_000);
    let written = tokio::task::spawn_blocking({
        let expected = expected.clone();
        move || writer.write_all(expected.as_bytes())
    });
    let mut cursor = 0;
    while cursor < 1_000_000 {
        let chunk = journal.read(&reading(cursor)).await.unwrap();
        assert!(!chunk.output_lost);
        assert!(chunk.total - cursor <= 100_000, "{} bytes are unread", chunk.total - cursor);
        cursor = chunk.cursor;
    }
    assert!(matches!(pump.ended().await, PumpEnd::Eof));
    written.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_drain_ignores_the_budget_and_loses_nothing() {
    let journal = Journal::new(10, OnFull::Wait);
    let (mut writer, mut pump) = start(Stream::Stdout, &journal);
    writer.write_all(&[b'x'; 50_000]).unwrap();
    drop(writer);
    while journal.totals().total < 10 {
        yield_now().await;
    }
    assert_eq!(journal.totals().total, 10, "the pump waits");
    pump.drain(LONG);
    assert!(matches!(pump.ended().await, PumpEnd::Eof));
    assert_eq!(text(&journal, 50_000).await.len(), 50_000);
}

#[tokio::test]
async fn a_drain_gives_up_on_a_descriptor_that_somebody_else_holds() {
    let journal = journal();
    let (mut writer, mut pump) = start(Stream::Stdout, &journal);
    writer.write_all(b"the tree's").unwrap();
    let deadline = Duration::from_millis(50);
    let begin = Instant::now();
    pump.drain(deadline);
    assert!(matches!(pump.ended().await, PumpEnd::GaveUp));
    assert!(begin.elapsed() >= deadline);
    assert_eq!(text(&journal, 10).await, "the tree's");
}

#[tokio::test]
async fn a_drain_reads_what_is_there_even_when_its_deadline_has_passed() {
    for held in [false, true] {
        let journal = journal();
        let (mut writer, mut pump) = start(Stream::Stdout, &journal);
        writer.write_all(&[b'x'; 60_000]).unwrap();
        let holder = held.then(|| writer.try_clone().unwrap());
        drop(writer);
        pump.drain(Duration::ZERO);
        let end = pump.ended().await;
        assert_eq!(matches!(end, PumpEnd::GaveUp), holder.is_some(), "{end:?}");
        assert_eq!(journal.totals().total, 60_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_gives_up_on_somebody_who_never_stops_to_write() {
    let journal = Journal::new(1000, OnFull::Drop);
    let (mut writer, mut pump) = start(Stream::Stdout, &journal);
    let flood = std::thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    text_is_coming(&journal).await;
    pump.drain(Duration::from_millis(50));
    assert!(matches!(pump.ended().await, PumpEnd::GaveUp));
    // The pump's side is closed by now, so the writer has failed.
    tokio::task::spawn_blocking(|| flood.join()).await.unwrap().unwrap();
}

async fn text_is_coming(journal: &Journal) {
    while journal.totals().total == 0 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_pump_closes_its_descriptor() {
    let journal = journal();
    let (mut writer, pump) = start(Stream::Stdout, &journal);
    drop(pump);
    while writer.write_all(b"x").is_ok() {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_descriptor_that_cannot_be_waited_for_is_refused() {
    let regular = tempfile::tempfile().unwrap();
    assert!(Pump::start(regular.into(), Stream::Stdout, journal(), ()).is_err());
}

#[test]
fn a_failure_to_read_is_an_error_and_no_end_of_file() {
    let (_reader, writer) = pipe().unwrap();
    let mut sink = Sink::new(Stream::Stdout, journal(), false);
    let Took::End(end) = sink.take(writer.as_fd(), READ_BYTES) else {
        panic!("the write end of a pipe cannot be read");
    };
    for end in [end.again(), end] {
        assert!(matches!(end, PumpEnd::Error(error) if error.raw_os_error() == Some(libc::EBADF)));
    }
}

#[tokio::test]
async fn a_process_ends_with_its_last_pump_whether_anybody_waits_or_not() {
    let journal = journal();
    let (out_reader, out) = pipe().unwrap();
    let (err_reader, err) = pipe().unwrap();
    let sources = [(out_reader, Stream::Stdout), (err_reader, Stream::Stderr)];
    let mut pumps = Pumps::start(sources, journal.clone()).unwrap();
    let mut err = File::from(err);
    drop(out);
    err.write_all(b"still here").unwrap();
    assert_eq!(text(&journal, 10).await, "still here");
    assert!(!journal.totals().eof);
    drop(err);
    assert!(journal.read(&reading(10)).await.unwrap().eof, "closed without a call of `ended`");
    assert!(matches!(pumps.ended().await, PumpEnd::Eof));
}

#[tokio::test]
async fn the_worst_end_is_told_and_a_drain_reaches_all() {
    let journal = journal();
    let (out_reader, out) = pipe().unwrap();
    let (err_reader, err) = pipe().unwrap();
    let sources = [(out_reader, Stream::Stdout), (err_reader, Stream::Stderr)];
    let mut pumps = Pumps::start(sources, journal.clone()).unwrap();
    drop(err);
    pumps.drain(Duration::ZERO);
    assert!(matches!(pumps.ended().await, PumpEnd::GaveUp));
    assert!(journal.totals().eof);
    assert!(out.as_raw_fd() >= 0, "held until here");
}

#[tokio::test]
async fn dropped_pumps_close_the_journal() {
    let journal = journal();
    let (reader, _writer) = pipe().unwrap();
    let pumps = Pumps::start([(reader, Stream::Stdout)], journal.clone()).unwrap();
    drop(pumps);
    assert!(journal.read(&reading(0)).await.unwrap().eof);
}
