//! `grace_ms`: SIGTERM to the command first, and so long until the end, at every end that was asked for. A second end can
//! only make it sooner.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{
    EndedBy, ExecRequest, ProcessId, ProcessStatus, Request, StopRequest, TerminateRequest, TerminateWorkspaceRequest,
    Termination,
};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};

/// Takes its time to end, and says so.
const HEEDS: &str = "trap 'echo heard; exit 5' TERM; echo ready; while :; do sleep 0.02; done";

/// Does not end, and says so.
const IGNORES: &str = "trap 'echo heard' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.02; done";

const GRACE: u64 = 400;

/// Long enough for a start on a busy machine.
const TIMEOUT: u64 = 700;

/// Longer than any test: a wait for it would be seen.
const FOR_EVER: u64 = 100_000;

/// Far more than an end takes on a busy machine, far less than [`FOR_EVER`].
const SOON: Duration = Duration::from_secs(10);

async fn start(fixture: &Fixture, request: ExecRequest) -> ProcessId {
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(&fixture.session, id, "ready").await;
    id
}

fn terminate(process_id: ProcessId, grace_ms: Option<u64>) -> TerminateRequest {
    TerminateRequest { grace_ms, ..ask::terminate(process_id) }
}

/// It ended by this cause, with everything; whether it heard the SIGTERM.
async fn assert_ended(fixture: &Fixture, what: &str, status: &ProcessStatus, cause: EndedBy) -> bool {
    let termination = if cause == EndedBy::Timeout { Termination::Timeout } else { Termination::Terminated };
    assert_eq!((status.ended_by, status.termination), (Some(cause), Some(termination)), "{what}: {status:?}");
    assert_eq!((status.exit_code, &status.signal), (None, &None), "{what}: {status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed && tree.leftovers == 0), "{what}: {status:?}");
    ask::output(&fixture.session, status.process_id).await.contains("heard")
}

/// Who heeds it does not wait for the grace's end, who ignores it gets all of it and no more.
fn assert_took(what: &str, script: &str, took: Duration) {
    if script == IGNORES {
        assert!(took >= Duration::from_millis(GRACE), "{what}: {took:?}");
    }
    assert!(took < SOON, "{what}: {took:?}");
}

fn grace_of(script: &str) -> u64 {
    if script == IGNORES { GRACE } else { FOR_EVER }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_terminate_gives_the_grace_that_it_names_else_what_the_exec_said() {
    let Some(fixture) = Fixture::start().await else { return };
    for script in [HEEDS, IGNORES] {
        let grace = grace_of(script);
        for (of_exec, named) in
            [(0, Some(grace)), (grace, None), (if grace == GRACE { FOR_EVER } else { 1 }, Some(grace))]
        {
            let what = format!("{script}: {of_exec} {named:?}");
            let id = start(&fixture, ExecRequest { grace_ms: of_exec, ..ask::shell(script) }).await;
            let began = Instant::now();
            let status = fixture.session.terminate_process(terminate(id, named)).await.expect("a final status");
            assert_took(&what, script, began.elapsed());
            assert!(assert_ended(&fixture, &what, &status, EndedBy::Terminate).await, "{what}: not asked first");
            fixture.assert_nothing_is_left(&what).await;
        }
    }
    // A terminate that names 0 is an end at once, whatever the exec said.
    let id = start(&fixture, ExecRequest { grace_ms: FOR_EVER, ..ask::shell(IGNORES) }).await;
    let status = fixture.session.terminate_process(terminate(id, Some(0))).await.expect("a final status");
    assert!(!assert_ended(&fixture, "at once", &status, EndedBy::Terminate).await);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_timeout_gives_the_grace_of_the_exec() {
    let Some(fixture) = Fixture::start().await else { return };
    for script in [HEEDS, IGNORES] {
        let request = ExecRequest { timeout_ms: Some(TIMEOUT), grace_ms: grace_of(script), ..ask::shell(script) };
        let began = Instant::now();
        let id = start(&fixture, request).await;
        let status = ask::ended(&fixture.session, id).await;
        let took = began.elapsed().checked_sub(Duration::from_millis(TIMEOUT)).expect("not before its timeout");
        assert_took(script, script, took);
        assert!(assert_ended(&fixture, script, &status, EndedBy::Timeout).await, "{script}: not asked first");
        fixture.assert_nothing_is_left(script).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ends_of_a_workspace_and_of_the_runner_give_all_of_them_the_grace_at_the_same_time() {
    let Some(fixture) = Fixture::start().await else { return };
    let scripts = [HEEDS, IGNORES, IGNORES, HEEDS, IGNORES];
    for script in scripts {
        start(&fixture, ask::shell(script)).await;
    }
    let began = Instant::now();
    let request = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().unwrap(), grace_ms: Some(GRACE) };
    let ended = fixture.session.terminate_workspace(request).await.expect("an answer");
    assert_eq!(ended.ended, 5);
    assert_took("the workspace", IGNORES, began.elapsed());
    for status in &ended.processes {
        assert!(assert_ended(&fixture, "the workspace", status, EndedBy::Workspace).await, "{status:?}");
    }
    fixture.assert_nothing_is_left("after the workspace's end").await;

    let mut started = Vec::new();
    for script in scripts {
        started.push(start(&fixture, ask::shell(script)).await);
    }
    let began = Instant::now();
    let ended = fixture.session.stop(StopRequest { grace_ms: Some(GRACE) }).await.expect("an answer");
    assert_eq!(ended.ended, 5);
    assert_took("the stop", IGNORES, began.elapsed());
    for id in started {
        let status = ask::ended(&fixture.session, id).await;
        assert!(assert_ended(&fixture, "the stop", &status, EndedBy::Stop).await, "{status:?}");
    }
    fixture.assert_nothing_is_left("after the stop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_end_can_make_it_sooner_and_never_later_and_the_first_is_its_cause() {
    let Some(fixture) = Fixture::start().await else { return };
    for (first, second) in [(FOR_EVER, GRACE), (FOR_EVER, 0), (GRACE, FOR_EVER)] {
        let what = format!("{first} then {second}");
        let id = start(&fixture, ask::shell(IGNORES)).await;
        let began = Instant::now();
        let pending = fixture.session.call(Request::TerminateProcess(terminate(id, Some(first))));
        let workspace_id = WORKSPACE.parse().unwrap();
        let request = TerminateWorkspaceRequest { workspace_id, grace_ms: Some(second) };
        let ended = fixture.session.terminate_workspace(request).await.expect("an answer");
        let took = began.elapsed();
        assert!(took < SOON, "{what}: {took:?}");
        if second != 0 {
            assert!(took >= Duration::from_millis(GRACE), "{what}: {took:?}");
        }
        assert_ended(&fixture, &what, &ended.processes[0], EndedBy::Terminate).await;
        pending.await.expect("the same status");
        fixture.assert_nothing_is_left(&what).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_command_that_is_stopped_hears_it_and_what_it_leaves_behind_has_the_rest_of_the_grace() {
    let Some(fixture) = Fixture::start().await else { return };
    let stopped = "trap 'echo heard; exit 5' TERM; echo ready; kill -STOP $$; while :; do sleep 0.02; done";
    let id = start(&fixture, ask::shell(stopped)).await;
    let status = fixture.session.terminate_process(terminate(id, Some(FOR_EVER))).await.expect("a final status");
    assert!(assert_ended(&fixture, "stopped", &status, EndedBy::Terminate).await, "it did not hear it");

    // In a session of its own before it says so: the SIGTERM is the command's group's.
    let leaves =
        "trap 'echo heard; exit 5' TERM; setsid sh -c 'echo ready; exec sleep 1000' & while :; do sleep 0.02; done";
    let id = start(&fixture, ask::shell(leaves)).await;
    let began = Instant::now();
    let status = fixture.session.terminate_process(terminate(id, Some(GRACE))).await.expect("a final status");
    assert!(began.elapsed() >= Duration::from_millis(GRACE), "{:?}", began.elapsed());
    assert!(assert_ended(&fixture, "leaves", &status, EndedBy::Terminate).await, "it did not hear it");
    fixture.end().await;
}
