//! An end, or the Runner's own death, at a random moment of a start: nothing of the tree lives a second later, and the
//! command never starts after the answer.
//!
//! `CODESPACE_KILL_TRIES` sets the number of tries (200), `CODESPACE_SEED` plays a run again.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ErrorCode, ExecRequest, Reply, Request, Stage, State, Termination};
use codespace_testkit::fixture::{Fixture, RunnerProcess, ask};
use codespace_testkit::random::Random;
use codespace_testkit::tell;

/// So many tries are made before what they left is looked for: the second that they have passes once for all of them.
const BATCH: usize = 50;

/// After this nothing may live.
const SETTLED: Duration = Duration::from_secs(1);

/// How many starts a killed Runner has under way.
const STARTS_PER_RUNNER: usize = 2;

fn tries() -> usize {
    std::env::var("CODESPACE_KILL_TRIES").map_or(200, |tries| tries.parse().expect("CODESPACE_KILL_TRIES is a number"))
}

/// Its first act is to leave a file in the workspace.
fn marked(name: &str) -> ExecRequest {
    let mut request = ask::command(["/bin/sh", "-c", ": > \"$0\"; exec sleep 1000", name]);
    request.process_key = Some(ask::key(name));
    request
}

/// Of so many at once as a kill will meet, and with everything cold that a new Runner has cold.
async fn median_start_of_a_fresh_runner(runner: &mut RunnerProcess) -> Duration {
    let mut taken = Vec::new();
    for _ in 0..4 {
        runner.restart().await;
        let client = runner.connect().await;
        let timed = async || {
            let began = Instant::now();
            (client.exec(ask::command(["true"])).await.expect("a start"), began.elapsed())
        };
        let (first, second) = tokio::join!(timed(), timed());
        for (started, took) in [first, second] {
            taken.push(took);
            ask::ended(&client, started.process_id).await;
        }
    }
    taken.sort();
    taken[taken.len() / 2]
}

/// Waits with the precision of a fraction of a start.
async fn sleep(duration: Duration) {
    // The runtime's timer counts in milliseconds; a start takes a few dozen.
    let until = Instant::now() + duration;
    tokio::time::sleep(duration.saturating_sub(Duration::from_millis(2))).await;
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_terminate_at_a_random_moment_of_a_start_leaves_nothing_and_no_command_starts_after_the_answer() {
    let mut random = Random::announced("random terminate");
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let (tries, mut pending, mut ran, mut start) = (tries(), 0, 0, Duration::ZERO);
    for batch in (0..tries).collect::<Vec<_>>().chunks(BATCH) {
        // Each time anew: how busy the machine is changes.
        start = ask::median_start(session).await;
        let mut answered = Vec::new();
        for number in batch {
            let name = format!("ran-{number}");
            let marker = fixture.workspace().join(&name);
            let exec = tokio::spawn(session.call(Request::Exec(Box::new(marked(&name)))));
            sleep(random.up_to(start * 3 / 2)).await;
            let was_pending = !exec.is_finished();
            let status = session.terminate_process(ask::terminate_by_key(&name)).await.expect("a final status");
            answered.push((marker.exists(), marker));
            pending += usize::from(was_pending);
            assert_eq!((status.state, status.ended_by), (State::Exited, Some(EndedBy::Terminate)), "{status:?}");
            assert_eq!(status.termination, Some(Termination::Terminated));
            assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "try {number}: {status:?}");
            assert!(status.eof, "try {number}: {status:?}");
            exec.await.expect("the exec's task").unwrap_or_else(|error| panic!("try {number}: exec: {error:?}"));
        }
        let last_answer = Instant::now();
        fixture.assert_nothing_is_left(&format!("after the tries up to {}", batch[batch.len() - 1])).await;
        tokio::time::sleep(SETTLED.saturating_sub(last_answer.elapsed())).await;
        for (ran_before, marker) in answered {
            ran += usize::from(ran_before);
            assert_eq!(marker.exists(), ran_before, "{} came after the answer", marker.display());
        }
    }
    tell(&format!(
        "random terminate: {tries} tries, {pending} before the start was answered, {ran} commands ran, 0 survivors, start {start:?}"
    ));
    assert!(pending * 4 >= tries, "only {pending} of {tries} ends met a start that was under way");
    assert!(ran > 0, "no command ever ran, so nothing was proven about those that did not");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_helper_that_is_killed_at_a_random_moment_of_a_start_takes_everything_with_it_and_is_told() {
    let mut random = Random::announced("random kill of the helper");
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    let (tries, mut failed_starts, mut ran, mut start) = (tries(), 0, 0, Duration::ZERO);
    for batch in (0..tries).collect::<Vec<_>>().chunks(BATCH) {
        // Each time anew: how busy the machine is changes.
        start = ask::median_start(session).await;
        let mut answered = Vec::new();
        for number in batch {
            let name = format!("ran-{number}");
            let marker = fixture.workspace().join(&name);
            let exec = tokio::spawn(session.call(Request::Exec(Box::new(marked(&name)))));
            sleep(random.up_to(start * 3 / 2)).await;
            kill_helper(session).await;
            match exec.await.expect("the exec's task") {
                // Before its execve it is a failed start, and no slot is left.
                Err(error) => {
                    assert_eq!(
                        (error.code, error.stage),
                        (ErrorCode::ProcessSpawnFailed, Some(Stage::Sandbox)),
                        "{error:?}"
                    );
                    failed_starts += 1;
                }
                Ok(Reply::Exec(reply)) => {
                    let status = ask::ended(session, reply.process_id).await;
                    let told = (status.ended_by, status.termination);
                    assert_eq!(
                        told,
                        (Some(EndedBy::HelperLost), Some(Termination::Unknown)),
                        "try {number}: {status:?}"
                    );
                    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "try {number}: {status:?}");
                }
                Ok(other) => panic!("try {number}: {other:?}"),
            }
            answered.push((marker.exists(), marker));
        }
        let last_answer = Instant::now();
        fixture.assert_nothing_is_left(&format!("after the tries up to {}", batch[batch.len() - 1])).await;
        tokio::time::sleep(SETTLED.saturating_sub(last_answer.elapsed())).await;
        for (ran_before, marker) in answered {
            ran += usize::from(ran_before);
            assert_eq!(marker.exists(), ran_before, "{} came after the answer", marker.display());
        }
    }
    tell(&format!(
        "random kill of the helper: {tries} tries, {failed_starts} failed the start, {ran} commands ran, 0 survivors, start {start:?}"
    ));
    assert!(failed_starts * 4 >= tries, "only {failed_starts} of {tries} kills met a start that was under way");
    assert!(ran > 0, "no command ever ran, so nothing was proven about those that did not");
    fixture.end().await;
}

