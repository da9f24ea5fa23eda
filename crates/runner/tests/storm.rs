//! A storm: many workers start random trees and end them by random causes, in a sandbox and without. Afterwards the
//! machine is as before: no process, descriptor, directory or cgroup is left, and the Runner has not grown.
//!
//! `CODESPACE_STORM_SECONDS` says for how long (10; 60 in CI, 1800 for a thorough run), `CODESPACE_SEED` draws the same
//! trees and causes again.
#![cfg(target_os = "linux")]

#[path = "storm/child.rs"]
mod child;
#[path = "storm/level.rs"]
mod level;
#[path = "storm/trees.rs"]
mod trees;
#[path = "storm/worker.rs"]
mod worker;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::StopRequest;
use codespace_runner::uds::UdsClient;
use codespace_testkit::fixture::{RunnerProcess, WORKSPACE, ask};
use codespace_testkit::random::Random;
use codespace_testkit::tell;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use level::Level;
use worker::{Address, Record};

const WORKERS: usize = 32;

/// So many ended processes a Runner keeps; the level of memory is read when it keeps as many.
const KEPT: usize = 256;

/// Each worker may have a walk and a plan on a thread of their own; and the Runner's own few.
const MOST_THREADS: usize = 2 * WORKERS + 32;

/// A helper for each worker, and what has come to the Runner from lost helpers and is about to be reaped. Far more would
/// use up the machine's pids, so then the storm ends them itself, and fails.
const MOST_CHILDREN: usize = 1000;

/// What the allocator may keep beyond the level after the warm-up. Far below what a leak in each end adds up to.
const MOST_GROWTH: u64 = 24 << 20;

/// So many wrong ends are shown.
const SHOWN: usize = 20;

fn duration() -> Duration {
    let seconds = std::env::var("CODESPACE_STORM_SECONDS");
    Duration::from_secs(seconds.map_or(10, |text| text.parse().expect("CODESPACE_STORM_SECONDS is a number")))
}

/// The directories that a Runner could leave something in.
struct Around(TempDir);

impl Around {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("codespace-storm-").tempdir().expect("a temporary directory");
        for name in ["bare", "loose", "tmp", "home", "xdg"] {
            fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("the directory").join(name)
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let xdg = ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"];
        let named = xdg.map(|name| (name, self.path("xdg").into()));
        named.into_iter().chain([("TMPDIR", self.path("tmp").into()), ("HOME", self.path("home").into())]).collect()
    }

