//! The helper is killed first: what it leaves comes to the Runner, a subreaper, and is ended and reaped there. No zombie
//! stays below the Runner, and what other helpers hold is left alone.
#![cfg(target_os = "linux")]

use codespace_runner::Runner;
use codespace_runner::domain::{Encoding, EndedBy, ExecRequest, ProcessId, StdinMode, WriteStdinRequest};
use codespace_runner::uds::UdsClient;
use codespace_testkit::fixture::{RunnerProcess, ask};
use codespace_testkit::programs;
use serde_json::{Value, json};

fn kinds() -> [(&'static str, Value); 3] {
    [
        ("sandboxed", json!({})),
        ("in a PID namespace", json!({"sandbox": "none"})),
        ("supervised", json!({"sandbox": "none", "pid_namespace": false})),
    ]
}

async fn start(client: &UdsClient, request: ExecRequest) -> ProcessId {
    let id = client.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(client, id, "ready").await;
    id
}

async fn helper_of(client: &UdsClient, id: ProcessId) -> i32 {
    let running = ask::running(client).await;
    let process = running.iter().find(|status| status.process_id == id).expect("the process is listed");
    process.pid.expect("the helper's pid")
}

/// Live or dead, as the kernel lists them.
fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_helper_leaves_is_ended_and_reaped_and_other_trees_go_on() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        let request = ExecRequest {
            stdin: StdinMode::Pipe,
            ..ask::shell("setsid sleep 1000 & echo ready; read line; echo still here; sleep 1000")
        };
        let stays = start(&client, request).await;
        let stays_helper = helper_of(&client, stays).await;
        let stubborn = programs::install("ignore_every_signal", &runner.ground.workspace());
        let requests = [
            ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000"),
            ask::shell("(setsid sleep 1000 &) ; sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$; wait"),
            ask::shell(
                "i=0; while [ $i -lt 40 ]; do (setsid sh -c 'sleep 1000; :' &) ; i=$((i+1)); done; echo ready; wait; sleep 1000",
            ),
            ask::command([stubborn.as_str()]),
        ];
        for request in requests {
            let what = format!("{kind}: {:?}", request.command);
            let id = start(&client, request).await;
            let helper = helper_of(&client, id).await;
            codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
            let status = ask::ended(&client, id).await;
            assert_eq!(status.ended_by, Some(EndedBy::HelperLost), "{what}: {status:?}");
            assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{what}: {status:?}");
            runner.assert_nothing_is_left(&[stays_helper], &what);
            assert_eq!(children(runner.pid()), [stays_helper], "{what}: dead or alive");
        }
        let encoding = Encoding::Utf8;
        let write = WriteStdinRequest { process_id: stays, data: "go\n".into(), encoding, write_key: None };
        client.write_stdin(write).await.expect("a write");
        ask::wait_for_output(&client, stays, "still here").await;
        client.terminate_process(ask::terminate(stays)).await.expect("a final status");
        runner.assert_nothing_is_left(&[], kind);
        assert_eq!(children(runner.pid()), Vec::<i32>::new(), "{kind}: dead or alive");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_helpers_that_are_killed_in_the_same_moment_leave_nothing() {
    for (kind, keys) in kinds() {
        let Some(mut runner) = RunnerProcess::with(keys, &[]).await else { return };
        let client = runner.connect().await;
        let mut started = Vec::new();
        for _ in 0..8 {
            started.push(
                start(&client, ask::shell("setsid sleep 1000 & (setsid sleep 1000 &) ; echo ready; exec sleep 1000"))
                    .await,
            );
        }
        let helpers: Vec<i32> = ask::running(&client).await.iter().filter_map(|status| status.pid).collect();
        assert_eq!(helpers.len(), started.len());
        for helper in helpers {
            codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
        }
        for id in started {
            let status = ask::ended(&client, id).await;
            assert_eq!(status.ended_by, Some(EndedBy::HelperLost), "{kind}: {status:?}");
            assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{kind}: {status:?}");
        }
        runner.assert_nothing_is_left(&[], kind);
        assert_eq!(children(runner.pid()), Vec::<i32>::new(), "{kind}: dead or alive");
        // It goes on.
        let (status, output) = ask::run(&client, ask::shell("echo next")).await;
        assert_eq!((status.exit_code, output.as_str()), (Some(0), "next\n"), "{kind}");
    }
}
