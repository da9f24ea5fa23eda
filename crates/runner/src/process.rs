//! The slots: reserve, fill, find, end.
//!
//! A slot is the Runner's record of one process. It is reserved before anything is created, so a refused command never
//! runs, even briefly. Its one owner task (`owner.rs`) creates and ends the process and is the only writer of what others
//! see of it; everyone else asks the owner through [`Slot::request_kill`] and [`Slot::signal`], and reads the journal.

mod admission;
mod asked;
#[cfg(target_os = "linux")]
mod end;
mod lease;
#[cfg(target_os = "linux")]
mod owner;
#[cfg(not(target_os = "linux"))]
#[path = "process/owner_elsewhere.rs"]
mod owner;
#[cfg(target_os = "linux")]
mod standard_io;
mod status;
mod stdin;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use codespace_domain::{EndedBy, ErrorCode, ExecRequest, Phase, ProcessId, ProcessStatus, RunnerError, State};
use codespace_policy::Admitted;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub use admission::Retention;
pub(crate) use admission::{Admission, Table};
use asked::Asked;
pub(crate) use lease::Ground;
pub(crate) use owner::{Launcher, own};
pub(crate) use stdin::{Refusal, Stdin};

use crate::output::Journal;

/// The Runner's record of one process.
pub(crate) struct Slot {
    pub(crate) id: ProcessId,
    /// What was asked for; a retry with the same key has to be the same.
    pub(crate) asked: Asked,
    /// What was decided about it, as far as others may see.
    pub(crate) terms: status::Terms,
    /// Whether the sandbox helper launched it, with or without a sandbox: then its end begins with the walk.
    pub(crate) sandboxed: bool,
    /// Ends with the connection of this session, where its lifetime says so.
    pub(crate) session: u64,
    pub(crate) journal: Journal,
    pub(crate) stdin: Stdin,
    /// The root that it is in, once the disk was looked at; only where one of the registry's workspaces is exclusive.
    ground: OnceLock<Ground>,
    asks: mpsc::UnboundedSender<Ask>,
    visible: watch::Receiver<Visible>,
    /// `exec` calls that wait for this process's start and have not been answered.
    unanswered: AtomicUsize,
    answered: tokio::sync::Notify,
}

/// What is asked of an owner.
pub(crate) enum Ask {
    End { cause: EndedBy, grace: Option<Duration> },
    Signal { number: i32, done: oneshot::Sender<Result<(), RunnerError>> },
    Resize { size: codespace_pty::Size, done: oneshot::Sender<Result<(), RunnerError>> },
}

/// What others see of a process; one writer, its owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visible {
    pub(crate) phase: Option<Phase>,
    /// The command's `execve` has succeeded.
    pub(crate) started: bool,
    /// The root's pid, while it is there.
    pub(crate) pid: Option<i32>,
    /// The end, once.
    pub(crate) end: Option<End>,
}

/// How a slot's story ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It never ran; the slot is gone.
    StartFailed(RunnerError),
    /// The status without what the journal knows.
    Ended(Arc<ProcessStatus>),
}

/// What an owner needs to be one.
pub(crate) struct Seat {
    pub(crate) asks: mpsc::UnboundedReceiver<Ask>,
    pub(crate) visible: watch::Sender<Visible>,
    pub(crate) stdin: stdin::Jobs,
    pub(crate) accepted: Instant,
    /// Dropped when the start is planned.
    pub(crate) request: ExecRequest,
    pub(crate) admitted: Admitted,
}

impl Slot {
    /// A record, and what its owner needs. Nothing is created yet.
    pub(crate) fn new(request: ExecRequest, admitted: Admitted, session: u64) -> (Arc<Self>, Seat) {
        let (asks, asked) = mpsc::unbounded_channel();
        let (visible, seen) = watch::channel(Visible { phase: Some(Phase::Starting), ..Visible::default() });
        let (stdin, jobs) = Stdin::new(admitted.stdin, request.tty);
        let slot = Self {
            id: ProcessId::mint(),
            terms: status::Terms::new(&admitted),
            journal: Journal::new(admitted.output_bytes, admitted.on_full),
            asked: Asked::of(&request),
            ground: OnceLock::new(),
            // Nothing else launches one.
            sandboxed: cfg!(target_os = "linux"),
            session,
            stdin,
            asks,
            visible: seen,
            unanswered: AtomicUsize::new(0),
            answered: tokio::sync::Notify::new(),
        };
        let seat = Seat { asks: asked, visible, stdin: jobs, accepted: Instant::now(), request, admitted };
        (Arc::new(slot), seat)
    }