    /// Two more workspaces beside the fixture's.
    async fn register(&self, runner: &mut RunnerProcess) {
        let sandboxed = runner.ground.workspace();
        let registry = json!({"workspaces": {
            WORKSPACE: {"root": sandboxed},
            "bare": {"root": self.path("bare"), "sandbox": "none"},
            "loose": {"root": self.path("loose"), "sandbox": "none", "pid_namespace": false},
        }});
        fs::write(runner.ground.private().join("registry.json"), registry.to_string()).expect("to write the registry");
        runner.restart().await;
        [sandboxed, self.path("bare"), self.path("loose")].iter().for_each(|root| trees::install(root));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_of_starts_and_ends_leaves_the_machine_as_it_was() {
    let mut random = Random::announced("storm");
    let around = Around::new();
    let Some(mut runner) = RunnerProcess::with(json!({}), &around.environment()).await else { return };
    around.register(&mut runner).await;
    let ground = &runner.ground;
    let watched = [around.0.path().to_owned(), ground.workspace(), ground.home(), ground.private()];
    let files = level::files(&watched);
    let address = Address { socket: runner.socket(), pid: runner.pid() };

    // Everything that a Runner keeps is there once it keeps as many ended processes as it ever will.
    let warm_up = storm(&address, &mut random, duration() / 10, KEPT.div_ceil(WORKERS) + 4).await;
    let mut wrong = wrong_ends(&warm_up.record);
    let client = runner.connect().await;
    wrong.extend(left(&runner, &client, "after the warm-up").await);
    let before = settled(address.pid, usize::MAX).await;

    let blown = storm(&address, &mut random, duration(), 0).await;
    report(&blown);
    wrong.extend(wrong_ends(&blown.record));
    wrong.extend(left(&runner, &client, "after the storm").await);
    let after = settled(address.pid, before.descriptors).await;
    tell(&format!("storm: {before:?} before, {:?} at the most, {after:?} after", blown.peak));
    let mut hold = |good: bool, what: String| wrong.extend((!good).then_some(what));
    hold(after.descriptors <= before.descriptors, format!("descriptors: {before:?}, then {after:?}"));
    hold(after.resident <= before.resident + MOST_GROWTH, format!("memory: {before:?}, then {after:?}"));
    let most = warm_up.peak.peak(blown.peak);
    hold(most.children <= MOST_CHILDREN, format!("children of the Runner, dead ones too: {most:?}"));
    hold(blown.peak.threads <= MOST_THREADS, format!("threads: {:?}", blown.peak));
    let (files, now) = (files, level::files(&watched));
    hold(now == files, format!("files came or went: {:?}", now.symmetric_difference(&files).collect::<Vec<_>>()));
    let leaves = level::leaves(address.pid);
    hold(leaves.is_empty(), format!("cgroups of ended processes are left: {leaves:?}"));

    client.stop(StopRequest::default()).await.expect("an answer to stop");
    let status = runner.ended().await;
    hold(status.code() == Some(0), format!("the Runner's stop ended with {status}"));
    let cgroups = level::cgroups(address.pid);
    hold(cgroups.is_empty(), format!("the Runner has left cgroups: {cgroups:?}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    runner.assert_nothing_is_left(&[], "after the stop");
}

/// What came of a storm.
struct Blown {
    record: Record,
    peak: Level,
    most_leaves: usize,
    took: Duration,
}

/// All workers at it, for so long and at least so often each.
async fn storm(address: &Address, random: &mut Random, duration: Duration, least: usize) -> Blown {
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        // A key is known for as long as its process is kept.
        let name = format!("{number}-{:x}", random.number());
        let seeded = Random::seeded(random.number());
        workers.spawn(worker::work(address.clone(), name, seeded, began + duration, least));
    }
    let seen = Arc::new(Mutex::new((level_of(address.pid), 0)));
    let (pid, watched) = (address.pid, Arc::clone(&seen));
    let watch = tokio::spawn(async move {
        loop {
            let (level, leaves) = (level_of(pid), level::leaves(pid).len());
            if level.children > MOST_CHILDREN {
                child::end_groups(pid);
            }
            {
                let mut most = watched.lock().unwrap_or_else(PoisonError::into_inner);
                *most = (most.0.peak(level), most.1.max(leaves));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut record = Record::default();
    while let Some(done) = workers.join_next().await {
        record.add(done.expect("a worker"));
    }
    watch.abort();
    let (peak, most_leaves) = *seen.lock().unwrap_or_else(PoisonError::into_inner);
    Blown { record, peak, most_leaves, took: began.elapsed() }
}

/// What still runs though every end was answered, and what is left of what does not; also zombies.
async fn left(runner: &RunnerProcess, client: &UdsClient, when: &str) -> Vec<String> {
    let listed = ask::running(client).await.into_iter().map(|status| format!("{when}: listed as running: {status:?}"));
    let left = runner.ground.survivors.wait_until_nothing_is_left(&[], Duration::from_secs(1));
    listed.chain(left.into_iter().map(|survivor| format!("{when}: left: {survivor}"))).collect()
}

/// The Runner's level now.
fn level_of(pid: i32) -> Level {
    Level::of(pid).expect("a Runner that is still there")
}

/// The Runner's level when its connections and its idle threads are gone; at the latest after a while, whatever it is.
async fn settled(pid: i32, descriptors: usize) -> Level {
    let until = Instant::now() + Duration::from_secs(5);
    let mut level = level_of(pid);
    let mut quiet_since = Instant::now();
    while Instant::now() < until && (level.descriptors > descriptors || quiet_since.elapsed() < Duration::from_secs(1))
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = level_of(pid);
        if now.descriptors != level.descriptors {
            quiet_since = Instant::now();
        }
        level = now;
    }
    level
}

fn report(blown: &Blown) {
    let Blown { record, most_leaves, took, .. } = blown;
    tell(&format!(
        "storm: {} ends in {took:.0?}, {} starts refused by a workspace's end, the slowest end took {} ms, at most \
         {most_leaves} cgroups at once",
        record.total(),
        record.refused,
        record.slowest_ms
    ));
    for ((place, cause), (all, pending)) in &record.ends {
        tell(&format!(
            "storm: {place:>6} {:<11} {all:>6} ends, {pending:>6} of them met a start",
            format!("{cause:?}")
        ));
    }
}

/// How many ends were wrong, and the first few of them.
fn wrong_ends(record: &Record) -> Vec<String> {
    let count = (!record.faults.is_empty())
        .then(|| format!("{} answers to {} ends were wrong:", record.faults.len(), record.total()));
    count.into_iter().chain(record.faults.iter().take(SHOWN).cloned()).collect()
}
