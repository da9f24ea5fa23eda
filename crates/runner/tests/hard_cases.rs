//! The hard cases of a tree's end that `ends_trees.rs` has not: each is one misbehaviour in a real sandbox, ended by a
//! terminate, a timeout and a killed helper.
//!
//! Misbehaviour that no system program has is played by this test program itself, copied into the workspace and asked by
//! `CODESPACE_PART` to play one of [`parts`].
#![cfg(target_os = "linux")]

mod few_numbers;
#[path = "hard_cases/parts.rs"]
mod parts;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ExecRequest, ProcessId, ProcessStatus, Termination};
use codespace_testkit::fixture::{Fixture, ask};
use codespace_testkit::{programs, tell};
use serde_json::json;

/// The least that the kernel takes, and a few more.
const NUMBERS: i32 = 400;

const PART: &str = "CODESPACE_PART";

/// Within the walk's budget of 500 ms and the proof's 2 s.
const PROOF: u64 = 2000;

/// A start of this program that plays `part`.
fn part(workspace: &Path, part: &str) -> ExecRequest {
    let own = std::env::current_exe().expect("the path of the test program");
    fs::copy(own, workspace.join("hard_cases")).expect("to copy a program into the workspace");
    let mut request =
        ask::command(["./hard_cases", "plays_a_part", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    request.env.insert(PART.into(), Some(part.into()));
    request
}

async fn start(runner: &impl Runner, request: ExecRequest) -> ProcessId {
    let what = format!("{:?}", request.command);
    let started = runner.exec(request).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    ask::wait_for_output(runner, started.process_id, "ready").await;
    started.process_id
}

fn assert_ended(what: &str, status: &ProcessStatus, cause: EndedBy) {
    assert_eq!(status.ended_by, Some(cause), "{what}: {status:?}");
    let tree = status.tree.as_ref().expect("a report of the tree");
    assert!(tree.confirmed && tree.took_ms < PROOF && status.eof, "{what}: {status:?}");
}

/// Each of the ends that come from outside, of a tree that is as bad as it gets.
async fn assert_every_end_ends_it(fixture: &Fixture, request: ExecRequest) {
    let what = format!("{:?} {:?}", request.command.last(), request.env.get(PART));
    let id = start(&fixture.session, request.clone()).await;
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_ended(&what, &status, EndedBy::Terminate);
    fixture.assert_nothing_is_left(&format!("{what}: after the terminate")).await;

    let started = fixture.session.exec(ExecRequest { timeout_ms: Some(700), ..request.clone() }).await;
    let status = ask::ended(&fixture.session, started.expect("a start").process_id).await;
    assert_ended(&what, &status, EndedBy::Timeout);
    fixture.assert_nothing_is_left(&format!("{what}: after the timeout")).await;

    let id = start(&fixture.session, request).await;
    let helper = ask::running(&fixture.session).await[0].pid.expect("the helper's pid");
    codespace_testkit::signal(helper, libc::SIGKILL).expect("to kill the helper");
    let status = ask::ended(&fixture.session, id).await;
    assert_ended(&what, &status, EndedBy::HelperLost);
    fixture.assert_nothing_is_left(&format!("{what}: after the helper's death")).await;
}

async fn assert_the_part_ends(name: &str) {
    let Some(fixture) = Fixture::start().await else { return };
    assert_every_end_ends_it(&fixture, part(&fixture.workspace(), name)).await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_parent_inside_vfork_ends_with_the_child_that_it_waits_for() {
    assert_the_part_ends("vfork").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_parent_that_ignores_sigchld_ends_with_its_children() {
    assert_the_part_ends("ignore_sigchld").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_that_are_stopped_or_held_by_a_tracer_among_them_end() {
    assert_the_part_ends("stopped_and_traced").await;
}

/// Where the host gives each process a cgroup of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_that_are_frozen_end() {
    let Some(fixture) = Fixture::start().await else { return };
    let id = start(&fixture.session, ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000")).await;
    let helper = ask::running(&fixture.session).await[0].pid.expect("the helper's pid");
    match own_cgroup(helper) {
        Some(leaf) => {
            fs::write(leaf.join("cgroup.freeze"), "1").expect("to freeze the tree");
            let until = Instant::now() + ask::LONG;
            while !fs::read_to_string(leaf.join("cgroup.events")).expect("its events").contains("frozen 1") {
                assert!(Instant::now() < until, "the tree does not freeze");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        None => tell("SKIPPED members_that_are_frozen_end: this host gives a process no cgroup of its own"),
    }
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert_ended("frozen", &status, EndedBy::Terminate);
    fixture.assert_nothing_is_left("frozen").await;
    fixture.end().await;
}

/// The cgroup of version 2 that this process has to itself.
fn own_cgroup(pid: i32) -> Option<PathBuf> {
    let of = |who: &str| {
        let list = fs::read_to_string(format!("/proc/{who}/cgroup")).ok()?;
        list.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned)
    };
    let (its, ours) = (of(&pid.to_string())?, of("self")?);
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(|mount| Path::new(mount).join(&its));
    mounts.into_iter().find(|leaf| its != ours && leaf.join("cgroup.freeze").exists())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_subreaper_inside_ends_with_all_that_came_to_it() {
    assert_the_part_ends("subreaper").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fork_bomb_ends() {
    assert_the_part_ends("fork_bomb").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_with_many_threads_whose_first_one_has_ended_ends() {
    assert_the_part_ends("threads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fork_bomb_is_counted_and_ended_at_the_commands_own_end() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut request = part(&fixture.workspace(), "fork_bomb_and_exit");
    request.linger_ms = Some(0);
    let (status, _) = ask::run(&fixture.session, request).await;
    assert_ended("fork bomb", &status, EndedBy::Command);
    assert_eq!(status.exit_code, Some(9), "{status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.leftovers >= 100), "{status:?}");
    fixture.assert_nothing_is_left("fork bomb").await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nested_sandboxes_are_refused_with_eperm_and_leave_nothing() {
    let Some(fixture) = Fixture::start().await else { return };
    let nested = [
        "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all sleep 1000",
        "bwrap --ro-bind / / --unshare-pid --die-with-parent sleep 1000",
        "unshare --user --map-root-user --pid --fork --kill-child sleep 1000",
        "unshare --pid --fork sleep 1000",
        "unshare --mount sleep 1000",
    ];
    for command in nested {
        // In the foreground: it fails, and says why.
        let (status, output) = ask::run(&fixture.session, ask::shell(&format!("LC_ALL=C {command} 2>&1"))).await;
        assert_ended(command, &status, EndedBy::Command);
        assert!(status.exit_code.is_some_and(|code| code != 0), "{command}: {status:?}");
        let refused = output.contains("Operation not permitted") || output.contains("No permissions");
        assert!(refused && !output.contains("not found"), "{command}: {output}");
        assert_eq!(status.tree.map(|tree| tree.leftovers), Some(0), "{command}");
        fixture.assert_nothing_is_left(command).await;
    }
    // In the background, over and over, while it is ended.
    let loops: Vec<String> =
        nested.iter().map(|command| format!("while sleep 0.01; do {command}; done 2>/dev/null &")).collect();
    let request = ask::shell(&format!("{} echo ready; sleep 1000; :", loops.join(" ")));
    assert_every_end_ends_it(&fixture, request).await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_setuid_program_gains_nothing() {
    let Some(fixture) = Fixture::start().await else { return };
    let workspace = fixture.workspace();
    let (status, output) = ask::run(&fixture.session, ask::shell("grep NoNewPrivs /proc/self/status; id -u")).await;
    let own = nix::unistd::geteuid();
    assert_eq!(output, format!("NoNewPrivs:\t1\n{own}\n"), "{status:?}");
    let id = workspace.join("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    // Somebody else's where that can be made, else the one way to a uid of one's own.
    if own.is_root() {
        chown(&id, Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(&id, Permissions::from_mode(0o6755)).unwrap();
    let (status, output) = ask::run(&fixture.session, ask::shell("./id -u; ./id -g")).await;
    assert_eq!((status.exit_code, output), (Some(0), format!("{own}\n{}\n", nix::unistd::getegid())), "{status:?}");
    // The system's own, which is root's.
    let (_, output) = ask::run(&fixture.session, ask::shell("su -c 'id -u' </dev/null 2>/dev/null; exit 0")).await;
    assert!(output.trim().is_empty() || output.trim() == own.to_string(), "su became {output:?}");
    // One that runs is ended like any other.
    let sleep = workspace.join("sleep");
    fs::copy("/usr/bin/sleep", &sleep).unwrap();
    if own.is_root() {
        chown(&sleep, Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(&sleep, Permissions::from_mode(0o6755)).unwrap();
    assert_every_end_ends_it(&fixture, ask::shell("setsid ./sleep 1000 & echo ready; exec ./sleep 1000")).await;
    fixture.end().await;
}

/// A Runner in a PID namespace of its own that has few numbers, so that each comes again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_come_again_at_once_are_never_somebody_elses_end() {
    if !nix::unistd::geteuid().is_root() {
        tell("SKIPPED numbers_that_come_again_at_once: only root can give a PID namespace few numbers");
        return;
    }
    for keys in [json!({}), json!({"sandbox": "none", "pid_namespace": false})] {
        let Some(mut runner) = few_numbers::runner(keys.clone(), NUMBERS).await else { return };
        let client = runner.connect().await;
        let chain = programs::install("fork_and_exit_chain", &runner.ground.workspace());
        let bystander = start(&client, ask::shell("setsid sleep 1000 & echo ready; exec sleep 1000")).await;
        // The numbers are those of the Runner's own namespace.
        let helper = ask::running(&client).await[0].pid.expect("the helper's pid");
        assert!(helper < NUMBERS, "{keys}: number {helper} of at most {NUMBERS}");
        for number in 0..6 {
            let what = format!("{keys}: try {number}");
            let id = start(&client, ask::command([chain.as_str()])).await;
            let churning = start(&client, ask::shell("echo ready; while :; do true & /bin/true; done")).await;
            let (one, other) = tokio::join!(
                client.terminate_process(ask::terminate(id)),
                client.terminate_process(ask::terminate(churning))
            );
            assert_ended(&what, &one.expect("a final status"), EndedBy::Terminate);
            assert_ended(&what, &other.expect("a final status"), EndedBy::Terminate);
            let running = ask::running(&client).await;
            assert_eq!(running.iter().map(|status| status.process_id).collect::<Vec<_>>(), [bystander], "{what}");
        }
        let status = client.terminate_process(ask::terminate(bystander)).await.expect("a final status");
        assert_eq!((status.ended_by, status.termination), (Some(EndedBy::Terminate), Some(Termination::Terminated)));
        runner.assert_nothing_is_left(&[], &format!("{keys}: after all"));
    }
}

#[test]
#[ignore = "is a program that the other tests run inside a sandbox"]
fn plays_a_part() {
    match std::env::var(PART).as_deref() {
        Ok("vfork") => parts::vfork(),
        Ok("ignore_sigchld") => parts::ignore_sigchld(),
        Ok("stopped_and_traced") => parts::stopped_and_traced(),
        Ok("subreaper") => parts::subreaper(),
        Ok("fork_bomb") => parts::fork_bomb(None),
        Ok("fork_bomb_and_exit") => parts::fork_bomb(Some(9)),
        Ok("threads") => parts::threads(),
        Ok(other) => panic!("there is no part {other:?}"),
        Err(_) => tell("plays_a_part: nothing to play outside of a test"),
    }
}
