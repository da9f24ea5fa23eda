//! A fork bomb without a bound of its own, where there are few numbers for processes (as root a PID namespace with a low
//! `pid_max`, as another user RLIMIT_NPROC): it takes all of them, is ended whole all the same, and the Runner goes on.
#![cfg(target_os = "linux")]

mod few_numbers;

use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, State, StatusRequest};
use codespace_testkit::fixture::ask;
use codespace_testkit::tell;
use serde_json::json;

/// Enough for the Runner, and soon full.
const NUMBERS: i32 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bomb_that_fills_its_namespace_is_ended_whole_by_every_end() {
    for keys in [json!({}), json!({"sandbox": "none"})] {
        let Some(mut runner) = few_numbers::runner(keys.clone(), NUMBERS).await else { return };
        let client = runner.connect().await;
        for end in [EndedBy::Terminate, EndedBy::Timeout, EndedBy::Workspace] {
            let what = format!("{keys}: {end:?}");
            let mut bomb = ask::command(["bash", "-c", "b() { b | b & }; echo ready; b; exec sleep 1000"]);
            bomb.timeout_ms = (end == EndedBy::Timeout).then_some(1500);
            let id = client.exec(bomb).await.unwrap_or_else(|error| panic!("{what}: {error:?}")).process_id;
            ask::wait_for_output(&client, id, "ready").await;
            // No event tells that it is full. Once so long that no idle thread of the Runner's is left: an end must not need
            // a new one.
            let full = if end == EndedBy::Terminate { Duration::from_secs(12) } else { Duration::from_millis(500) };
            tokio::time::sleep(full).await;
            match end {
                EndedBy::Workspace => {
                    let request = codespace_runner::domain::TerminateWorkspaceRequest {
                        workspace_id: "w".parse().expect("the fixture's workspace"),
                        grace_ms: None,
                    };
                    drop(client.terminate_workspace(request).await.expect("an answer"));
                }
                EndedBy::Terminate => drop(client.terminate_process(ask::terminate(id)).await.expect("an answer")),
                _ => {}
            }
            let status =
                client.process_status(StatusRequest { process_id: id, wait_ms: 10_000 }).await.expect("a status");
            assert_eq!((status.state, status.ended_by), (State::Exited, Some(end)), "{what}: {status:?}");
            assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{what}: {status:?}");
            tell(&format!("{what}: {:?}", status.tree));
            runner.assert_nothing_is_left(&[], &what);
            let after = ask::run(&client, ask::command(["true"])).await.0;
            assert_eq!(after.exit_code, Some(0), "{what}: {after:?}");
        }
    }
}
