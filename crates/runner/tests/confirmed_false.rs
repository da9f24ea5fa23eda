//! A tree that cannot be seen gone in time: the end is told all the same, after about 2 s, with `confirmed: false` and a
//! reason; and what was in the way once it has let go leaves nothing.
//!
//! The test is what is in the way: it traces a member from outside and does not reap it, and the kernel lets a namespace's
//! first process vanish only after everybody in it.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ExecRequest, ProcessId, State, Termination};
use codespace_runner::uds::UdsClient;
use codespace_testkit::fixture::{RunnerProcess, ask};
use serde_json::json;

/// Of the contract.
const PROOF: Duration = Duration::from_secs(2);

/// For a machine that is busy.
const MARGIN: Duration = Duration::from_secs(3);

/// Traces one process from a thread of its own. Dropped, it lets go: the process is waited for where it is dead.
struct Tracer {
    release: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    fn seize(pid: i32) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (tell, seized) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: the request takes no memory.
            let done = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) };
            let outcome = if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) };
            let traces = outcome.is_ok();
            // Whoever does not listen has failed already.
            tell.send(outcome).ok();
            // An error is the sender's drop, which is a release too.
            released.recv().ok();
            if traces {
                // SAFETY: a tracee of this thread, and no status is asked for. It is dead, or dies with the namespace.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
            }
            // One that lives goes on untraced when this thread ends.
        });
        seized.recv().expect("the tracer's thread").expect("to trace a member");
        Self { release: Some(release), thread: Some(thread) }
    }

    fn let_go(&mut self) {
        drop(self.release.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the tracer's thread");
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The pid of a process below `root` whose program is called so.
fn member(root: i32, name: &str) -> Option<i32> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        all.extend(list.split(' ').filter_map(|pid| pid.parse::<i32>().ok()));
        next += 1;
    }
    let called = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    all.into_iter().find(called)
}

/// Starts it, and traces the `tail` that is in it.
async fn traced(client: &UdsClient, request: ExecRequest) -> (ProcessId, Tracer) {
    let id = client.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(client, id, "ready").await;
    let root = ask::running(client).await[0].pid.expect("the helper's pid");
    let until = Instant::now() + ask::LONG;
    // The shell's child may not have become `tail` yet.
    let tail = loop {
        if let Some(pid) = member(root, "tail") {
            break pid;
        }
        assert!(Instant::now() < until, "there is no tail");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    (id, Tracer::seize(tail))
}

const SCRIPT: &str = "setsid tail -f /dev/null & echo ready; wait";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_traced_member_that_is_not_reaped_makes_the_end_unconfirmed_after_2_s_and_nothing_stays_when_it_is() {
    for keys in [json!({}), json!({"sandbox": "none"})] {
        let Some(mut runner) = RunnerProcess::with(keys.clone(), &[]).await else { return };
        let client = runner.connect().await;
        let (id, mut tracer) = traced(&client, ask::shell(SCRIPT)).await;
        let began = Instant::now();
        let status = client.terminate_process(ask::terminate(id)).await.expect("a final status");
        let took = began.elapsed();
        let told = (status.state, status.ended_by, status.termination);
        assert_eq!(
            told,
            (State::Exited, Some(EndedBy::Terminate), Some(Termination::Terminated)),
            "{keys}: {status:?}"
        );
        let tree = status.tree.as_ref().expect("a report of the tree");
        assert!(!tree.confirmed && status.eof, "{keys}: {status:?}");
        let detail = tree.detail.as_deref().expect("a reason");
        assert!(detail.contains("first process") && detail.contains("traced"), "{keys}: {detail}");
        assert!(took >= PROOF && took < PROOF + MARGIN, "{keys}: {took:?}");
        assert!(Duration::from_millis(tree.took_ms) >= PROOF, "{keys}: {status:?}");
        tracer.let_go();
        runner.assert_nothing_is_left(&[], &format!("{keys}: after the tracer has let go"));
        assert_eq!(ask::ended(&client, id).await, *status, "{keys}: never told otherwise later");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_natural_end_and_a_stop_are_told_in_time_too() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    let script = "setsid tail -f /dev/null & echo ready; until [ -e go ]; do sleep 0.02; done; exit 3";
    let (id, mut tracer) = traced(&client, ask::shell(script)).await;
    fs::write(runner.ground.workspace().join("go"), "").unwrap();
    let status = ask::ended(&client, id).await;
    let told = (status.ended_by, status.exit_code, status.tree.as_ref().map(|tree| (tree.confirmed, tree.leftovers)));
    assert_eq!(told, (Some(EndedBy::Command), Some(3), Some((false, 1))), "{status:?}");
    // Others are not kept waiting, and are seen gone.
    let (other, _) = ask::run(&client, ask::command(["true"])).await;
    assert!(other.tree.as_ref().is_some_and(|tree| tree.confirmed), "another process: {other:?}");
    tracer.let_go();
    runner.assert_nothing_is_left(&[], "after the tracer has let go");

    let (_, mut tracer) = traced(&client, ask::shell(SCRIPT)).await;
    let began = Instant::now();
    client.stop(Default::default()).await.expect("an answer");
    assert_eq!(runner.ended().await.code(), Some(0));
    assert!(began.elapsed() < PROOF + MARGIN, "{:?}", began.elapsed());
    tracer.let_go();
    runner.assert_nothing_is_left(&[], "after the tracer has let go");
}