/// Kills the one helper that there is, as soon as there is one.
async fn kill_helper(runner: &impl Runner) {
    let until = Instant::now() + ask::LONG;
    loop {
        if let Some(pid) = ask::running(runner).await.first().and_then(|status| status.pid) {
            // It is listed until it has been reaped, so its pid is its own.
            return codespace_testkit::signal(pid, libc::SIGKILL).expect("to kill the helper");
        }
        assert!(Instant::now() < until, "no helper ever came");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_runner_that_is_killed_at_a_random_moment_of_a_start_leaves_nothing() {
    let mut random = Random::announced("random kill of the Runner");
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (mut pending, mut latest, mut start) = (0, None, Duration::ZERO);
    let tries = tries().div_ceil(STARTS_PER_RUNNER) * STARTS_PER_RUNNER;
    for batch in (0..tries).collect::<Vec<_>>().chunks(BATCH) {
        start = median_start_of_a_fresh_runner(&mut runner).await;
        let mut killed = Vec::new();
        for numbers in batch.chunks(STARTS_PER_RUNNER) {
            runner.restart().await;
            let client = runner.connect().await;
            // How far into its start each is when the Runner dies; the one that is the farthest begins first.
            let mut ages: Vec<Duration> = numbers.iter().map(|_| random.up_to(start * 3 / 2)).collect();
            ages.sort_by(|a, b| b.cmp(a));
            let kill_at = Instant::now() + ages[0];
            let mut execs = Vec::new();
            for (number, age) in numbers.iter().zip(ages) {
                sleep((kill_at - age).saturating_duration_since(Instant::now())).await;
                execs.push(tokio::spawn(client.call(Request::Exec(Box::new(marked(&format!("ran-{number}")))))));
            }
            sleep(kill_at.saturating_duration_since(Instant::now())).await;
            pending += execs.iter().filter(|exec| !exec.is_finished()).count();
            let at = SystemTime::now();
            runner.kill();
            killed.extend(numbers.iter().map(|number| (at, runner.ground.workspace().join(format!("ran-{number}")))));
            for exec in execs {
                // Either outcome is right: it was answered, or the connection was lost.
                drop(exec.await.expect("the exec's task"));
            }
        }
        runner.assert_nothing_is_left(&[], &format!("after the tries up to {}", batch[batch.len() - 1]));
        tokio::time::sleep(SETTLED).await;
        for (at, marker) in killed {
            latest = latest.max(written_after(at, &marker));
        }
    }
    let ran = runner.ground.files("ran-").len();
    tell(&format!(
        "random kill of the Runner: {tries} tries, {pending} before the start was answered, {ran} commands ran, 0 survivors, \
         start {start:?}, the last command to run did so {latest:?} after the kill"
    ));
    assert!(latest.is_none_or(|late| late < SETTLED), "a command started {latest:?} after the Runner was killed");
    assert!(pending * 4 >= tries, "only {pending} of {tries} kills met a start that was under way");
    assert!(ran > 0, "no command ever ran, so nothing was proven about those that did not");
}

/// How long after `at` the command ran, if it did.
fn written_after(at: SystemTime, marker: &Path) -> Option<Duration> {
    let marker: PathBuf = marker.to_owned();
    marker.metadata().ok()?.modified().ok()?.duration_since(at).ok()
}
