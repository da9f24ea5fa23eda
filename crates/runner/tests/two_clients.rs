//! The real Runner over its socket: several clients and one process, lifetimes, keys, and the Runner's own end.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{
    CloseStdinRequest, EndedBy, ErrorCode, Lifetime, ListRequest, ProcessStatus, Request, SignalName, SignalRequest,
    State, StdinMode, TerminateWorkspaceRequest, WriteStdinRequest,
};
use codespace_testkit::fixture::{RunnerProcess, WORKSPACE, ask};

fn roots(running: &[ProcessStatus]) -> Vec<i32> {
    running.iter().filter_map(|status| status.pid).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_one_client_started_is_read_written_to_signalled_and_ended_by_another() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (one, other) = (runner.connect().await, runner.connect().await);
    let mut request =
        ask::shell("trap 'echo signalled' USR1; echo ready; while :; do read line && echo got $line; done");
    request.stdin = StdinMode::Pipe;
    let id = one.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(&other, id, "ready").await;
    other.signal_process(SignalRequest { process_id: id, signal: SignalName::Usr1 }).await.expect("a signal");
    ask::wait_for_output(&one, id, "signalled").await;
    let write =
        WriteStdinRequest { process_id: id, data: "words\n".into(), encoding: Default::default(), write_key: None };
    assert_eq!(other.write_stdin(write).await.expect("a write").written, 6);
    ask::wait_for_output(&one, id, "got words").await;

    // The one waits for the end while the other ends it: both are told the same.
    let waiting = async { ask::ended(&one, id).await };
    let (waited, ended) = tokio::join!(waiting, other.terminate_process(ask::terminate(id)));
    let ended = *ended.expect("a final status");
    assert_eq!(waited, ended);
    assert_eq!(ended.ended_by, Some(EndedBy::Terminate));
    let late = one.close_stdin(CloseStdinRequest { process_id: id }).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ProcessNotRunning);
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_lifetime_ends_with_its_client_and_a_workspace_lifetime_does_not() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (leaving, stays) = (runner.connect().await, runner.connect().await);
    let script = "setsid sleep 1000 & echo ready; exec sleep 1000";
    let kept = leaving.exec(ask::shell(script)).await.expect("a start").process_id;
    let mut request = ask::shell(script);
    request.lifetime = Lifetime::Connection;
    let tied = leaving.exec(request.clone()).await.expect("a start").process_id;
    for id in [kept, tied] {
        ask::wait_for_output(&stays, id, "ready").await;
    }
    // Its start is still pending when its client leaves.
    request.process_key = Some(ask::key("pending"));
    drop(leaving.call(Request::Exec(Box::new(request))));
    ask::running(&leaving).await;
    drop(leaving);

    let status = ask::ended(&stays, tied).await;
    assert_eq!(status.ended_by, Some(EndedBy::Connection), "{status:?}");
    assert!(status.tree.is_some_and(|tree| tree.confirmed));
    let all = stays.list_processes(ListRequest::default()).await.expect("a list").processes;
    let pending = all.iter().find(|status| status.process_key == Some(ask::key("pending"))).expect("the pending start");
    assert_eq!(ask::ended(&stays, pending.process_id).await.ended_by, Some(EndedBy::Connection));
    let running = ask::running(&stays).await;
    assert_eq!(running.iter().map(|status| status.process_id).collect::<Vec<_>>(), [kept]);
    runner.assert_nothing_is_left(&roots(&running), "after the client left");
    stays.terminate_process(ask::terminate(kept)).await.expect("a final status");
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_with_the_same_key_is_the_same_process_and_another_request_is_a_conflict() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (one, other) = (runner.connect().await, runner.connect().await);
    let mut request = ask::shell(": > ran-$$; exec sleep 1000");
    request.process_key = Some(ask::key("k"));
    // At the same time from both, then again when it runs, then again when it has ended.
    let (first, second) = tokio::join!(one.exec(request.clone()), other.exec(request.clone()));
    let id = first.expect("a start").process_id;
    assert_eq!(second.expect("the same start").process_id, id);
    assert_eq!(other.exec(request.clone()).await.expect("the same process").process_id, id);
    let mut another = request.clone();
    another.command.push("more".into());
    let conflict = other.exec(another.clone()).await.unwrap_err();
    assert_eq!(conflict.code, ErrorCode::KeyConflict, "{conflict:?}");
    let status = one.terminate_process(ask::terminate_by_key("k")).await.expect("a final status");
    assert_eq!(status.process_id, id);
    assert_eq!(other.exec(request).await.expect("the same process").process_id, id);
    assert_eq!(other.exec(another).await.unwrap_err().code, ErrorCode::KeyConflict);
    assert_eq!(ask::running(&one).await, []);
    assert!(runner.ground.files("ran-").len() <= 1, "it ran more than once");
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_while_its_workspace_is_being_ended_is_refused_and_one_after_that_is_not() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (one, other) = (runner.connect().await, runner.connect().await);
    // Lets the end take as long as the grace.
    let stubborn =
        one.exec(ask::shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")).await.expect("a start");
    ask::wait_for_output(&one, stubborn.process_id, "ready").await;
    let request = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().unwrap(), grace_ms: Some(700) };
    let ending = one.terminate_workspace(request);
    // Requests of one connection take effect in order, so this one comes after.
    let refused = one.exec(ask::command(["touch", "slipped-in"]));
    let (ended, refused) = tokio::join!(ending, refused);
    assert_eq!(refused.unwrap_err().code, ErrorCode::WorkspaceEnding);
    let ended = ended.expect("an answer");
    assert_eq!((ended.ended, ended.processes[0].ended_by), (1, Some(EndedBy::Workspace)));
    assert_eq!(runner.ground.files("slipped-in"), Vec::<String>::new());
    let (status, _) = ask::run(&other, ask::command(["true"])).await;
    assert_eq!(status.exit_code, Some(0));
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_every_tree_answers_who_waits_and_the_runner_exits_with_0() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    let id =
        client.exec(ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000")).await.expect("a start").process_id;
    ask::wait_for_output(&client, id, "ready").await;
    let waiting = tokio::spawn(
        client
            .call(Request::ProcessStatus(codespace_runner::domain::StatusRequest { process_id: id, wait_ms: 30_000 })),
    );
    // The request is taken before the signal is sent.
    ask::running(&client).await;
    runner.signal(libc::SIGTERM);
    let status = runner.ended().await;
    assert_eq!(status.code(), Some(0));
    match waiting.await.unwrap().expect("a final status") {
        codespace_runner::domain::Reply::Status(status) => {
            assert_eq!((status.state, status.ended_by), (State::Exited, Some(EndedBy::Stop)));
        }
        other => panic!("{other:?}"),
    }
    runner.assert_nothing_is_left(&[], "after the stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_killed_takes_its_running_trees_with_it_and_the_next_one_starts_afresh() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    for script in ["setsid sleep 1000 & echo ready; exec sleep 1000", "trap '' TERM HUP INT; echo ready; sleep 1000; :"]
    {
        let id = client.exec(ask::shell(script)).await.expect("a start").process_id;
        ask::wait_for_output(&client, id, "ready").await;
    }
    runner.kill();
    runner.assert_nothing_is_left(&[], "after the Runner was killed");
    let lost = Instant::now();
    assert_eq!(client.exec(ask::command(["true"])).await.unwrap_err().code, ErrorCode::ResourceUnavailable);
    assert!(lost.elapsed() < Duration::from_secs(10));
    runner.restart().await;
    let client = runner.connect().await;
    assert_eq!(client.list_processes(ListRequest::default()).await.expect("a list").processes, []);
    let (status, output) = ask::run(&client, ask::shell("echo again")).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "again\n"));
    runner.assert_nothing_is_left(&[], "after the next one's first command");
}
