//! Input that a command never reads holds up nobody: not the Runner, not another process, and not the end of its own.
#![cfg(target_os = "linux")]

use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{Encoding, EndedBy, Request, State, StatusRequest, StdinMode, WriteStdinRequest};
use codespace_testkit::fixture::{Fixture, ask};

/// Two workers, as on a small machine, and more such processes than workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_or_a_pipe_full_of_unread_input_ends_like_any_other() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let mut writes = Vec::new();
    let mut ids = Vec::new();
    for tty in [true, true, true, false] {
        let mut request =
            ask::shell(if tty { "stty raw -echo; echo ready; sleep 0.4" } else { "echo ready; sleep 0.4" });
        request.tty = tty;
        request.stdin = StdinMode::Pipe;
        let id = session.exec(request).await.expect("a start").process_id;
        ask::wait_for_output(session, id, "ready").await;
        let data = "x".repeat(1_000_000);
        let write = WriteStdinRequest { process_id: id, data, encoding: Encoding::Utf8, write_key: None };
        writes.push(tokio::spawn(session.call(Request::WriteStdin(write))));
        ids.push(id);
    }
    let mut timed = ask::shell("sleep 1000");
    timed.timeout_ms = Some(1000);
    let timed = session.exec(timed).await.expect("a start").process_id;
    for id in ids {
        let status = session.process_status(StatusRequest { process_id: id, wait_ms: 10_000 }).await.expect("a status");
        assert_eq!((status.state, status.ended_by), (State::Exited, Some(EndedBy::Command)), "{status:?}");
    }
    for write in writes {
        let answer = tokio::time::timeout(Duration::from_secs(10), write).await.expect("an answer in time");
        answer.expect("the write's task").expect_err("nobody has read it");
    }
    let status = session.process_status(StatusRequest { process_id: timed, wait_ms: 10_000 }).await.expect("a status");
    assert_eq!(status.ended_by, Some(EndedBy::Timeout), "{status:?}");
    fixture.end().await;
}