    /// Whether its tree may still be there.
    pub(crate) fn lives(&self) -> bool {
        // An owner that left without an end has failed; nobody waits for it.
        self.visible.borrow().end.is_none() && self.visible.has_changed().is_ok()
    }

    /// Asks for the process's end, by whatever cause. The first cause that is accepted is the one that is told; a later
    /// one can only make it sooner. `grace`: SIGTERM first, and so long until the end; `None`: what its `exec` said.
    pub(crate) fn request_kill(&self, cause: EndedBy, grace: Option<Duration>) {
        // An owner that has left has published the end already.
        self.asks.send(Ask::End { cause, grace }).ok();
    }

    /// Sends a signal to the command's process group: asked for now, and the future waits for the answer.
    pub(crate) fn signal(self: &Arc<Self>, number: i32) -> impl Future<Output = Result<(), RunnerError>> + use<> {
        let (done, answer) = oneshot::channel();
        self.ask(Ask::Signal { number, done }, answer)
    }

    /// Sets the terminal's size; as `signal`.
    pub(crate) fn resize(
        self: &Arc<Self>,
        size: codespace_pty::Size,
    ) -> impl Future<Output = Result<(), RunnerError>> + use<> {
        let (done, answer) = oneshot::channel();
        self.ask(Ask::Resize { size, done }, answer)
    }

    fn ask(
        self: &Arc<Self>,
        ask: Ask,
        answer: oneshot::Receiver<Result<(), RunnerError>>,
    ) -> impl Future<Output = Result<(), RunnerError>> + use<> {
        // An owner that has left drops the question, and with it the sender.
        self.asks.send(ask).ok();
        let slot = Arc::clone(self);
        async move { answer.await.unwrap_or_else(|_| Err(slot.not_running())) }
    }

    /// The error of whoever wants something of a process that has ended.
    pub(crate) fn not_running(&self) -> RunnerError {
        RunnerError::new(ErrorCode::ProcessNotRunning, format!("reach {}: it has ended", self.id)).about(self.id)
    }

    /// Waits until the command runs, the start has failed or the process was ended.
    pub(crate) async fn started(&self) -> Visible {
        self.wait_for(|visible| visible.started || visible.end.is_some()).await
    }

    /// Waits for the end; what is returned has one.
    pub(crate) async fn ended(&self) -> Visible {
        self.wait_for(|visible| visible.end.is_some()).await
    }

    async fn wait_for(&self, enough: impl FnMut(&Visible) -> bool) -> Visible {
        let mut visible = self.visible.clone();
        match visible.wait_for(enough).await {
            Ok(seen) => seen.clone(),
            // Only an owner that panicked leaves without an end.
            Err(_) => {
                let error = RunnerError::new(ErrorCode::Internal, format!("follow {}: its owner is gone", self.id));
                Visible { end: Some(End::StartFailed(error)), ..Visible::default() }
            }
        }
    }

    /// How it stands now.
    pub(crate) fn status(&self) -> ProcessStatus {
        status::status(self, &self.visible.borrow())
    }

    /// Running or exited.
    pub(crate) fn state(&self) -> State {
        if self.lives() { State::Running } else { State::Exited }
    }

    /// Held by an `exec` call until it is answered.
    pub(crate) fn answer_pending(self: &Arc<Self>) -> AnswerPending {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        AnswerPending(Arc::clone(self))
    }

    /// Waits until every `exec` call that waited for this process has its answer.
    pub(crate) async fn answered(&self) {
        loop {
            let answered = self.answered.notified();
            if self.unanswered.load(Ordering::SeqCst) == 0 {
                return;
            }
            answered.await;
        }
    }
}

/// An `exec` call that is not answered yet.
pub(crate) struct AnswerPending(Arc<Slot>);

impl Drop for AnswerPending {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::SeqCst);
        self.0.answered.notify_waiters();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
