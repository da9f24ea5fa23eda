//! A command that ends by itself: what it leaves behind is counted, has its linger to finish, and is then ended. Without
//! leftovers there is no wait, and who holds the output open delays nothing.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ExecRequest, Phase, ProcessStatus, State, Termination};
use codespace_testkit::fixture::{Fixture, ask};

const DEFAULT_LINGER: Duration = Duration::from_millis(250);

/// Longer than any test: a wait for it would be seen.
const FOR_EVER: u64 = 100_000;

/// Far more than an end takes on a busy machine, far less than [`FOR_EVER`].
const SOON: Duration = Duration::from_secs(10);

fn lingering(request: ExecRequest, linger_ms: u64) -> ExecRequest {
    ExecRequest { linger_ms: Some(linger_ms), ..request }
}

fn on_a_terminal(request: ExecRequest) -> ExecRequest {
    ExecRequest { tty: true, ..request }
}

/// Runs it to its end; nothing of it is left.
async fn run(fixture: &Fixture, request: ExecRequest) -> (ProcessStatus, Duration) {
    let what = format!("{:?}", request.command);
    let began = Instant::now();
    let (status, _) = ask::run(&fixture.session, request).await;
    let took = began.elapsed();
    assert_eq!(status.ended_by, Some(EndedBy::Command), "{what}: {status:?}");
    let tree = status.tree.as_ref().expect("a report of the tree");
    assert!(tree.confirmed && tree.detail.is_none(), "{what}: {status:?}");
    assert!(status.eof, "{what}: {status:?}");
    fixture.assert_nothing_is_left(&what).await;
    (status, took)
}

fn leftovers(status: &ProcessStatus) -> u64 {
    status.tree.as_ref().expect("a report of the tree").leftovers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leftovers_have_250_ms_by_default_and_are_counted_wherever_they_have_gone() {
    let Some(fixture) = Fixture::start().await else { return };
    let cases = [
        (ask::shell("sleep 1000 & exit 7"), 1, 7),
        (ask::shell("sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; exit 0"), 3, 0),
        (ask::shell("setsid sh -c 'sleep 1000 & sleep 1000; :' & sleep 0.2; exit 1"), 3, 1),
        (ask::shell("sleep 1000 & kill -STOP $!; exit 2"), 1, 2),
        (fixture.program("double_fork_setsid", &[]), 1, 0),
        (fixture.program("hold_stdout_open", &[]), 1, 0),
        (on_a_terminal(ask::shell("setsid sleep 1000 & sleep 0.1; exit 4")), 1, 4),
    ];
    for (request, count, code) in cases {
        let what = format!("{:?}", request.command);
        let (status, took) = run(&fixture, request).await;
        assert_eq!((leftovers(&status), status.exit_code), (count, Some(code)), "{what}: {status:?}");
        assert!(took >= DEFAULT_LINGER && took < SOON, "{what}: {took:?}");
        let proof = Duration::from_millis(status.tree.expect("a report of the tree").took_ms);
        assert!(proof >= DEFAULT_LINGER - Duration::from_millis(1), "{what}: from the command's end: {proof:?}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_a_linger_of_0_leftovers_are_ended_at_once_and_counted_all_the_same() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "sleep 1000 & setsid sleep 1000 & sleep 1000 & exit 3";
    for request in [ask::shell(script), ask::shell("i=0; while [ $i -lt 50 ]; do sleep 1000 & i=$((i+1)); done")] {
        let expected = if request.command[2] == script.into() { 3 } else { 50 };
        let (status, _) = run(&fixture, lingering(request, 0)).await;
        assert_eq!(leftovers(&status), expected, "{status:?}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leftover_that_finishes_within_its_linger_is_waited_for_and_no_longer() {
    let Some(fixture) = Fixture::start().await else { return };
    let request = lingering(ask::shell("(sleep 0.3; echo late; echo later > file) & echo early; exit 5"), FOR_EVER);
    let began = Instant::now();
    let (status, output) = ask::run(&fixture.session, request).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(5), "early\nlate\n"));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(leftovers(&status) >= 1, "{status:?}");
    assert_eq!(fixture.ground.files("file"), ["file"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_leftovers_there_is_no_wait_and_the_dead_are_none() {
    let Some(fixture) = Fixture::start().await else { return };
    let cases = [
        ask::command(["true"]),
        on_a_terminal(ask::command(["true"])),
        // Its children have ended and nobody has waited for them.
        ask::shell("true & true & exec sleep 0.3"),
        ask::shell("setsid true & (setsid true &) ; exec sleep 0.3"),
    ];
    for request in cases {
        let (status, took) = run(&fixture, lingering(request, FOR_EVER)).await;
        assert_eq!((leftovers(&status), status.exit_code), (0, Some(0)), "{status:?}");
        assert!(took < SOON, "{took:?}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_command_that_dies_of_a_signal_leaves_its_leftovers_the_same_time() {
    let Some(fixture) = Fixture::start().await else { return };
    let (status, took) = run(&fixture, ask::shell("setsid sleep 1000 & kill -SEGV $$; sleep 1000")).await;
    assert_eq!((status.termination, leftovers(&status)), (Some(Termination::Signaled), 1), "{status:?}");
    assert_eq!(status.signal.map(|signal| signal.number), Some(libc::SIGSEGV));
    assert!(took >= DEFAULT_LINGER, "{took:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_holds_the_output_open_does_not_delay_its_end() {
    let Some(fixture) = Fixture::start().await else { return };
    for linger_ms in [0, 100] {
        let request = lingering(fixture.program("hold_stdout_open", &[]), linger_ms);
        let started = fixture.session.exec(request).await.expect("a start");
        let status = ask::ended(&fixture.session, started.process_id).await;
        assert!(status.eof && leftovers(&status) == 1, "{status:?}");
        ask::assert_eof_within_a_second(&fixture.session, started.process_id).await;
        fixture.assert_nothing_is_left("who held the output").await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_end_that_is_asked_for_during_the_linger_makes_it_sooner_and_is_not_its_cause() {
    let Some(fixture) = Fixture::start().await else { return };
    let request = lingering(ask::shell("setsid sleep 1000 & echo ready; exit 6"), FOR_EVER);
    let began = Instant::now();
    let id = fixture.session.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(&fixture.session, id, "ready").await;
    let lingers = loop {
        let running = ask::running(&fixture.session).await;
        if running[0].phase == Some(Phase::Ending) {
            break running;
        }
        assert!(began.elapsed() < SOON, "its end does not show: {running:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((lingers.len(), lingers[0].state, lingers[0].eof), (1, State::Running, false), "{lingers:?}");
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    let told = (status.ended_by, status.termination, status.exit_code);
    assert_eq!(told, (Some(EndedBy::Command), Some(Termination::Exited), Some(6)), "{status:?}");
    assert!(leftovers(&status) == 1 && began.elapsed() < SOON * 2, "{:?}: {status:?}", began.elapsed());
    fixture.end().await;
}
