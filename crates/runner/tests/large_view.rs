//! Views of thousands of rules: they start, each rule holds, and a kill while one is being set up leaves nothing.
//!
//! `CODESPACE_KILL_TRIES` sets the number of kills (200, of which this test takes a tenth), `CODESPACE_SEED` plays a run
//! again.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::Request;
use codespace_testkit::fixture::{Fixture, RunnerProcess, ask};
use codespace_testkit::random::Random;
use codespace_testkit::{programs, tell};
use serde_json::{Value, json};
use tempfile::TempDir;

/// From the request until the command has ended. On a machine with nothing else to do it is a tenth of that.
const WITHIN: Duration = Duration::from_secs(20);

const DONE: i64 = 0;

fn elsewhere() -> TempDir {
    tempfile::Builder::new().prefix("codespace-large-").tempdir_in("/var/tmp").expect("a directory")
}

fn folders(above: &Path, number: usize) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = (0..number).map(|n| above.join(format!("d{n}"))).collect();
    paths.iter().for_each(|path| fs::create_dir_all(path).expect("a folder"));
    paths
}

fn mounts_of_the_host() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("the host's mounts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_thousand_folders_outside_of_the_workspace_are_seen_and_not_written_to() {
    let elsewhere = elsewhere();
    let top = elsewhere.path().canonicalize().unwrap();
    let folders = folders(&top, 4000);
    let Some(fixture) = Fixture::with(|workspace| workspace.filesystem.read = folders).await else { return };
    let began = Instant::now();
    let (status, _) = ask::run(&fixture.session, ask::command(["true"])).await;
    let took = began.elapsed();
    assert_eq!(status.exit_code, Some(0), "{status:?}");
    let script = format!(
        "cd {0} && ls | wc -l; n=0; for d in d*; do test -w $d && echo WROTE $d; n=$((n+1)); done; echo $n; \
         (: > y) 2>/dev/null || echo refused",
        top.display()
    );
    let (status, output) = ask::run(&fixture.session, ask::shell(&script)).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "4000\n4000\nrefused\n"), "{status:?}");
    tell(&format!("large view: 4,000 folders: {took:?}"));
    assert!(took < WITHIN, "{took:?}");
    fixture.end().await;
}

/// Ten rules, most of them below each other.
struct Group {
    within: PathBuf,
    outside: PathBuf,
}

impl Group {
    fn make(workspace: &mut codespace_policy::Workspace, outside: &Path, number: usize) -> Self {
        let group =
            Self { within: workspace.root.join(format!("g{number}")), outside: outside.join(format!("o{number}")) };
        let Self { within, outside } = &group;
        for folder in
            [within.join("w/hidden/shown/w"), within.join("pinned/a"), outside.join("w/r"), outside.join("hidden")]
        {
            fs::create_dir_all(folder).expect("a folder");
        }
        for file in ["w/key", "w/hidden/shown/text", "pinned/a/key"] {
            fs::write(within.join(file), "text").expect("a file");
        }
        let rules = &mut workspace.filesystem;
        rules.read.extend([within.clone(), within.join("w/hidden/shown"), outside.clone(), outside.join("w/r")]);
        rules.write.extend([
            within.join("w"),
            within.join("w/hidden/shown/w"),
            within.join("pinned"),
            outside.join("w"),
        ]);
        rules.deny.extend([
            within.join("w/hidden"),
            within.join("w/key"),
            within.join("pinned/a/key"),
            outside.join("hidden"),
        ]);
        group
    }

