//! One traced start: asked for, held at its point, let go, and seen to be gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codespace_runner::Runner as _;
use codespace_runner::domain::{ExecRequest, ProcessId, ProcessStatus, Reply, Request, RunnerError, StatusRequest};
use codespace_runner::uds::UdsClient;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::point::{Calls, Point};
use super::tracer::Tracer;
use super::tracer_thread::TreeId;
use super::tree::View;
use crate::fixture::ask;

/// Far longer than a traced start takes, also on a busy machine.
const START: Duration = Duration::from_secs(20);
/// After the start was answered, what has not been reached is not on this start's way.
const PASSED: Duration = Duration::from_millis(60);
/// After this nothing may live.
pub(super) const GONE: Duration = Duration::from_secs(1);
/// The contract's 2 s for the proof, and as much again for a busy machine as half of it.
pub(super) const ANSWER: Duration = Duration::from_secs(3);

/// Where starts are asked for.
pub(super) struct Desk {
    pub(super) client: UdsClient,
    tracer: Arc<Tracer>,
    workspace: PathBuf,
    /// Held from the request to the birth, so that it is known which start is whose.
    births: Mutex<()>,
}

/// A start that was asked for.
pub(super) struct Start {
    pub(super) key: String,
    pub(super) tree: TreeId,
    view: watch::Receiver<View>,
    marker: PathBuf,
    exec: Exec,
}

enum Exec {
    Pending(JoinHandle<Result<Reply, RunnerError>>),
    Answered(Result<ProcessId, RunnerError>),
}

impl Desk {
    pub(super) fn new(client: UdsClient, tracer: Arc<Tracer>, workspace: PathBuf) -> Self {
        Self { client, tracer, workspace, births: Mutex::default() }
    }

    /// Asks for a start whose first act is to leave a file in the workspace; returns when its first process is there.
    pub(super) async fn begin(&self, target: Option<Point>, timeout_after: Option<Duration>) -> Start {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let key = format!("ran-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let request = ExecRequest {
            process_key: Some(ask::key(&key)),
            timeout_ms: timeout_after.and_then(|after| u64::try_from(after.as_millis()).ok()),
            ..ask::command(["/bin/sh", "-c", ": > \"$0\"; exec sleep 1000", &key])
        };
        let turn = self.births.lock().await;
        let (tree, view) = self.tracer.expect(target);
        let exec = Exec::Pending(tokio::spawn(self.client.call(Request::Exec(Box::new(request)))));
        let mut start = Start { marker: self.workspace.join(&key), key, tree, view, exec };
        let born = timeout(START, start.view.wait_for(|view| view.born)).await.is_ok();
        drop(turn);
        assert!(born, "no process of a start came: {:?}", start.exec_answer(Duration::ZERO).await);
        start
    }

    /// How the process ended, once it has; the error of a start that failed.
    pub(super) async fn final_status(&self, start: &mut Start) -> Option<Result<ProcessStatus, RunnerError>> {
        let process_id = match start.exec_answer(START).await? {
            Ok(process_id) => process_id,
            Err(error) => return Some(Err(error)),
        };
        let wait_ms = u64::try_from(ANSWER.as_millis()).unwrap_or(u64::MAX);
        Some(self.client.process_status(StatusRequest { process_id, wait_ms }).await.map(|status| *status))
    }

    /// Lets it go, and waits until it is gone; says what is not by then, and ends that.
    pub(super) async fn see_gone(&self, start: &mut Start, by: Instant) -> Vec<String> {
        self.tracer.let_go(start.tree);
        let mut found = Vec::new();
        if timeout_at(by, start.view.wait_for(View::is_gone)).await.is_err() {
            let left: Vec<String> = start.live().iter().map(|pid| crate::proc::command_line(*pid)).collect();
            found.push(format!("still alive after {GONE:?}: {left:?}"));
            self.tracer.kill(start.tree, None);
            timeout(START, start.view.wait_for(View::is_gone)).await.ok();
        }
        found.extend(start.view.borrow().went_on.iter().map(|what| format!("after it was let go, {what}")));
        found
    }

    /// What of it lives at this moment.
    pub(super) fn live_now(&self, start: &Start) -> Vec<String> {
        self.tracer.catch_up(start.tree);
        start.live().iter().map(|pid| crate::proc::command_line(*pid)).collect()
    }

    pub(super) fn let_go(&self, tree: TreeId) {
        self.tracer.let_go(tree);
    }

    pub(super) fn calls(&self, start: &Start) -> Calls {
        self.tracer.catch_up(start.tree)
    }

    /// SIGKILL to those so far below the Runner; returns when they are dead. `false`: there was none.
    pub(super) async fn kill(&self, start: &mut Start, generation: u8) -> bool {
        if self.tracer.kill(start.tree, Some(generation)) == 0 {
            return false;
        }
        timeout(GONE, start.view.wait_for(|view| !view.has(generation))).await.is_ok()
    }

    /// For a start that is of no use.
    pub(super) async fn give_up(&self, mut start: Start) {
        self.client.terminate_process(ask::terminate_by_key(&start.key)).await.ok();
        self.see_gone(&mut start, Instant::now() + GONE).await;
    }
}

impl Start {
    /// Waits until the point is reached. `false`: the start went by without it.
    pub(super) async fn is_held(&mut self) -> bool {
        let mut view = self.view.clone();
        let held = view.wait_for(|view| view.held.is_some() || view.is_gone());
        let passed = async {
            self.exec_answer(START).await;
            sleep(PASSED).await;
        };
        tokio::select! {
            seen = held => drop(seen),
            () = passed => {}
        }
        self.view.borrow().held.is_some()
    }

    /// Waits for so long until whoever was held is dead.
    pub(super) async fn held_one_is_dead(&mut self, within: Duration) -> bool {
        timeout(within, self.view.wait_for(|view| !view.holds())).await.is_ok()
    }

    /// The number of the system call that it is held at.
    pub(super) fn call(&self) -> Option<u64> {
        self.view.borrow().held.map(|(_, call)| call)
    }

    /// Whether the command has done anything so far.
    pub(super) fn ran(&self) -> Ran {
        Ran { marker: self.marker.clone(), before: self.marker.exists() }
    }

    /// The answer to `exec`; `None` when it does not come.
    pub(super) async fn exec_answer(&mut self, within: Duration) -> Option<Result<ProcessId, RunnerError>> {
        if let Exec::Pending(pending) = &mut self.exec {
            let answer = timeout(within, pending).await.ok()?.expect("the exec's task");
            let answer = answer.map(|reply| match reply {
                Reply::Exec(reply) => reply.process_id,
                other => panic!("no answer to exec: {other:?}"),
            });
            self.exec = Exec::Answered(answer);
        }
        match &self.exec {
            Exec::Answered(answer) => Some(answer.clone()),
            Exec::Pending(_) => None,
        }
    }

    fn live(&self) -> Vec<i32> {
        self.view.borrow().live.keys().copied().collect()
    }
}

/// Whether the command had run at the moment after which it must not begin to.
pub(super) struct Ran {
    marker: PathBuf,
    before: bool,
}

impl Ran {
    /// Asked when enough time has passed.
    pub(super) fn began_later(&self) -> bool {
        !self.before && self.marker.exists()
    }
}
