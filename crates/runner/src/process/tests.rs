use std::path::PathBuf;
use std::time::{Duration, Instant};

use codespace_domain::{
    EndedBy, ExecRequest, ProcessId, ProcessKey, ProcessRef, ReadRequest, State, TerminateRequest, Termination,
};
use codespace_policy::{HostDisk, Registry, Workspace};

use crate::proc_stat::{Stat, children};
use crate::{HelperLocation, InProcessRunner, Runner, RunnerConfig};

/// The helper that was built beside the tests.
fn helper() -> PathBuf {
    if let Some(named) = std::env::var_os(crate::linux_sandbox::HELPER_VARIABLE) {
        return named.into();
    }
    let own = std::env::current_exe().unwrap();
    let helper = own.parent().unwrap().parent().unwrap().join("codespace-linux-sandbox");
    assert!(helper.is_file(), "{} is not there: cargo build -p codespace-linux-sandbox", helper.display());
    helper
}

/// A Runner with one workspace in a temporary directory, and whether this host can sandbox at all.
async fn runner() -> Option<(InProcessRunner, tempfile::TempDir)> {
    let workspace = tempfile::tempdir().unwrap();
    let registry = Registry::single("w".parse().unwrap(), Workspace::new(workspace.path()), &HostDisk).unwrap();
    let config = RunnerConfig { helper: HelperLocation::Path(helper()), ..RunnerConfig::new(registry) };
    let runner = InProcessRunner::start(config).await.unwrap();
    if !runner.shared().sandbox.network_enforced {
        let why = format!("no sandbox can be had here: {:?}", runner.shared().sandbox.reasons);
        assert!(std::env::var_os("CODESPACE_REQUIRE_LINUX_SANDBOX").is_none(), "{why}");
        // Past the harness, which keeps what a passing test prints to itself.
        std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: {why}\n").as_bytes()).unwrap();
        return None;
    }
    Some((runner, workspace))
}

fn program(pid: i32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_str()?.to_owned())
}

/// Everything below a process, and it itself.
fn tree(pid: i32) -> Vec<(i32, Stat)> {
    let own = Stat::of_process(pid).map(|stat| (pid, stat));
    own.into_iter().chain(children(pid).into_iter().flat_map(tree)).collect()
}

fn live(member: &(i32, Stat)) -> bool {
    Stat::of_process(member.0)
        .is_some_and(|now| now.start_time == member.1.start_time && !matches!(now.state, b'Z' | b'X'))
}

/// What a start has created so far.
enum SetUp {
    /// The sandbox's own first process exists, and is still bubblewrap below bubblewrap.
    UnderWay,
    /// It has become something else already.
    Over,
}

/// Waits until the sandbox's first process exists: the child of the bubblewrap that is the helper's child.
fn wait_for_first_process(root: i32) -> SetUp {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        for outer in children(root).into_iter().filter(|pid| program(*pid).as_deref() == Some("bwrap")) {
            if let Some(inner) = children(outer).first() {
                return if program(*inner).as_deref() == Some("bwrap") { SetUp::UnderWay } else { SetUp::Over };
            }
        }
        assert!(Instant::now() < until, "the sandbox's first process never came");
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn terminate_during_sandbox_setup_leaves_no_process_behind() {
    let Some((runner, _workspace)) = runner().await else { return };
    let session = runner.session();
    let (mut landed, mut tries) = (0, 0);
    while landed < 5 {
        tries += 1;
        assert!(tries <= 500, "of 500 terminates only {landed} landed in set-up");
        let key = ProcessKey::try_from(format!("try-{tries}")).unwrap();
        let mut request = ExecRequest::new("w".parse().unwrap(), ["/bin/sleep", "86399"]);
        request.process_key = Some(key.clone());
        let pending = session.call(codespace_domain::Request::Exec(Box::new(request)));
        let process = ProcessRef::Key { workspace_id: "w".parse().unwrap(), process_key: key };
        let slot = runner.shared().table.find(&process).unwrap();

        let root = loop {
            match slot.status().pid {
                Some(pid) => break pid,
                None => tokio::task::yield_now().await,
            }
        };
        let set_up = tokio::task::spawn_blocking(move || (wait_for_first_process(root), tree(root))).await.unwrap();
        let began = Instant::now();
        let status = session.terminate_process(TerminateRequest { process, grace_ms: None }).await.unwrap();
        if let (SetUp::UnderWay, _) = set_up {
            landed += 1;
        }

        assert_eq!((status.state, status.termination), (State::Exited, Some(Termination::Terminated)));
        assert_eq!(status.ended_by, Some(EndedBy::Terminate));
        let tree = status.tree.clone().unwrap();
        assert!(tree.confirmed, "try {tries}: {tree:?}");
        let read =
            session.read_process(ReadRequest { wait_ms: 2000, ..ReadRequest::new(status.process_id) }).await.unwrap();
        assert!(read.eof && began.elapsed() < Duration::from_secs(2), "the output did not end: {read:?}");
        let left: Vec<_> = set_up.1.iter().filter(|member| live(member)).collect();
        assert!(left.is_empty(), "try {tries}: left behind: {left:?}");
        assert_eq!(started_sleeps(), 0, "try {tries}: a sleep is left");
        pending.await.unwrap();
    }
}

/// Live `sleep 86399`: a command that started after all, wherever it is by now.
fn started_sleeps() -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_ours =
        |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"/bin/sleep\086399\0");
    pids.filter(is_ours)
        .filter(|pid| Stat::of_process(*pid).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X')))
        .count()
}

