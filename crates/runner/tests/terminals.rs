//! A command on a terminal: the size that was asked for, a session and a foreground group of its own, keys that reach the
//! right group, an input that ends, and no byte of its output lost; its end is told as exactly as with pipes.
#![cfg(target_os = "linux")]

use std::fs;
use std::time::{Duration, Instant};

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{
    CloseStdinRequest, Encoding, ErrorCode, ExecRequest, ProcessId, ProcessStatus, ResizeRequest, Termination,
    WriteStdinRequest,
};
use codespace_testkit::fixture::{Fixture, ask};

fn terminal(request: ExecRequest) -> ExecRequest {
    ExecRequest { tty: true, ..request }
}

async fn start(fixture: &Fixture, script: &str) -> ProcessId {
    let id = fixture.session.exec(terminal(ask::shell(script))).await.expect("a start").process_id;
    ask::wait_for_output(&fixture.session, id, "ready").await;
    id
}

async fn keys(fixture: &Fixture, process_id: ProcessId, data: &str) {
    let write = WriteStdinRequest { process_id, data: data.into(), encoding: Encoding::Utf8, write_key: None };
    assert_eq!(fixture.session.write_stdin(write).await.expect("a write").written, data.len() as u64);
}

async fn end_input(fixture: &Fixture, process_id: ProcessId) {
    fixture.session.close_stdin(CloseStdinRequest { process_id }).await.expect("an end of input");
}

