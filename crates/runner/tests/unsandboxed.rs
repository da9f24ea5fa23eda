//! Without a sandbox, asked for by name: the tree still ends whole, in a PID namespace of its own and, with
//! `pid_namespace: false`, below a helper that supervises it; whatever ends it, and whoever is killed.
#![cfg(target_os = "linux")]

use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{
    EndedBy, Enforcement, ExecRequest, ProcessId, ProcessStatus, Request, StopRequest, TerminateWorkspaceRequest,
    Termination,
};
use codespace_testkit::fixture::{RunnerProcess, WORKSPACE, ask};
use codespace_testkit::{programs, signal};
use serde_json::{Value, json};

/// Both kinds, each as the registry says it.
fn kinds() -> [(&'static str, Value); 2] {
    [
        ("with a PID namespace", json!({"sandbox": "none"})),
        ("without a PID namespace", json!({"sandbox": "none", "pid_namespace": false})),
    ]
}

/// Each says `ready` when it is as bad as it gets; to be made once for each Runner, since a program that runs cannot be
/// written. Nothing here signals everybody that it can reach: without a namespace
/// that is the host. The chain of forks is bounded.
fn trees(runner: &RunnerProcess) -> Vec<(&'static str, ExecRequest)> {
    let program = |name: &str, arguments: &[&str]| {
        let program = programs::install(name, &runner.ground.workspace());
        ask::command([program.as_str()].into_iter().chain(arguments.iter().copied()))
    };
    vec![
        ("double fork with setsid", program("double_fork_setsid", &["stay"])),
        ("a chain of forks and exits", program("fork_and_exit_chain", &[])),
        ("ignored signals", program("ignore_every_signal", &[])),
        (
            "sessions in sessions",
            ask::shell("setsid sh -c 'setsid sleep 1000 & sleep 1000' & echo ready; exec sleep 1000"),
        ),
        ("stopped members", ask::shell("setsid sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$; wait")),
        ("a terminal", ExecRequest { tty: true, ..ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000") }),
        (
            "fifty sleeps",
            ask::shell("i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done; echo ready; wait"),
        ),
    ]
}

async fn start(client: &impl Runner, what: &str, request: ExecRequest) -> ProcessId {
    let started = client.exec(request).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    ask::wait_for_output(client, started.process_id, "ready").await;
    started.process_id
}

fn assert_seen_gone(what: &str, status: &ProcessStatus) {
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed && tree.detail.is_none()), "{what}: {status:?}");
    assert!(status.eof, "{what}: {status:?}");
    assert_eq!(status.sandbox, Enforcement::None, "{what}: {status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_sees_the_host_and_only_with_a_namespace_other_processes_than_the_hosts() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        let outside = runner.ground.private().join("outside");
        std::fs::write(&outside, "outside\n").unwrap();
        let script = format!("cat {}; readlink /proc/self/ns/pid; tr '\\0' ' ' < /proc/1/cmdline", outside.display());
        let (status, output) = ask::run(&client, ask::shell(&script)).await;
        assert_seen_gone(kind, &status);
        let lines: Vec<&str> = output.lines().collect();
        let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let same = lines[1] == own.to_str().unwrap();
        assert_eq!((lines[0], same), ("outside", kind.starts_with("without")), "{kind}: {output}");
        assert_eq!(output.contains("codespace-linux-sandbox"), !same, "{kind}: {output}");
        runner.assert_nothing_is_left(&[], kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminate_ends_every_tree_whole() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        for (what, request) in trees(&runner) {
            let what = format!("{kind}: {what}");
            let id = start(&client, &what, request).await;
            let status = client.terminate_process(ask::terminate(id)).await.expect("a final status");
            let told = (status.ended_by, status.termination);
            assert_eq!(told, (Some(EndedBy::Terminate), Some(Termination::Terminated)), "{what}: {status:?}");
            assert_seen_gone(&what, &status);
            runner.assert_nothing_is_left(&[], &what);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_and_the_ends_of_the_workspace_and_the_runner_end_every_tree_whole() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        let trees = trees(&runner);
        for (what, request) in trees.clone() {
            let what = format!("{kind}: {what}");
            let id = start(&client, &what, ExecRequest { timeout_ms: Some(500), ..request }).await;
            let status = ask::ended(&client, id).await;
            assert_eq!(status.ended_by, Some(EndedBy::Timeout), "{what}: {status:?}");
            assert_seen_gone(&what, &status);
            runner.assert_nothing_is_left(&[], &what);
        }
        for (what, request) in trees.clone() {
            start(&client, what, request).await;
        }
        let request = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().unwrap(), grace_ms: None };
        let ended = client.terminate_workspace(request).await.expect("an answer");
        ended.processes.iter().for_each(|status| assert_seen_gone(&format!("{kind}: {:?}", status.command), status));
        runner.assert_nothing_is_left(&[], &format!("{kind}: after the workspace's end"));
        for (what, request) in trees {
            start(&client, what, request).await;
        }
        client.stop(StopRequest::default()).await.expect("an answer");
        assert_eq!(runner.ended().await.code(), Some(0));
        runner.assert_nothing_is_left(&[], &format!("{kind}: after the stop"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_behind_at_its_own_end_is_counted_and_ended() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        let double = programs::install("double_fork_setsid", &runner.ground.workspace());
        let held = programs::install("hold_stdout_open", &runner.ground.workspace());
        let cases = [
            (ask::command([double.as_str()]), 1, 0),
            (ask::command([held.as_str()]), 1, 0),
            (ask::shell("setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000 & exit 77"), 3, 77),
            (ask::shell("exit 3"), 0, 3),
        ];
        for (request, leftovers, code) in cases {
            let what = format!("{kind}: {:?}", request.command);
            let (status, _) = ask::run(&client, request).await;
            assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(code)), "{what}: {status:?}");
            assert_seen_gone(&what, &status);
            assert_eq!(status.tree.as_ref().map(|tree| tree.leftovers), Some(leftovers), "{what}: {status:?}");
            runner.assert_nothing_is_left(&[], &what);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_is_killed_takes_its_tree_with_it() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        for (what, request) in trees(&runner) {
            let what = format!("{kind}: {what}");
            let id = start(&client, &what, request).await;
            let helper = ask::running(&client).await[0].pid.expect("the helper's pid");
            codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
            let status = ask::ended(&client, id).await;
            let told = (status.ended_by, status.termination);
            assert_eq!(told, (Some(EndedBy::HelperLost), Some(Termination::Unknown)), "{what}: {status:?}");
            assert_seen_gone(&what, &status);
            runner.assert_nothing_is_left(&[], &what);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_killed_takes_every_tree_with_it() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let trees = trees(&runner);
        for (what, request) in trees.clone() {
            let what = format!("{kind}: {what}");
            let client = runner.connect().await;
            start(&client, &what, request).await;
            runner.kill();
            runner.assert_nothing_is_left(&[], &what);
            runner.restart().await;
        }
        // All at the same time, and while some are being started.
        let client = runner.connect().await;
        for (what, request) in trees.clone() {
            start(&client, what, request).await;
        }
        let pending: Vec<_> =
            trees.into_iter().map(|(_, request)| client.call(Request::Exec(Box::new(request)))).collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        runner.kill();
        drop(pending);
        runner.assert_nothing_is_left(&[], &format!("{kind}: all at the same time"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_was_stopped_when_the_runner_died_ends_its_tree_all_the_same() {
    for (kind, workspace) in kinds() {
        for as_the_runner_does in [true, false] {
            let Some(mut runner) = RunnerProcess::with(workspace.clone(), &[]).await else { return };
            let client = runner.connect().await;
            let script = "setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo ready; wait";
            let id = client.exec(ask::shell(script)).await.expect("a start").process_id;
            ask::wait_for_output(&client, id, "ready").await;
            let pid = ask::running(&client).await[0].pid.expect("a helper");
            signal(pid, libc::SIGSTOP).expect("to stop the helper");
            if as_the_runner_does {
                // In the middle of its own walk.
                drop(client.call(Request::TerminateProcess(ask::terminate(id))));
            }
            runner.kill();
            runner.assert_nothing_is_left(&[], &format!("{kind}: a stopped helper ({as_the_runner_does})"));
        }
    }
}
