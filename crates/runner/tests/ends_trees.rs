//! Whatever a command has started, and however that detached itself: each end ends all of it, says that this was seen,
//! and the output ends at once.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{
    Background, EndedBy, ExecRequest, Lifetime, ProcessId, ProcessStatus, State, StopRequest, TerminateRequest,
    TerminateWorkspaceRequest, Termination,
};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};

/// Each says `ready` when it is as bad as it gets.
fn trees(fixture: &Fixture) -> Vec<(&'static str, ExecRequest)> {
    vec![
        ("double fork with setsid", fixture.program("double_fork_setsid", &["stay"])),
        ("a chain of forks and exits", fixture.program("fork_and_exit_chain", &[])),
        ("ignored signals", fixture.program("ignore_every_signal", &[])),
        ("a storm of SIGCONT", fixture.program("sigcont_storm", &[])),
        ("a background process that holds the output", ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000")),
        ("a stopped member", ask::shell("sleep 1000 & kill -STOP $!; echo ready; wait")),
        ("a command that stopped itself", ask::shell("sleep 1000 & echo ready; kill -STOP $$; wait")),
        (
            "sessions in sessions",
            ask::shell("setsid sh -c 'setsid sleep 1000 & sleep 1000' & echo ready; exec sleep 1000"),
        ),
        (
            "two hundred sleeps",
            ask::shell("i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait"),
        ),
    ]
}

async fn start(fixture: &Fixture, runner: &impl Runner, what: &str, request: ExecRequest) -> ProcessId {
    let started = runner.exec(request).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    ask::wait_for_output(&fixture.session, started.process_id, "ready").await;
    started.process_id
}

/// What every end that was asked for has in common.
async fn assert_ended_whole(fixture: &Fixture, what: &str, status: &ProcessStatus, cause: EndedBy) {
    let termination = if cause == EndedBy::Timeout { Termination::Timeout } else { Termination::Terminated };
    assert_eq!(status.state, State::Exited, "{what}: {status:?}");
    assert_eq!((status.ended_by, status.termination), (Some(cause), Some(termination)), "{what}: {status:?}");
    assert_eq!((status.exit_code, &status.signal), (None, &None), "{what}: {status:?}");
    let tree = status.tree.as_ref().expect("a report of the tree");
    assert!(tree.confirmed && tree.leftovers == 0, "{what}: {status:?}");
    assert!(tree.took_ms < 2000, "{what}: {status:?}");
    assert!(status.eof, "{what}: {status:?}");
    ask::assert_eof_within_a_second(&fixture.session, status.process_id).await;
    assert_eq!(ask::ended(&fixture.session, status.process_id).await, *status, "{what}: asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_terminate_ends_every_tree_whole() {
    let Some(fixture) = Fixture::start().await else { return };
    for (what, request) in trees(&fixture) {
        let id = start(&fixture, &fixture.session, what, request).await;
        let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
        assert_ended_whole(&fixture, what, &status, EndedBy::Terminate).await;
        fixture.assert_nothing_is_left(what).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_terminate_with_grace_ends_who_ignores_it_when_the_grace_is_over_and_nobody_who_heeds_it_waits() {
    let Some(fixture) = Fixture::start().await else { return };
    let stubborn = fixture.program("ignore_every_signal", &[]);
    let cases = [(stubborn, true), (ask::shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"), false)];
    for (request, waits) in cases {
        let what = format!("{:?}", request.command);
        let id = start(&fixture, &fixture.session, &what, request).await;
        let began = Instant::now();
        let request = TerminateRequest { grace_ms: Some(if waits { 300 } else { 30_000 }), ..ask::terminate(id) };
        let status = fixture.session.terminate_process(request).await.expect("a final status");
        assert_eq!(status.ended_by, Some(EndedBy::Terminate), "{what}: {status:?}");
        assert_eq!(began.elapsed() >= Duration::from_millis(300) && waits, waits, "{what}: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
        fixture.assert_nothing_is_left(&what).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_timeout_ends_every_tree_whole() {
    let Some(fixture) = Fixture::start().await else { return };
    for (what, mut request) in trees(&fixture) {
        request.timeout_ms = Some(400);
        let started = fixture.session.exec(request).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let status = ask::ended(&fixture.session, started.process_id).await;
        assert_ended_whole(&fixture, what, &status, EndedBy::Timeout).await;
        assert!(status.usage.is_some_and(|usage| usage.wall_ms >= 400), "{what}: {status:?}");
        fixture.assert_nothing_is_left(what).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_end_of_a_workspace_ends_every_tree_in_it() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut started = Vec::new();
    for (what, request) in trees(&fixture) {
        started.push(start(&fixture, &fixture.session, what, request).await);
    }
    let request = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().unwrap(), grace_ms: None };
    let reply = fixture.session.terminate_workspace(request).await.expect("an answer");
    assert_eq!(reply.ended, started.len() as u64);
    for status in &reply.processes {
        assert!(started.contains(&status.process_id), "{status:?}");
        assert_ended_whole(&fixture, &format!("{:?}", status.command), status, EndedBy::Workspace).await;
    }
    fixture.assert_nothing_is_left("after the workspace's end").await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_ends_every_tree() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut started = Vec::new();
    for (what, request) in trees(&fixture) {
        started.push((what, start(&fixture, &fixture.session, what, request).await));
    }
    let reply = fixture.session.stop(StopRequest::default()).await.expect("an answer");
    assert_eq!(reply.ended, started.len() as u64);
    fixture.assert_nothing_is_left("after the stop").await;
    for (what, id) in started {
        let status = ask::ended(&fixture.session, id).await;
        assert_ended_whole(&fixture, what, &status, EndedBy::Stop).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_is_dropped_ends_the_trees_whose_lifetime_it_is_and_no_others() {
    let Some(fixture) = Fixture::start().await else { return };
    let leaving = fixture.runner.session();
    let stays = start(&fixture, &leaving, "stays", ask::shell("echo ready; exec sleep 1000")).await;
    let mut started = Vec::new();
    for (what, mut request) in trees(&fixture) {
        request.lifetime = Lifetime::Connection;
        started.push((what, start(&fixture, &leaving, what, request).await));
    }
    drop(leaving);
    for (what, id) in started {
        let status = ask::ended(&fixture.session, id).await;
        assert_ended_whole(&fixture, what, &status, EndedBy::Connection).await;
    }
    let running = ask::running(&fixture.session).await;
    assert_eq!(running.iter().map(|status| status.process_id).collect::<Vec<_>>(), [stays]);
    let explained: Vec<i32> = running.iter().filter_map(|status| status.pid).collect();
    let left = fixture.ground.survivors.wait_until_nothing_is_left(&explained, Duration::from_secs(1));
    assert_eq!(left, []);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_command_leaves_behind_is_counted_and_ended_after_its_linger_and_its_exit_code_is_its_own() {
    let Some(fixture) = Fixture::start().await else { return };
    let cases = [
        (fixture.program("double_fork_setsid", &[]), 1, 0),
        (fixture.program("hold_stdout_open", &[]), 1, 0),
        (ask::shell("setsid sleep 1000 & sleep 1000 & exit 77"), 2, 77),
    ];
    for (request, leftovers, code) in cases {
        let what = format!("{:?}", request.command);
        let began = Instant::now();
        let (status, _) = ask::run(&fixture.session, request).await;
        assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(code)), "{what}: {status:?}");
        assert_eq!(status.termination, Some(Termination::Exited));
        let tree = status.tree.expect("a report of the tree");
        assert!(tree.confirmed && tree.leftovers == leftovers, "{what}: {tree:?}");
        assert!(began.elapsed() >= Duration::from_millis(250), "{what}: {:?}", began.elapsed());
        fixture.assert_nothing_is_left(&what).await;
    }
    // What ends by itself meanwhile has said what it had to say.
    let (status, output) = ask::run(&fixture.session, ask::shell("(sleep 0.1; echo late) & echo early")).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "early\nlate\n"));
    // Without leftovers there is no wait.
    let mut quick = ask::command(["true"]);
    quick.linger_ms = Some(30_000);
    let began = Instant::now();
    ask::run(&fixture.session, quick).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_to_be_kept_in_the_background_is_kept_until_it_is_ended_and_then_ended_whole() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut request = ask::shell("setsid sleep 1000 & echo ready; exit 3");
    request.background = Background::Keep;
    let id = start(&fixture, &fixture.session, "kept", request).await;
    // Far longer than the default linger.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(ask::running(&fixture.session).await.len(), 1);
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Terminate), Some(3)), "{status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{status:?}");
    fixture.assert_nothing_is_left("kept").await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_helper_that_somebody_else_kills_is_told_as_lost_and_takes_its_tree_with_it() {
    let Some(fixture) = Fixture::start().await else { return };
    for (what, request) in trees(&fixture) {
        let id = start(&fixture, &fixture.session, what, request).await;
        let helper = ask::running(&fixture.session).await[0].pid.expect("the helper's pid");
        codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
        let status = ask::ended(&fixture.session, id).await;
        let told = (status.ended_by, status.termination, status.exit_code);
        assert_eq!(told, (Some(EndedBy::HelperLost), Some(Termination::Unknown), None), "{what}: {status:?}");
        assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed) && status.eof, "{what}: {status:?}");
        fixture.assert_nothing_is_left(what).await;
    }
    fixture.end().await;
}