fn own_end(status: &ProcessStatus) -> (Option<Termination>, Option<i32>, Option<i32>) {
    (status.termination, status.exit_code, status.signal.as_ref().map(|signal| signal.number))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_has_its_size_from_the_start_and_a_resize_reaches_the_program() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    for (rows, cols, expected) in
        [(None, None, "24 80"), (Some(50), Some(132), "50 132"), (Some(1), Some(9999), "1 9999")]
    {
        let request = ExecRequest { rows, cols, ..terminal(ask::shell("stty size; echo $TERM")) };
        let (_, output) = ask::run(session, request).await;
        assert_eq!(output, format!("{expected}\r\nxterm-256color\r\n"));
    }
    let id = start(&fixture, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done").await;
    let resize = |process_id, rows, cols| session.process_resize(ResizeRequest { process_id, rows, cols });
    let reply = resize(id, 33, 99).await.expect("a new size");
    assert_eq!((reply.rows, reply.cols), (33, 99));
    ask::wait_for_output(session, id, "33 99").await;
    assert_eq!(resize(id, 0, 9).await.unwrap_err().code, ErrorCode::InvalidCommand);
    session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_eq!(resize(id, 9, 9).await.unwrap_err().code, ErrorCode::ProcessNotRunning);
    let pipes = session.exec(ask::command(["sleep", "1000"])).await.expect("a start").process_id;
    let error = resize(pipes, 9, 9).await.unwrap_err();
    assert_eq!((error.code, error.hint.is_some()), (ErrorCode::ProcessNotTty, true), "{error:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_leads_its_session_and_is_in_the_foreground() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        // pid, group, session, foreground group: fields 1, 5, 6 and 8; 7 is the terminal.
        let script = "set -- $(sed 's/(.*)/x/' /proc/$$/stat); echo $(($1 == $5)) $(($1 == $6)) $(($1 == $8)) $(($7 != 0)); \
                      test -t 0 && test -t 1 && test -t 2 && echo through > /dev/tty";
        let (_, output) = ask::run(&fixture.session, terminal(ask::shell(script))).await;
        assert_eq!(output, "1 1 1 1\r\nthrough\r\n", "{sandbox:?}");
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interrupt_quit_and_suspend_keys_reach_the_foreground_group() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let id =
        start(&fixture, "trap 'sleep 0.2; echo cleaned; exit 7' INT; echo ready; while :; do sleep 0.05; done").await;
    keys(&fixture, id, "\u{3}").await;
    let status = ask::ended(session, id).await;
    assert_eq!(own_end(&status), (Some(Termination::Exited), Some(7), None), "{status:?}");
    assert!(ask::output(session, id).await.contains("cleaned"));
    for (key, number) in [("\u{3}", libc::SIGINT), ("\u{1c}", libc::SIGQUIT)] {
        let id = session.exec(terminal(ask::command(["sleep", "1000"]))).await.expect("a start").process_id;
        keys(&fixture, id, key).await;
        let status = ask::ended(session, id).await;
        assert_eq!(own_end(&status), (Some(Termination::Signaled), None, Some(number)), "{status:?}");
    }
    // A shell with job control: what is suspended is its job, and the shell goes on.
    let id = session.exec(terminal(ask::command(["bash", "--norc", "-i"]))).await.expect("a start").process_id;
    keys(&fixture, id, "sh -c 'echo rea''dy; exec sleep 1000'\n").await;
    ask::wait_for_output(session, id, "ready\r\n").await;
    keys(&fixture, id, "\u{1a}").await;
    ask::wait_for_output(session, id, "Stopped").await;
    keys(&fixture, id, "echo go''ing on; disown; exit 5\n").await;
    let status = ask::ended(session, id).await;
    assert_eq!(own_end(&status), (Some(Termination::Exited), Some(5), None), "{status:?}");
    assert!(ask::output(session, id).await.contains("going on"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_of_input_ends_one_reader_also_in_the_middle_of_a_line() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    for typed in ["", "a line\n", "no line", "a line\nno line", "한"] {
        let id = start(&fixture, "stty -echo; echo ready; cat; echo first; cat; echo second").await;
        keys(&fixture, id, typed).await;
        end_input(&fixture, id).await;
        ask::wait_for_output(session, id, &format!("{}first\r\n", typed.replace('\n', "\r\n"))).await;
        // The next reader's input has not ended.
        keys(&fixture, id, "more\n").await;
        ask::wait_for_output(session, id, "first\r\nmore\r\n").await;
        end_input(&fixture, id).await;
        let status = ask::ended(session, id).await;
        assert_eq!(status.exit_code, Some(0), "{typed:?}: {status:?}");
        assert!(ask::output(session, id).await.ends_with("more\r\nsecond\r\n"), "{typed:?}");
    }
    // The program's own choice of a character, and a program that reads byte by byte.
    let id = start(&fixture, "stty eof ^G; echo ready; cat; echo fin").await;
    end_input(&fixture, id).await;
    assert_eq!(ask::ended(session, id).await.exit_code, Some(0));
    let id = start(&fixture, "stty raw -echo; echo ready; head -c 4 | od -An -tx1").await;
    keys(&fixture, id, "ab").await;
    end_input(&fixture, id).await;
    keys(&fixture, id, "c").await;
    ask::ended(session, id).await;
    assert!(ask::output(session, id).await.contains("61 62 04 63"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_last_is_never_lost_and_the_end_is_told_as_with_pipes() {
    let Some(fixture) = Fixture::start().await else { return };
    for round in 0..40 {
        let script = format!("seq 1 {}; printf END{round}; exit {round}", round * 40);
        let (status, output) = ask::run(&fixture.session, terminal(ask::shell(&script))).await;
        assert!(output.ends_with(&format!("END{round}")), "round {round}: {:?}", output.get(output.len() - 40..));
        assert_eq!(own_end(&status), (Some(Termination::Exited), Some(round), None), "{status:?}");
    }
    for number in [libc::SIGKILL, libc::SIGSEGV, libc::SIGHUP, 35] {
        let request = terminal(ask::shell(&format!("printf last; kill -{number} $$; sleep 1000")));
        let (status, output) = ask::run(&fixture.session, request).await;
        assert_eq!(own_end(&status), (Some(Termination::Signaled), None, Some(number)), "{status:?}");
        assert_eq!(output, "last");
    }
    // Nor where the end is one that was asked for.
    let request = ExecRequest { timeout_ms: Some(1500), ..terminal(ask::shell("seq 1 3000; sleep 1000 & sleep 1000")) };
    let (status, output) = ask::run(&fixture.session, request).await;
    assert_eq!(status.termination, Some(Termination::Timeout), "{status:?}");
    assert!(output.ends_with("\n3000\r\n"), "{:?}", output.get(output.len().saturating_sub(40)..));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_takes_any_amount_of_input_and_loses_none() {
    let Some(fixture) = Fixture::start().await else { return };
    let id = start(&fixture, "stty -echo; echo ready; sleep 0.3; head -n 20000 | cksum").await;
    let lines: String = (0..20_000).map(|i| format!("line {i:06} of some input\n")).collect();
    keys(&fixture, id, &lines).await;
    ask::ended(&fixture.session, id).await;
    let on_terminal = ask::output(&fixture.session, id).await;
    fs::write(fixture.workspace().join("lines"), &lines).unwrap();
    let (_, expected) = ask::run(&fixture.session, ask::shell("cksum < lines")).await;
    assert!(on_terminal.contains(expected.trim()), "{on_terminal:?} {expected:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_terminals_leave_no_descriptor_behind_however_they_ended() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let open = || fs::read_dir("/proc/self/fd").expect("our descriptors").count();
    ask::run(session, terminal(ask::command(["true"]))).await;
    let before = open();
    for _ in 0..10 {
        ask::run(session, terminal(ask::command(["true"]))).await;
        session.exec(terminal(ask::command(["/no/such/program"]))).await.expect_err("no such program");
        let mut nowhere = terminal(ask::command(["true"]));
        nowhere.cwd = Some("nowhere".into());
        session.exec(nowhere).await.expect_err("no such directory");
        let id = session.exec(terminal(ask::command(["sleep", "1000"]))).await.expect("a start").process_id;
        session.terminate_process(ask::terminate(id)).await.expect("a final status");
    }
    // Closing follows the answer by a moment.
    let until = Instant::now() + Duration::from_secs(10);
    while open() > before {
        assert!(Instant::now() < until, "{} descriptors, {before} before", open());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fixture.end().await;
}
