//! The end of a workspace and of the Runner: starts that are pending are answered first, with what became of them; whoever
//! does not take that answer holds up nobody.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{
    EndedBy, ErrorCode, ExecRequest, Reply, Request, State, StopRequest, TerminateWorkspaceRequest,
};
use codespace_testkit::fixture::{Fixture, WORKSPACE, ask};

/// Far more than an end takes on a busy machine.
const SOON: Duration = Duration::from_secs(15);

fn start() -> Request {
    Request::Exec(Box::new(ExecRequest { wait_ms: u64::MAX, ..ask::command(["sleep", "1000"]) }))
}

/// Both ends, with the cause that they give.
fn ends() -> [(Request, EndedBy); 2] {
    let workspace = TerminateWorkspaceRequest { workspace_id: WORKSPACE.parse().expect("an id"), grace_ms: None };
    [
        (Request::TerminateWorkspace(workspace), EndedBy::Workspace),
        (Request::Stop(StopRequest::default()), EndedBy::Stop),
    ]
}

fn count(reply: &Reply) -> u64 {
    match reply {
        Reply::TerminateWorkspace(reply) => reply.ended,
        Reply::Stop(reply) => reply.ended,
        other => panic!("another reply: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_start_that_is_pending_is_answered_first_and_a_later_one_is_refused() {
    for (end, cause) in ends() {
        let Some(fixture) = Fixture::start().await else { return };
        let session = &fixture.session;
        let (pending, ending, late) = (session.call(start()), session.call(end), session.call(start()));
        let answered = AtomicBool::new(false);
        let pending = async {
            let reply = pending.await;
            answered.store(true, Ordering::SeqCst);
            reply
        };
        let ending = async {
            let reply = ending.await;
            assert!(answered.load(Ordering::SeqCst), "{cause:?} came before the answer to the start");
            reply
        };
        let (started, ended, late) = tokio::join!(pending, ending, late);
        let Reply::Exec(started) = started.expect("no error: it was ended") else { panic!("another reply") };
        let status = started.status.expect("what became of it");
        assert_eq!((status.state, status.ended_by), (State::Exited, Some(cause)), "{status:?}");
        assert_eq!(count(&ended.expect("an answer")), 1);
        let code = if cause == EndedBy::Stop { ErrorCode::RunnerStopping } else { ErrorCode::WorkspaceEnding };
        assert_eq!(late.expect_err("a refusal").code, code);
        fixture.assert_nothing_is_left("after the end").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_does_not_take_the_answer_to_a_start_holds_up_no_end() {
    for (end, cause) in ends() {
        let Some(fixture) = Fixture::start().await else { return };
        // Never polled, as that of a client that has stopped reading.
        let not_taken: Vec<_> = (0..3).map(|_| fixture.session.call(start())).collect();
        let ended = tokio::time::timeout(SOON, fixture.runner.session().call(end)).await;
        assert_eq!(count(&ended.expect("an end in time").expect("an answer")), 3, "{cause:?}");
        for start in not_taken {
            let Reply::Exec(started) = start.await.expect("it is there for whoever comes late") else { panic!() };
            assert_eq!(started.status.and_then(|status| status.ended_by), Some(cause));
        }
        fixture.assert_nothing_is_left("after the end").await;
    }
}