#[tokio::test]
async fn a_slot_is_reserved_before_anything_is_created_and_a_refused_command_never_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut workspace = Workspace::new(directory.path());
    workspace.max_processes = 1;
    let registry = Registry::single("w".parse().unwrap(), workspace, &HostDisk).unwrap();
    let config = RunnerConfig { helper: HelperLocation::Path(helper()), ..RunnerConfig::new(registry) };
    let runner = InProcessRunner::start(config).await.unwrap();
    let session = runner.session();
    let first = session.call(codespace_domain::Request::Exec(Box::new(ExecRequest::new(
        "w".parse().unwrap(),
        ["/bin/sleep", "1000"],
    ))));
    // Not awaited: its slot counts already.
    let refused = session.exec(ExecRequest::new("w".parse().unwrap(), ["touch", "ran"])).await.unwrap_err();
    assert_eq!(refused.code, codespace_domain::ErrorCode::WorkspaceBusy);
    first.await.unwrap();
    session.stop(codespace_domain::StopRequest { grace_ms: None }).await.unwrap();
    assert!(!directory.path().join("ran").exists());
    let refused = session.exec(ExecRequest::new("w".parse().unwrap(), ["true"])).await.unwrap_err();
    assert_eq!(refused.code, codespace_domain::ErrorCode::RunnerStopping);
    let unknown = TerminateRequest { process: ProcessRef::Id { process_id: ProcessId::mint() }, grace_ms: None };
    let unknown = session.terminate_process(unknown).await.unwrap_err();
    assert_eq!(unknown.code, codespace_domain::ErrorCode::ProcessNotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_comes_after_its_end_was_told_is_ended_as_well() {
    let Some((runner, _workspace)) = runner().await else { return };
    let session = runner.session();
    let key = ProcessKey::try_from("late".to_owned()).unwrap();
    let mut request = ExecRequest::new("w".parse().unwrap(), ["/bin/sleep", "86398"]);
    request.process_key = Some(key.clone());
    let process = ProcessRef::Key { workspace_id: "w".parse().unwrap(), process_key: key };
    let known = runner.shared().launcher.spawner.known().clone();
    let (pending, status) = {
        let (held, release) = std::sync::mpsc::channel::<()>();
        let (ready, is_held) = tokio::sync::oneshot::channel();
        let holder = std::thread::spawn(move || {
            let guard = known.hold();
            ready.send(()).unwrap();
            release.recv().unwrap();
            drop(guard);
        });
        is_held.await.unwrap();
        let pending = session.call(codespace_domain::Request::Exec(Box::new(request)));
        // Once the start waits for the spawner, it cannot be called off any more.
        let until = Instant::now() + Duration::from_secs(5);
        while runner.shared().launcher.spawner.asked() == 0 {
            assert!(Instant::now() < until, "the start never came to the spawner");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let status = session.terminate_process(TerminateRequest { process, grace_ms: None }).await.unwrap();
        held.send(()).unwrap();
        holder.join().unwrap();
        (pending, status)
    };
    // It was not seen, so it was not confirmed.
    assert!(!status.tree.clone().unwrap().confirmed, "{status:?}");
    pending.await.unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let roots =
        || children(own).into_iter().filter(|pid| program(*pid).is_some_and(|name| name == "codespace-linux-sandbox"));
    let until = Instant::now() + Duration::from_secs(5);
    // Other tests of this process have roots too, each for a moment.
    while roots().any(|pid| Stat::of_process(pid).is_some_and(|stat| stat.state == b'S' && stat.ppid == own)) {
        assert!(Instant::now() < until, "a root is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
