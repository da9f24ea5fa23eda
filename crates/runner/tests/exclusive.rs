//! An `exclusive` workspace is for one process, whatever ids its directory is registered under.
#![cfg(target_os = "linux")]

use std::fs;

use codespace_policy::{HostDisk, Registry};
use codespace_runner::domain::{ErrorCode, ExecRequest, HelloRequest, PROTOCOL, RunnerError};
use codespace_runner::{HelperLocation, InProcessRunner, Runner, RunnerConfig, Session};
use codespace_testkit::fixture::{Ground, ask, sandbox_or_skip};
use codespace_testkit::programs;
use serde_json::json;

/// A Runner of these workspaces: `one` is exclusive; `same`, `link`, `inner` and `outer` are in its way, `beside` is not.
async fn start(ground: &Ground) -> Option<Session> {
    let outer = ground.workspace();
    for name in ["root/inner", "beside"] {
        fs::create_dir_all(outer.join(name)).expect("a directory");
    }
    let link = ground.home().join("link");
    std::os::unix::fs::symlink(outer.join("root"), &link).expect("a link");
    let registry = json!({"workspaces": {
        "one": {"root": outer.join("root"), "exclusive": true},
        "same": {"root": outer.join("root")},
        "link": {"root": link},
        "inner": {"root": outer.join("root/inner")},
        "outer": {"root": outer},
        "beside": {"root": outer.join("beside")},
    }});
    let registry = Registry::from_json(&registry.to_string(), &HostDisk).expect("a registry");
    let helper =
        programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", Some("CODESPACE_LINUX_SANDBOX_BIN"));
    let config = RunnerConfig { helper: HelperLocation::Path(helper), ..RunnerConfig::new(registry) };
    let session = InProcessRunner::start(config).await.expect("a Runner").session();
    let hello = HelloRequest { protocol: PROTOCOL, client: ask::client() };
    let hello = session.hello(hello).await.expect("an answer to hello");
    sandbox_or_skip(&hello.sandbox).then_some(session)
}

fn sleep(workspace: &str) -> ExecRequest {
    ExecRequest::new(workspace.parse().expect("a workspace id"), ["sleep", "1000"])
}

#[track_caller]
fn assert_busy(error: &RunnerError, workspace: &str) {
    assert_eq!(error.code, ErrorCode::WorkspaceBusy, "{workspace}: {error:?}");
    assert!(error.message.contains(workspace) && error.hint.is_some(), "{error:?}");
}

const IN_THE_WAY: [&str; 4] = ["same", "link", "inner", "outer"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_on_the_directory_and_not_on_its_id() {
    let ground = Ground::new();
    let Some(session) = start(&ground).await else { return };
    let one = session.exec(sleep("one")).await.expect("a start").process_id;
    for workspace in IN_THE_WAY {
        assert_busy(&session.exec(sleep(workspace)).await.expect_err(workspace), workspace);
    }
    assert_busy(&session.exec(sleep("one")).await.unwrap_err(), "one");
    let beside = session.exec(sleep("beside")).await.expect("a start in a directory beside it").process_id;
    assert_eq!(ask::running(&session).await.len(), 2, "a refused start leaves no process");

    // Free again in the moment in which its end is told, for each of them.
    session.terminate_process(ask::terminate(one)).await.expect("an end");
    for workspace in IN_THE_WAY {
        let other = session.exec(sleep(workspace)).await.expect(workspace).process_id;
        assert_busy(&session.exec(sleep("one")).await.expect_err(workspace), "one");
        // Where neither is exclusive, nobody is in the way of the other.
        let more = session.exec(sleep("same")).await.expect("a second one").process_id;
        for id in [other, more] {
            session.terminate_process(ask::terminate(id)).await.expect("an end");
        }
    }
    let one = session.exec(sleep("one")).await.expect("a start when all others have gone").process_id;
    for id in [one, beside] {
        session.terminate_process(ask::terminate(id)).await.expect("an end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_starts_at_the_same_moment_those_that_exclude_each_other_never_both_run() {
    let ground = Ground::new();
    let Some(session) = start(&ground).await else { return };
    for round in 0..15 {
        let workspace = IN_THE_WAY[round % IN_THE_WAY.len()];
        let (first, second) = if round % 2 == 0 { ("one", workspace) } else { (workspace, "one") };
        let (first, second) = tokio::join!(session.exec(sleep(first)), session.exec(sleep(second)));
        let outcomes = [first, second];
        let running = ask::running(&session).await;
        assert_eq!(running.len(), 1, "round {round}: {running:?}");
        for outcome in outcomes {
            match outcome {
                Ok(started) => {
                    drop(session.terminate_process(ask::terminate(started.process_id)).await.expect("an end"))
                }
                Err(error) => assert_eq!(error.code, ErrorCode::WorkspaceBusy, "{error:?}"),
            }
        }
    }
}
