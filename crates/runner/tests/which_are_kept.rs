//! Which processes the Runner knows: those that a list shows, how long ended ones are kept, and what a key names.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_policy::Workspace;
use codespace_runner::domain::{
    EndedBy, ErrorCode, ExecRequest, ListRequest, Phase, ProcessId, ProcessRef, Request, State, StatusRequest,
    TerminateRequest, TerminateWorkspaceRequest,
};
use codespace_runner::{Retention, Runner, RunnerConfig};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};

fn keyed(key: &str, request: ExecRequest) -> ExecRequest {
    ExecRequest { process_key: Some(ask::key(key)), ..request }
}

async fn list(fixture: &Fixture, workspace: Option<&str>, state: Option<State>) -> Vec<ProcessId> {
    let workspace_id = workspace.map(|id| id.parse().expect("a workspace id"));
    let request = ListRequest { workspace_id, state };
    let listed = fixture.session.list_processes(request).await.expect("a list").processes;
    listed.iter().map(|status| status.process_id).collect()
}

/// A second workspace, `other`, in the same directory.
fn with_another(config: &mut RunnerConfig) {
    let id = WORKSPACE.parse().expect("a workspace id");
    let same: Workspace = config.registry.workspaces[&id].clone();
    config.registry.workspaces.insert("other".parse().expect("a workspace id"), same);
}

