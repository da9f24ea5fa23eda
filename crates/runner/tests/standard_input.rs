//! A command's stdin: at its end unless asked for otherwise, written to in order, once, and never by way of another's.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{
    CloseStdinRequest, Encoding, ErrorCode, ExecRequest, ProcessId, ReadRequest, Request, RunnerError, StdinMode,
    WriteStdinRequest,
};
use codespace_testkit::fixture::{Fixture, ask};

fn with_input(request: ExecRequest) -> ExecRequest {
    ExecRequest { stdin: StdinMode::Pipe, ..request }
}

fn write(process_id: ProcessId, data: &str) -> WriteStdinRequest {
    WriteStdinRequest { process_id, data: data.to_owned(), encoding: Encoding::Utf8, write_key: None }
}

fn keyed(process_id: ProcessId, data: &str, key: &str) -> WriteStdinRequest {
    WriteStdinRequest { write_key: Some(key.to_owned()), ..write(process_id, data) }
}

async fn close(fixture: &Fixture, process_id: ProcessId) -> Result<(), RunnerError> {
    fixture.session.close_stdin(CloseStdinRequest { process_id }).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_being_asked_for_it_is_at_its_end_however_it_is_opened() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        for script in ["cat", "cat /dev/stdin", "cat < /proc/self/fd/0", "read x; test $? = 1", "head -c 1"] {
            let request = ExecRequest { timeout_ms: Some(20_000), ..ask::shell(&format!("{script}; echo after")) };
            let (status, output) = ask::run(&fixture.session, request).await;
            assert_eq!((status.exit_code, output.as_str()), (Some(0), "after\n"), "{sandbox:?} {script}: {status:?}");
        }
        // Nor is there a terminal to ask at.
        let script = "(exec 3< /dev/tty) 2> /dev/null && echo has-one || echo has-none";
        let (_, output) = ask::run(&fixture.session, ask::shell(script)).await;
        assert_eq!(output, "has-none\n", "{sandbox:?}");
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_what_is_not_open_is_refused_with_what_to_do() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let never = session.exec(ask::command(["sleep", "1000"])).await.expect("a start").process_id;
    let by_command = with_input(ask::shell("exec 0<&-; echo ready; exec sleep 1000"));
    let by_command = session.exec(by_command).await.expect("a start").process_id;
    ask::wait_for_output(session, by_command, "ready").await;
    let by_client = session.exec(with_input(ask::command(["sleep", "1000"]))).await.expect("a start").process_id;
    close(&fixture, by_client).await.expect("to be closed");
    close(&fixture, by_client).await.expect("to be closed twice");
    for id in [never, by_command, by_client] {
        for data in ["x", "\u{3}"] {
            let error = session.write_stdin(write(id, data)).await.expect_err("a refusal");
            assert_eq!((error.code, error.process_id), (ErrorCode::StdinClosed, Some(id)), "{error:?}");
            assert!(error.hint.is_some(), "{error:?}");
        }
    }
    assert_eq!(close(&fixture, never).await.unwrap_err().code, ErrorCode::StdinClosed);
    for id in [never, by_command, by_client] {
        session.terminate_process(ask::terminate(id)).await.expect("a final status");
        assert_eq!(session.write_stdin(write(id, "x")).await.unwrap_err().code, ErrorCode::ProcessNotRunning);
        assert_eq!(close(&fixture, id).await.unwrap_err().code, ErrorCode::ProcessNotRunning);
    }
    let id = session.exec(with_input(ask::command(["cat"]))).await.expect("a start").process_id;
    let no_base64 = WriteStdinRequest { encoding: Encoding::Base64, ..write(id, "%") };
    assert_eq!(session.write_stdin(no_base64).await.unwrap_err().code, ErrorCode::InvalidCommand);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_arrive_in_the_order_in_which_they_were_asked_for_also_while_the_start_is_pending() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let request = ExecRequest { output_bytes: Some(8 << 20), ..with_input(ask::shell("sleep 0.3; cat")) };
    let id = session.exec(request).await.expect("a start").process_id;
    let pieces: Vec<String> = (0..50).map(|i| format!("{i:05}|").repeat(5000)).collect();
    let mut asked = Vec::new();
    for piece in &pieces {
        asked.push(session.call(Request::WriteStdin(write(id, piece))));
    }
    asked.push(session.call(Request::CloseStdin(CloseStdinRequest { process_id: id })));
    let read = ask::output(session, id);
    let all = async {
        for answer in asked {
            answer.await.expect("an answer");
        }
    };
    let (output, ()) = tokio::join!(read, all);
    assert!(output == pieces.concat(), "{} of {} bytes, or another order", output.len(), pieces.concat().len());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_tried_again_is_written_once_and_told_the_same_also_when_all_is_over() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let id = session.exec(with_input(ask::shell("sleep 0.3; cat"))).await.expect("a start").process_id;
    // More than a pipe holds, so that both wait.
    let data = "a".repeat(200_000);
    let (one, other) =
        tokio::join!(session.write_stdin(keyed(id, &data, "k")), session.write_stdin(keyed(id, &data, "k")));
    assert_eq!((one.unwrap().written, other.unwrap().written), (200_000, 200_000));
    let conflict = session.write_stdin(keyed(id, "b", "k")).await.unwrap_err();
    assert_eq!(conflict.code, ErrorCode::KeyConflict, "{conflict:?}");
    close(&fixture, id).await.expect("to be closed");
    assert_eq!(session.write_stdin(keyed(id, &data, "k")).await.unwrap().written, 200_000);
    let status = ask::ended(session, id).await;
    assert_eq!(status.output_total, 200_000);
    assert_eq!(session.write_stdin(keyed(id, &data, "k")).await.expect("the same answer").written, 200_000);
    assert_eq!(session.write_stdin(keyed(id, &data, "new")).await.unwrap_err().code, ErrorCode::ProcessNotRunning);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_any_kind_arrive_as_they_are() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let id = session.exec(with_input(ask::command(["od", "-An", "-v", "-tx1", "-w256"]))).await.unwrap().process_id;
    let bytes: Vec<u8> = (0..=255).collect();
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes);
    let request = WriteStdinRequest { encoding: Encoding::Base64, ..write(id, &data) };
    assert_eq!(session.write_stdin(request).await.unwrap().written, 256);
    assert_eq!(session.write_stdin(write(id, "")).await.unwrap().written, 0);
    assert_eq!(session.write_stdin(write(id, "한")).await.unwrap().written, 3);
    close(&fixture, id).await.expect("to be closed");
    let expected: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
    assert_eq!(ask::output(session, id).await, format!("{expected}\n ed 95 9c\n"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_holds_up_no_other_writer() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let deaf = session.exec(with_input(ask::command(["sleep", "1000"]))).await.expect("a start").process_id;
    let stuck = session.call(Request::WriteStdin(write(deaf, &"x".repeat(1_000_000))));
    let began = Instant::now();
    let id = session.exec(with_input(ask::command(["cat"]))).await.expect("a start").process_id;
    assert_eq!(session.write_stdin(write(id, "hi\n")).await.unwrap().written, 3);
    let reply = ReadRequest { wait_ms: 10_000, ..ReadRequest::new(id) };
    assert_eq!(session.read_process(reply).await.expect("output").chunk, "hi\n");
    session.terminate_process(ask::terminate(deaf)).await.expect("a final status");
    let error = stuck.await.expect_err("nobody has read it");
    assert!(matches!(error.code, ErrorCode::ProcessNotRunning | ErrorCode::StdinClosed), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_inherits_no_ignored_and_no_blocked_signal() {
    let Some(fixture) = Fixture::start().await else { return };
    for tty in [false, true] {
        let script = "yes | head -n 1; grep -E 'Sig(Ign|Blk)' /proc/self/status";
        let request = ExecRequest { tty, ..ask::command(["/bin/sh", "-c", script]) };
        let (status, output) = ask::run(&fixture.session, request).await;
        let expected = "y\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
        assert_eq!((status.exit_code, output.replace('\r', "").as_str()), (Some(0), expected), "tty {tty}");
    }
    fixture.end().await;
}
