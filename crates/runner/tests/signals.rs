//! A signal that is asked for goes to the command's process group and to nobody else, and is no end: what the command does
//! with it is its own.
#![cfg(target_os = "linux")]

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{
    EndedBy, ErrorCode, ExecRequest, ProcessId, Request, SignalName, SignalRequest, State, StatusRequest, Termination,
};
use codespace_testkit::fixture::{Fixture, ask};

async fn signal(fixture: &Fixture, process_id: ProcessId, signal: SignalName) {
    fixture.session.signal_process(SignalRequest { process_id, signal }).await.expect("a signal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_that_can_end_a_command_ends_it_by_that_signal() {
    let deadly = [
        (SignalName::Int, libc::SIGINT),
        (SignalName::Term, libc::SIGTERM),
        (SignalName::Hup, libc::SIGHUP),
        (SignalName::Quit, libc::SIGQUIT),
        (SignalName::Usr1, libc::SIGUSR1),
        (SignalName::Usr2, libc::SIGUSR2),
        (SignalName::Kill, libc::SIGKILL),
    ];
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        for tty in [false, true] {
            for (name, number) in deadly {
                let request = ExecRequest { tty, ..ask::command(["sleep", "1000"]) };
                let id = fixture.session.exec(request).await.expect("a start").process_id;
                signal(&fixture, id, name).await;
                let status = ask::ended(&fixture.session, id).await;
                let told = (status.termination, status.ended_by, status.exit_code);
                let expected = (Some(Termination::Signaled), Some(EndedBy::Command), None);
                assert_eq!(told, expected, "{sandbox:?} {name:?}: {status:?}");
                assert_eq!(status.signal.map(|signal| signal.number), Some(number), "{sandbox:?} {name:?}");
            }
        }
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_decides_and_a_stopped_command_goes_on_when_it_is_told_to() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let script = "trap 'echo winch' WINCH; trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let id = session.exec(ask::shell(script)).await.expect("a start").process_id;
    ask::wait_for_output(session, id, "ready").await;
    signal(&fixture, id, SignalName::Winch).await;
    ask::wait_for_output(session, id, "winch").await;
    signal(&fixture, id, SignalName::Stop).await;
    signal(&fixture, id, SignalName::Int).await;
    let stopped = StatusRequest { process_id: id, wait_ms: 500 };
    assert_eq!(session.process_status(stopped).await.expect("a status").state, State::Running);
    signal(&fixture, id, SignalName::Cont).await;
    let status = ask::ended(session, id).await;
    assert_eq!((status.exit_code, status.ended_by), (Some(7), Some(EndedBy::Command)), "{status:?}");
    let late = session.signal_process(SignalRequest { process_id: id, signal: SignalName::Int }).await.unwrap_err();
    assert_eq!((late.code, late.process_id), (ErrorCode::ProcessNotRunning, Some(id)), "{late:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_reaches_the_whole_group_and_nobody_outside_of_it() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let outside = "setsid sh -c 'trap \"echo outside\" USR1; echo outer; while :; do sleep 0.05; done'";
    let inside = "sh -c 'trap \"echo inside\" USR1; echo inner; while :; do sleep 0.05; done'";
    let script = format!("trap 'echo own' USR1; {outside} & {inside} & while :; do sleep 0.05; done");
    let id = session.exec(ask::shell(&script)).await.expect("a start").process_id;
    ask::wait_for_output(session, id, "outer").await;
    ask::wait_for_output(session, id, "inner").await;
    signal(&fixture, id, SignalName::Usr1).await;
    ask::wait_for_output(session, id, "own").await;
    ask::wait_for_output(session, id, "inside").await;
    session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert!(!ask::output(session, id).await.contains("outside"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_command_runs_there_is_nothing_to_signal() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let pending = session.call(Request::Exec(Box::new(ask::command(["sleep", "1000"]))));
    let id = ask::running(session).await[0].process_id;
    let early = session.signal_process(SignalRequest { process_id: id, signal: SignalName::Term }).await;
    // It may just have begun to run.
    if let Err(error) = early {
        assert_eq!(error.code, ErrorCode::ProcessNotRunning, "{error:?}");
        pending.await.expect("a start");
        assert_eq!(ask::running(session).await.len(), 1, "a refused signal has no effect");
    }
    fixture.end().await;
}
