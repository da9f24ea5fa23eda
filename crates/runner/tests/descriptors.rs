//! A command has three descriptors, whatever else runs or starts at the same moment; none of them keeps another's pipe open.
#![cfg(target_os = "linux")]

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{
    Background, CloseStdinRequest, ExecRequest, OnFull, ReadRequest, StdinMode, WriteStdinRequest,
};
use codespace_testkit::fixture::{Fixture, ask};

/// What each of the shell's descriptors is. The one that it lists them with is closed by the time it is asked about.
const LIST: &str = "for fd in /proc/$$/fd/*; do readlink $fd; done; :";

/// The kinds of what was listed.
fn kinds(output: &str) -> Vec<&str> {
    output.lines().map(|line| line.get(..5).unwrap_or(line)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn there_are_three_of_them_in_every_kind_of_process() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        let session = &fixture.session;
        for tty in [false, true] {
            let request = ExecRequest { tty, stdin: StdinMode::Pipe, ..ask::command(["sleep", "1000"]) };
            session.exec(request).await.expect("a start");
        }
        let plain = || ask::shell(LIST);
        let pipes = ["/dev/", "pipe:", "pipe:"];
        let of_all_kinds = [
            (plain(), pipes),
            (ExecRequest { stdin: StdinMode::Pipe, ..plain() }, ["pipe:"; 3]),
            (ExecRequest { tty: true, ..plain() }, ["/dev/"; 3]),
            (ExecRequest { on_full: OnFull::Wait, ..plain() }, pipes),
            (ExecRequest { background: Background::Keep, ..plain() }, pipes),
        ];
        for (request, expected) in of_all_kinds {
            let what = format!("{sandbox:?} tty {} {:?}", request.tty, request.stdin);
            let (_, output) = ask::run(session, request).await;
            assert_eq!(kinds(&output), expected, "{what}");
        }
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn starts_at_the_same_moment_give_none_of_their_pipes_to_each_other() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let starts: Vec<_> = (0..24)
        .map(|i| ExecRequest { tty: i % 2 == 1, wait_ms: u64::MAX, ..ask::shell(LIST) })
        .map(|request| session.call(codespace_runner::domain::Request::Exec(Box::new(request))))
        .collect();
    for start in starts {
        let codespace_runner::domain::Reply::Exec(reply) = start.await.expect("a start") else {
            panic!("another reply")
        };
        let output = reply.output.expect("output").chunk;
        assert_eq!(kinds(&output).len(), 3, "{output:?}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_later_process_holds_no_pipe_of_an_earlier_one() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let reader = ExecRequest { stdin: StdinMode::Pipe, ..ask::shell("cat; echo at its end") };
    let reader = session.exec(reader).await.expect("a start").process_id;
    let closer = session.exec(ask::shell("exec >&- 2>&-; exec sleep 1000")).await.expect("a start").process_id;
    for i in 0..8 {
        let later = ExecRequest { tty: i % 2 == 1, stdin: StdinMode::Pipe, ..ask::command(["sleep", "1000"]) };
        session.exec(later).await.expect("a start");
    }
    let write =
        WriteStdinRequest { process_id: reader, data: "x\n".into(), encoding: Default::default(), write_key: None };
    session.write_stdin(write).await.expect("a write");
    session.close_stdin(CloseStdinRequest { process_id: reader }).await.expect("an end of input");
    assert_eq!(ask::ended(session, reader).await.exit_code, Some(0));
    assert_eq!(ask::output(session, reader).await, "x\nat its end\n");
    // A command that has closed its output has an output that has ended, though it runs on.
    let read = ReadRequest { wait_ms: u64::MAX, ..ReadRequest::new(closer) };
    assert!(session.read_process(read).await.expect("an end").eof);
    assert_eq!(ask::running(session).await.iter().filter(|status| status.process_id == closer).count(), 1);
    fixture.end().await;
}
