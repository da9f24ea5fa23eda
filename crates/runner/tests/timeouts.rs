//! A timeout ends the process and not only the waiting for it: whatever the command does, whatever it has left behind, and
//! however far its start has come. The status shows the one that is in force.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_policy::{SandboxChoice, TimeoutPolicy};
use codespace_runner::Runner;
use codespace_runner::domain::{
    Background, EndedBy, ExecRequest, OnFull, ProcessStatus, StatusRequest, StdinMode, Termination,
};
use codespace_testkit::fixture::{Fixture, ask};

/// Far more than an end takes on a busy machine.
const SOON: Duration = Duration::from_secs(10);

fn timed(request: ExecRequest, timeout_ms: u64) -> ExecRequest {
    ExecRequest { timeout_ms: Some(timeout_ms), ..request }
}

fn assert_timed_out(what: &str, status: &ProcessStatus) {
    let told = (status.termination, status.ended_by);
    assert_eq!(told, (Some(Termination::Timeout), Some(EndedBy::Timeout)), "{what}: {status:?}");
    let tree = status.tree.as_ref().expect("a report of the tree");
    assert!(tree.confirmed && tree.leftovers == 0 && status.eof, "{what}: {status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_one_in_force_is_shown_and_never_above_the_workspaces_most() {
    let policy = TimeoutPolicy { default: Some(40_000), max: Some(50_000) };
    let Some(fixture) = Fixture::with(|workspace| workspace.timeout_ms = policy).await else { return };
    for (asked, shown) in [(None, 40_000), (Some(0), 50_000), (Some(u64::MAX), 50_000), (Some(7_000), 7_000)] {
        let request = ExecRequest { timeout_ms: asked, ..ask::command(["sleep", "1000"]) };
        let id = fixture.session.exec(request).await.expect("a start").process_id;
        let status = fixture.session.process_status(StatusRequest { process_id: id, wait_ms: 0 }).await.unwrap();
        assert_eq!(status.timeout_ms, Some(shown), "{asked:?}");
        let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
        assert_eq!(status.timeout_ms, Some(shown), "{asked:?}");
    }
    fixture.end().await;
    let Some(fixture) = Fixture::start().await else { return };
    for asked in [None, Some(0)] {
        let (status, _) = ask::run(&fixture.session, ExecRequest { timeout_ms: asked, ..ask::command(["true"]) }).await;
        assert_eq!(status.timeout_ms, None);
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_outlasts_it() {
    let scripts = [
        "exec sleep 1000",
        "trap '' TERM INT HUP QUIT; while :; do sleep 1; done",
        "while :; do :; done",
        "setsid sleep 1000; :",
        "(setsid sleep 1000 &); kill -STOP $$",
        "cat",
        "yes",
    ];
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        for script in scripts {
            for tty in [false, true] {
                let what = format!("{sandbox:?} {script} tty {tty}");
                let request = ExecRequest { tty, stdin: StdinMode::Pipe, ..timed(ask::shell(script), 500) };
                let began = Instant::now();
                let (status, _) = ask::run(&fixture.session, request).await;
                assert_timed_out(&what, &status);
                assert!(began.elapsed() >= Duration::from_millis(500) && began.elapsed() < SOON, "{what}");
            }
        }
        // Nor one that waits for a reader.
        let request = ExecRequest { on_full: OnFull::Wait, output_bytes: Some(10), ..timed(ask::shell("yes"), 500) };
        let id = fixture.session.exec(request).await.expect("a start").process_id;
        assert_timed_out("waiting for a reader", &ask::ended(&fixture.session, id).await);
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_counts_from_the_acceptance_so_that_it_ends_a_start_too() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut pending = 0;
    for timeout_ms in 1..30 {
        let request = timed(ask::command(["sleep", "1000"]), timeout_ms);
        let reply = fixture.session.exec(request).await.expect("no error: it was ended, its start did not fail");
        // The status comes with the answer where the end came first.
        pending += usize::from(reply.status.is_some());
        assert_timed_out(&format!("{timeout_ms} ms"), &ask::ended(&fixture.session, reply.process_id).await);
    }
    assert!(pending > 0, "no end came during a start");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_command_leaves_behind_does_not_outlast_it_either() {
    let Some(fixture) = Fixture::start().await else { return };
    let left = timed(ask::shell("setsid sleep 1000 & exit 3"), 1500);
    // Its linger would be longer; the command's own end stays the cause.
    let began = Instant::now();
    let (status, _) = ask::run(&fixture.session, ExecRequest { linger_ms: Some(u64::MAX), ..left.clone() }).await;
    assert!(began.elapsed() >= Duration::from_millis(1500) && began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(3)), "{status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed && tree.leftovers == 1), "{status:?}");
    // Kept in the background, there was no end before.
    let (status, _) = ask::run(&fixture.session, ExecRequest { background: Background::Keep, ..left }).await;
    assert_timed_out("a background that is kept", &status);
    assert_eq!(status.exit_code, Some(3), "{status:?}");
    fixture.end().await;
}
