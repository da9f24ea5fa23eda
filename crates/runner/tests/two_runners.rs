//! Two Runners in one process that takes orphans in: neither takes the other's children for them.
#![cfg(target_os = "linux")]

use codespace_policy::{HostDisk, Registry, Workspace};
use codespace_runner::domain::{ExecRequest, State, StatusRequest, StopRequest};
use codespace_runner::{HelperLocation, InProcessRunner, Runner as _, RunnerConfig, become_subreaper};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};
use codespace_testkit::programs;

fn leaves_an_orphan() -> ExecRequest {
    ExecRequest { linger_ms: Some(0), ..ask::shell("(sleep 1000 &) ; exit 0") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_two_runners_starts_is_no_orphan_to_the_other() {
    become_subreaper().expect("to take orphans in");
    let Some(one) = Fixture::start().await else { return };
    let directory = one.ground.private().join("other");
    std::fs::create_dir(&directory).expect("a directory");
    let registry = Registry::single(WORKSPACE.parse().expect("an id"), Workspace::new(&directory), &HostDisk);
    let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
    let config = || RunnerConfig {
        helper: HelperLocation::Path(helper.clone()),
        ..RunnerConfig::new(registry.as_ref().expect("a registry").clone())
    };
    // The second one looks at its sandbox while the first one sees ends and looks for what they have left.
    let busy = async {
        for _ in 0..20 {
            ask::run(&one.session, leaves_an_orphan()).await;
        }
    };
    let start = async {
        for _ in 0..5 {
            let other = InProcessRunner::start(config()).await.expect("another Runner");
            other.session().stop(StopRequest::default()).await.expect("an answer to stop");
        }
        InProcessRunner::start(config()).await.expect("another Runner")
    };
    let ((), other) = tokio::join!(busy, start);

    let session = other.session();
    let process_id = session.exec(ask::shell("exec sleep 1000")).await.expect("a start").process_id;
    for _ in 0..10 {
        ask::run(&one.session, leaves_an_orphan()).await;
    }
    let status = session.process_status(StatusRequest { process_id, wait_ms: 0 }).await.expect("a status");
    assert_eq!(status.state, State::Running, "{status:?}");
    session.stop(StopRequest::default()).await.expect("an answer to stop");
    one.end().await;
}
