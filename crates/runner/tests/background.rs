//! `background: "keep"`: the process stays `running` until its whole tree is gone or is ended, and the command's own end is
//! told whatever ended the tree.
#![cfg(target_os = "linux")]

use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{
    Background, EndedBy, ExecRequest, Phase, ProcessId, ProcessStatus, StopRequest, TerminateWorkspaceRequest,
    Termination,
};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};

/// Far longer than the default linger.
const LONG_AFTER: Duration = Duration::from_millis(500);

fn kept(script: &str) -> ExecRequest {
    ExecRequest { background: Background::Keep, ..ask::shell(script) }
}

/// Starts it and waits until its command is long gone.
async fn start(fixture: &Fixture, request: ExecRequest) -> ProcessId {
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(&fixture.session, id, "ready").await;
    tokio::time::sleep(LONG_AFTER).await;
    id
}

async fn assert_runs(fixture: &Fixture, id: ProcessId) {
    let running = ask::running(&fixture.session).await;
    let phases: Vec<_> = running.iter().map(|status| (status.process_id, status.phase, status.eof)).collect();
    assert_eq!(phases, [(id, Some(Phase::Running), false)], "{running:?}");
}

fn assert_told(status: &ProcessStatus, cause: EndedBy, termination: Termination, code: i32) {
    let told = (status.ended_by, status.termination, status.exit_code);
    assert_eq!(told, (Some(cause), Some(termination), Some(code)), "{status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_process_runs_until_the_last_of_its_tree_has_ended_by_itself() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "setsid sh -c 'until [ -e go ]; do sleep 0.02; done; echo last' & echo ready; exit 3";
    let id = start(&fixture, kept(script)).await;
    assert_runs(&fixture, id).await;
    std::fs::write(fixture.workspace().join("go"), "").unwrap();
    let status = ask::ended(&fixture.session, id).await;
    assert_told(&status, EndedBy::Command, Termination::Exited, 3);
    assert!(status.tree.is_some_and(|tree| tree.leftovers >= 1));
    assert_eq!(ask::output(&fixture.session, id).await, "ready\nlast\n");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_anything_in_the_background_it_ends_with_its_command() {
    let Some(fixture) = Fixture::start().await else { return };
    let (status, output) = ask::run(&fixture.session, kept("echo hi; exit 4")).await;
    assert_told(&status, EndedBy::Command, Termination::Exited, 4);
    assert_eq!((status.tree.map(|tree| tree.leftovers), output.as_str()), (Some(0), "hi\n"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_end_ends_what_was_kept_and_still_tells_the_commands_own() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "setsid sh -c 'trap \"\" TERM; sleep 1000; :' & setsid sleep 1000 & echo ready; exit 3";

    let id = start(&fixture, kept(script)).await;
    assert_runs(&fixture, id).await;
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_told(&status, EndedBy::Terminate, Termination::Terminated, 3);
    fixture.assert_nothing_is_left("after the terminate").await;

    let request = ExecRequest { timeout_ms: Some(1000), ..kept(script) };
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    let status = ask::ended(&fixture.session, id).await;
    assert_told(&status, EndedBy::Timeout, Termination::Timeout, 3);
    fixture.assert_nothing_is_left("after the timeout").await;

    start(&fixture, kept(script)).await;
    let request = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().unwrap(), grace_ms: None };
    let ended = fixture.session.terminate_workspace(request).await.expect("an answer");
    assert_told(&ended.processes[0], EndedBy::Workspace, Termination::Terminated, 3);
    fixture.assert_nothing_is_left("after the workspace's end").await;

    let id = start(&fixture, kept(script)).await;
    let helper = ask::running(&fixture.session).await[0].pid.expect("the helper's pid");
    codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
    let status = ask::ended(&fixture.session, id).await;
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{status:?}");
    assert_eq!(status.exit_code, Some(3), "the command's own end was seen before: {status:?}");
    fixture.assert_nothing_is_left("after the helper's death").await;

    let id = start(&fixture, kept(script)).await;
    fixture.session.stop(StopRequest::default()).await.expect("an answer");
    let status = ask::ended(&fixture.session, id).await;
    assert_told(&status, EndedBy::Stop, Termination::Terminated, 3);
    fixture.assert_nothing_is_left("after the stop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_signal_that_the_command_died_of_is_told_too() {
    let Some(fixture) = Fixture::start().await else { return };
    let id = start(&fixture, kept("setsid sleep 1000 & echo ready; kill -KILL $$; sleep 1000")).await;
    assert_runs(&fixture, id).await;
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Terminate), None), "{status:?}");
    assert_eq!(status.signal.map(|signal| signal.number), Some(libc::SIGKILL));
    fixture.end().await;
}