    /// What to try, and the outcome; a negative number stands for any refusal.
    fn expected(&self) -> Vec<(String, i64)> {
        let Self { within, outside } = self;
        let tried = |what: &str, path: PathBuf, outcome: i64| (format!("{what}={}", path.display()), outcome);
        let read_only = i64::from(libc::EROFS);
        vec![
            tried("write", within.clone(), read_only),
            tried("write", within.join("w"), DONE),
            tried("read", within.join("w/key"), -1),
            tried("read", within.join("w/hidden"), -1),
            tried("write", within.join("w/hidden"), -1),
            tried("read", within.join("w/hidden/shown/text"), DONE),
            tried("write", within.join("w/hidden/shown"), read_only),
            tried("write", within.join("w/hidden/shown/w"), DONE),
            tried("write", within.join("pinned/a"), DONE),
            tried("read", within.join("pinned/a/key"), -1),
            tried("write", outside.clone(), read_only),
            tried("write", outside.join("w"), DONE),
            tried("write", outside.join("w/r"), read_only),
            tried("read", outside.join("hidden"), -1),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_thousand_rules_the_most_specific_holds_everywhere() {
    const GROUPS: usize = 834;
    let elsewhere = elsewhere();
    let outside = elsewhere.path().canonicalize().unwrap();
    let mut groups = Vec::new();
    let made = Fixture::with(|workspace| {
        groups.extend((0..GROUPS).map(|number| Group::make(workspace, &outside, number)));
        let rules = &workspace.filesystem;
        assert!(rules.read.len() + rules.write.len() + rules.deny.len() >= 10_000);
    });
    let Some(fixture) = made.await else { return };
    let began = Instant::now();
    let (status, _) = ask::run(&fixture.session, ask::command(["true"])).await;
    let took = began.elapsed();
    assert_eq!(status.exit_code, Some(0), "{status:?}");
    tell(&format!("large view: 10,000 mixed rules: {took:?}"));
    assert!(took < WITHIN, "{took:?}");

    let looked_at = groups.iter().step_by(50).chain(groups.last());
    let expected: Vec<(String, i64)> = looked_at.flat_map(Group::expected).collect();
    let program = programs::install("look_around", &fixture.workspace());
    // Its list of mounts would be megabytes.
    let argv = ["/bin/sh", "-c", "\"$@\" | sed 's/\"mounts\":\\[[^]]*\\]/\"mounts\":[]/'", "sh", &program];
    let argv = argv.into_iter().map(str::to_owned).chain(expected.iter().map(|(what, _)| what.clone()));
    let (status, output) = ask::run(&fixture.session, ask::command(argv)).await;
    assert_eq!(status.exit_code, Some(0), "{output}");
    let seen: Value = serde_json::from_str(output.trim()).unwrap_or_else(|error| panic!("{error}: {output}"));
    for (what, outcome) in expected {
        let found = seen[&what].as_i64().unwrap_or_else(|| panic!("{what} was not tried"));
        assert!(if outcome < 0 { found > 0 } else { found == outcome }, "{what}: {found} instead of {outcome}");
    }
    // What is between a writable folder and what is denied in it stays where it is.
    let script = "for g in g*; do mv $g/pinned/a $g/pinned/b 2>/dev/null && echo MOVED $g; done; echo looked";
    assert_eq!(ask::run(&fixture.session, ask::shell(script)).await.1, "looked\n");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_view_of_shared_memory_holds_as_well() {
    let above = tempfile::Builder::new().prefix("codespace-large-").tempdir_in("/dev/shm").expect("a directory");
    let folders = folders(&above.path().canonicalize().unwrap(), 3000);
    let last = folders[2999].display().to_string();
    let Some(fixture) = Fixture::with(|workspace| workspace.filesystem.read = folders).await else { return };
    let script = format!(
        "mkdir {last}/x 2>/dev/null && echo WROTE; ls {last}/.. | wc -l; echo x > /dev/shm/x && cat /dev/shm/x"
    );
    let (status, output) = ask::run(&fixture.session, ask::shell(&script)).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "3000\nx\n"), "{status:?}");
    assert!(!Path::new("/dev/shm/x").exists(), "the host's /dev/shm was written to");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kill_at_a_random_moment_of_a_large_views_set_up_leaves_neither_process_nor_mount_nor_file() {
    let mut random = Random::announced("large view");
    let elsewhere = elsewhere();
    let top = elsewhere.path().canonicalize().unwrap();
    let folders = folders(&top, 1500);
    let rules = json!({"filesystem": {"read": folders[..750], "write": folders[750..]}});
    let Some(mut runner) = RunnerProcess::with(rules, &[]).await else { return };
    let tries = std::env::var("CODESPACE_KILL_TRIES").map_or(200, |n| n.parse().expect("a number")) / 10;
    let start = ask::median_start(&runner.connect().await).await;
    let mounts = mounts_of_the_host();
    let mut pending = 0;
    for number in 0..tries {
        let client = runner.connect().await;
        let exec = tokio::spawn(client.call(Request::Exec(Box::new(ask::command(["sleep", "1000"])))));
        tokio::time::sleep(random.up_to(start * 5 / 4)).await;
        pending += usize::from(!exec.is_finished());
        runner.kill();
        // Either outcome is right: it was answered, or the connection was lost.
        drop(exec.await.expect("the exec's task"));
        runner.assert_nothing_is_left(&[], &format!("after kill {number}"));
        assert_eq!(mounts_of_the_host(), mounts, "after kill {number}");
        runner.restart().await;
    }
    let found = folders.iter().filter(|folder| fs::read_dir(folder).expect("a folder").next().is_some()).count();
    assert_eq!((found, fs::read_dir(&top).expect("a folder").count()), (0, folders.len()), "files were left");
    assert!(runner.ground.files("").is_empty(), "files were left in the workspace: {:?}", runner.ground.files(""));
    tell(&format!("large view: {tries} kills, {pending} before the start was answered, start {start:?}"));
    assert!(pending * 4 >= tries, "only {pending} of {tries} kills met a start that was under way");
}

/// What `/proc/self/mountinfo` says inside, without numbers that differ each time.
async fn mounts_inside(faults: &str) -> Option<Vec<String>> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let programs = named("CODESPACE_FAULT_RUNNER").zip(named("CODESPACE_FAULT_HELPER"));
    let Some((program, helper)) = programs else {
        let required = std::env::var_os("CODESPACE_REQUIRE_LINUX_SANDBOX").is_some_and(|value| value == "1");
        assert!(!required, "CODESPACE_FAULT_RUNNER or CODESPACE_FAULT_HELPER names no program");
        tell("SKIPPED both ways to build a view: no programs with the feature fault-injection");
        return None;
    };
    let elsewhere = elsewhere();
    let top = elsewhere.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("r/hidden/shown")).expect("a folder");
    fs::create_dir_all(top.join("r/closed")).expect("a folder");
    File::create(top.join("r/key")).expect("a file");
    let at = |name: &str| top.join(name);
    let rules = json!({"filesystem": {
        "read": [at("r")], "write": [at("r/hidden/shown")], "deny": [at("r/hidden"), at("r/closed"), at("r/key")],
    }});
    let mut runner = RunnerProcess::of(program, helper, rules, &[("CODESPACE_FAULT", faults.into())]).await?;
    let client = runner.connect().await;
    let (status, output) = ask::run(&client, ask::shell("cat /proc/self/mountinfo")).await;
    assert_eq!(status.exit_code, Some(0), "{output}");
    let workspace = runner.ground.workspace();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (mount, file_system) = words[3..].split_at(words[3..].iter().position(|word| *word == "-").unwrap());
        // Where a tmpfs of bubblewrap's own begins, and what it names of its mode, nobody can see in the tree.
        let source = if mount[1] == "/" { "/" } else { mount[0] };
        let options = file_system[3].replace(",mode=755", "");
        let text = format!("{} from {source} {:?} {:?} {options}", mount[1], &mount[2..], &file_system[1..3]);
        text.replace(workspace.to_str().unwrap(), "WORKSPACE").replace(top.to_str().unwrap(), "ELSEWHERE")
    };
    let mut lines: Vec<String> = output.lines().map(line).collect();
    lines.sort();
    Some(lines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_the_same_whether_it_is_staged_or_made_of_arguments() {
    let Some(staged) = mounts_inside("").await else { return };
    let Some(of_arguments) = mounts_inside("no-mount-calls").await else { return };
    assert!(staged.iter().any(|line| line.starts_with("ELSEWHERE/r/hidden/shown ")), "{staged:#?}");
    assert_eq!(staged, of_arguments);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_kernels_mount_calls_a_view_that_is_too_large_is_refused_with_the_reason() {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let Some((program, helper)) = named("CODESPACE_FAULT_RUNNER").zip(named("CODESPACE_FAULT_HELPER")) else { return };
    let elsewhere = elsewhere();
    let folders = folders(&elsewhere.path().canonicalize().unwrap(), 3000);
    let environment = [("CODESPACE_FAULT", "no-mount-calls".into())];
    let rules = json!({"filesystem": {"read": folders}});
    let Some(mut runner) = RunnerProcess::of(program, helper, rules, &environment).await else { return };
    let error = runner.connect().await.exec(ask::command(["true"])).await.expect_err("a refusal");
    assert_eq!(error.errno, Some(libc::ENOSYS), "{error:?}");
    assert!(error.message.contains("mount_setattr") && error.message.contains("9000"), "{error:?}");
    runner.assert_nothing_is_left(&[], "after the refusal");
}
