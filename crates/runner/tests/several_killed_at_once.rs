//! SIGKILL to several of the Runner, the helper, bubblewrap's monitor and the inner stage in the same moment, at a random
//! moment of a start or of a run: nothing survives, and nothing starts afterwards.
//!
//! `CODESPACE_KILL_TRIES` sets the number of tries (default: a quarter of it, so 50), `CODESPACE_SEED` plays a run again.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use codespace_runner::Runner;
use codespace_runner::domain::Request;
use codespace_testkit::fixture::{RunnerProcess, ask};
use codespace_testkit::random::Random;
use codespace_testkit::{signal, tell};

/// After this nothing may live.
const SETTLED: Duration = Duration::from_secs(1);
/// What a command that was there already needs for its first act, on a busy machine.
const FIRST_ACT: Duration = Duration::from_millis(50);
/// So many tries settle together.
const BATCH: usize = 25;

/// The processes of the one start that is under way, as far as they exist: the helper and, one below the other, the outer
/// namespace's first process, the inner one's, and the command.
fn chain(runner: i32) -> Vec<i32> {
    let child = |pid: i32| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next()?.parse().ok()
    };
    std::iter::successors(child(runner), |pid| child(*pid)).take(4).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_of_the_runner_and_the_stages_is_killed_at_once_nothing_survives() {
    let mut random = Random::announced("several at once");
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let tries = std::env::var("CODESPACE_KILL_TRIES").map_or(50, |n| n.parse::<usize>().expect("a number") / 4);
    let mut met = [0usize; 5];
    for batch in (0..tries).collect::<Vec<_>>().chunks(BATCH) {
        let mut seen: Vec<(SystemTime, PathBuf)> = Vec::new();
        runner.restart().await;
        // Each time anew: how busy the machine is changes.
        let start = ask::median_start(&runner.connect().await).await;
        for number in batch {
            runner.restart().await;
            let client = runner.connect().await;
            let name = format!("ran-{number}");
            let marker = runner.ground.workspace().join(&name);
            let script = ": > \"$0\"; setsid sleep 1000 & sleep 1000";
            let exec =
                tokio::spawn(client.call(Request::Exec(Box::new(ask::command(["/bin/sh", "-c", script, &name])))));
            let until = Instant::now() + random.up_to(start * 2);
            while Instant::now() < until {
                tokio::task::yield_now().await;
            }
            let pid = runner.pid();
            let stages = chain(pid);
            met[stages.len()] += 1;
            // Which of them die is drawn; the Runner always does, before, between or after them.
            let place = random.number() as usize % (stages.len() + 1);
            for (index, stage) in stages.iter().enumerate() {
                if index == place {
                    runner.signal(libc::SIGKILL);
                }
                if random.number().is_multiple_of(2) {
                    // One that is gone already was taken along by another.
                    signal(*stage, libc::SIGKILL).ok();
                }
            }
            runner.kill();
            seen.push((SystemTime::now(), marker));
            // The connection is gone, and the answer says so; or it was answered before.
            drop(exec.await);
        }
        runner.assert_nothing_is_left(&[], &format!("after the tries up to {}", batch[batch.len() - 1]));
        tokio::time::sleep(SETTLED).await;
        for (dead, marker) in &seen {
            let late = marker.metadata().ok().and_then(|found| found.modified().ok()?.duration_since(*dead).ok());
            assert!(late.is_none_or(|late| late < FIRST_ACT), "{} appeared {late:?} after the death", marker.display());
        }
    }
    tell(&format!("several at once: {tries} tries, that met 0, 1, 2, 3, 4 processes of a start: {met:?}"));
    assert!(met[1..].iter().sum::<usize>() * 2 >= tries, "too few tries met a start: {met:?}");
}