fn elsewhere(request: ExecRequest) -> ExecRequest {
    ExecRequest { workspace_id: "other".parse().expect("a workspace id"), ..request }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_filtered_by_workspace_and_state_and_shows_a_start_that_is_pending() {
    let Some(fixture) = Fixture::configured(|_| {}, with_another).await else { return };
    let session = &fixture.session;
    let sleep = || ask::command(["sleep", "1000"]);
    let (quick, _) = ask::run(session, ask::command(["true"])).await;
    let here = session.exec(sleep()).await.expect("a start").process_id;
    let there = session.exec(elsewhere(sleep())).await.expect("a start").process_id;
    let quick = quick.process_id;
    for (workspace, state, expected) in [
        (None, None, vec![quick, here, there]),
        (None, Some(State::Running), vec![here, there]),
        (None, Some(State::Exited), vec![quick]),
        (Some(WORKSPACE), None, vec![quick, here]),
        (Some(WORKSPACE), Some(State::Running), vec![here]),
        (Some("other"), None, vec![there]),
        (Some("other"), Some(State::Exited), vec![]),
    ] {
        assert_eq!(list(&fixture, workspace, state).await, expected, "{workspace:?} {state:?}");
    }
    let unknown = ListRequest { workspace_id: Some("unknown".parse().unwrap()), state: None };
    assert_eq!(session.list_processes(unknown).await.unwrap_err().code, ErrorCode::WorkspaceNotFound);

    // An end of one workspace leaves the other alone.
    let end = TerminateWorkspaceRequest { workspace_id: "other".parse().unwrap(), grace_ms: None };
    let ended = session.terminate_workspace(end.clone()).await.expect("an answer");
    assert_eq!((ended.ended, ended.processes[0].process_id), (1, there));
    assert_eq!(session.terminate_workspace(end).await.expect("an answer").ended, 0);
    assert_eq!(list(&fixture, None, Some(State::Running)).await, [here]);

    let pending = session.call(Request::Exec(Box::new(keyed("pending", sleep()))));
    let running = ask::running(session).await;
    let starting = running.iter().find(|status| status.process_key.is_some()).expect("the pending start");
    assert_eq!((starting.phase, starting.state), (Some(Phase::Starting), State::Running), "{starting:?}");
    // Ended by its key before it was answered: the answer is no error.
    let ended = session.terminate_process(ask::terminate_by_key("pending")).await.expect("a final status");
    assert_eq!((ended.process_id, ended.ended_by), (starting.process_id, Some(EndedBy::Terminate)));
    pending.await.expect("its id and its status");
    assert_eq!(*session.terminate_process(ask::terminate_by_key("pending")).await.expect("the same"), *ended);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_ones_are_kept_up_to_a_number_the_latest_of_them() {
    let retention = Retention { count: 3, ..Retention::default() };
    let Some(fixture) = Fixture::configured(|_| {}, |config| config.retention = retention).await else { return };
    let session = &fixture.session;
    let running = session.exec(ask::command(["sleep", "1000"])).await.expect("a start").process_id;
    let mut ended = Vec::new();
    for i in 0..5 {
        let (status, _) = ask::run(session, keyed(&format!("k{i}"), ask::command(["true"]))).await;
        ended.push(status.process_id);
    }
    assert_eq!(list(&fixture, None, Some(State::Exited)).await, ended[2..]);
    assert_eq!(list(&fixture, None, Some(State::Running)).await, [running], "a running one is never given up");
    let gone = StatusRequest { process_id: ended[0], wait_ms: 0 };
    assert_eq!(session.process_status(gone).await.unwrap_err().code, ErrorCode::ProcessNotFound);
    // A key lives as long as its process is kept.
    let again = session.exec(keyed("k4", ask::command(["true"]))).await.expect("the same process");
    assert_eq!(again.process_id, ended[4]);
    let new = session.exec(keyed("k0", ask::command(["echo", "new"]))).await.expect("a new process");
    assert!(!ended.contains(&new.process_id));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_ones_are_kept_for_a_time() {
    let retention = Retention { time: Duration::from_millis(1500), ..Retention::default() };
    let Some(fixture) = Fixture::configured(|_| {}, |config| config.retention = retention).await else { return };
    let (status, output) = ask::run(&fixture.session, keyed("k", ask::command(["echo", "quick"]))).await;
    assert_eq!(output, "quick\n");
    let by_key = TerminateRequest {
        process: ProcessRef::Key { workspace_id: WORKSPACE.parse().unwrap(), process_key: ask::key("k") },
        grace_ms: None,
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !list(&fixture, None, None).await.is_empty() {
        assert!(Instant::now() < until, "it is kept for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let error = fixture.session.terminate_process(by_key).await.unwrap_err();
    assert_eq!((error.code, error.hint.is_some()), (ErrorCode::ProcessNotFound, true), "{error:?}");
    let new = fixture.session.exec(keyed("k", ask::command(["echo", "another"]))).await.expect("a new process");
    assert_ne!(new.process_id, status.process_id);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_names_one_process_of_its_workspace_and_a_failed_start_gives_it_back() {
    let Some(fixture) = Fixture::configured(|_| {}, with_another).await else { return };
    let session = &fixture.session;
    let request = keyed("k", ask::command(["sleep", "1000"]));
    let here = session.exec(request.clone()).await.expect("a start").process_id;
    let there = session.exec(elsewhere(request.clone())).await.expect("a start").process_id;
    assert_ne!(here, there, "a key is of its workspace");
    // How long the caller waits is no part of what it asks for; everything else is.
    let waits = ExecRequest { wait_ms: 1, ..request.clone() };
    let reply = session.exec(waits).await.expect("the same process");
    assert_eq!((reply.process_id, reply.status.map(|status| status.state)), (here, Some(State::Running)));
    let others = [
        ExecRequest { timeout_ms: Some(1), ..request.clone() },
        ExecRequest { tty: true, ..request.clone() },
        ExecRequest { cwd: Some(".".into()), ..request.clone() },
        ExecRequest { grace_ms: 1, ..request.clone() },
        ExecRequest { env: [("A".to_owned(), None)].into(), ..request.clone() },
    ];
    for other in others {
        let error = session.exec(other).await.expect_err("a conflict");
        assert_eq!((error.code, error.hint.is_some()), (ErrorCode::KeyConflict, true), "{error:?}");
    }
    let status = session.terminate_process(ask::terminate_by_key("k")).await.expect("a final status");
    assert_eq!(status.process_id, here);
    assert_eq!(list(&fixture, None, Some(State::Running)).await, [there]);

    for _ in 0..2 {
        let failing = keyed("again", ask::command(["/no/such/program"]));
        assert_eq!(session.exec(failing).await.unwrap_err().code, ErrorCode::ProcessSpawnFailed);
    }
    let (status, _) = ask::run(session, keyed("again", ask::command(["true"]))).await;
    assert_eq!(status.exit_code, Some(0));
    fixture.end().await;
}
