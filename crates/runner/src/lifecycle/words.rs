//! The lifecycle's words: what can happen, what has to be done, and how it all ended.

use std::time::Duration;

use codespace_domain::{EndedBy, LimitName, Limits, Phase, Termination};
use codespace_linux_sandbox_protocol::{CommandEnd, StageFailure, TreeUsage};

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The root exists.
    Launched,
    /// The root was started in a cgroup of its own.
    InCgroup,
    /// Nothing lives in that cgroup.
    CgroupEmpty,
    /// There will be no root.
    LaunchFailed(StageFailure),
    /// There will be no root, since the end came while there was none yet.
    Abandoned,
    /// The helper asks whether the Runner is there.
    Armed,
    /// A handle of the namespace's first process came.
    FirstProcess,
    /// There is no namespace; the helper keeps what it starts below it.
    Supervised,
    /// The inner stage asks for the command's descriptors.
    Ready,
    /// The command's `execve` succeeded.
    Started,
    /// The start failed.
    Failed(StageFailure),
    /// The command's own end.
    Exited { end: CommandEnd, usage: TreeUsage, leftovers: u64 },
    /// All below the inner stage has ended.
    Gone { usage: TreeUsage },
    /// What the engine said when it did not end as planned.
    EngineEnded { said: String },
    /// The control socket is at its end.
    ControlClosed,
    /// The root was reaped.
    RootGone,
    /// The first process was seen dead.
    NamespaceGone,
    /// The Runner has looked below the stopped root, or at what had come to it, and nothing was left.
    SeenEmpty,
    /// An end was asked for.
    End { cause: EndedBy, grace: Option<Duration> },
    /// A timer ran out.
    Fired(Timer),
    /// Every output byte is in the journal.
    Drained,
}

/// Timers of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Of the request; runs from the start.
    Timeout,
    /// Between SIGTERM and the end.
    Grace,
    /// For what the command left running.
    Linger,
    /// For the helper to leave when its sandbox has ended by itself.
    Helper,
    /// For the tree to be seen gone.
    Proof,
}

/// What the owner has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Answer the helper's question.
    AnswerHelper,
    /// Give the inner stage the command's descriptors.
    HandStdio,
    /// SIGTERM to the command's process group.
    AskToEnd,
    /// Ask the supervising helper to end everything below it.
    AskSupervisor,
    /// End the tree now.
    KillTree,
    /// Start a timer.
    Arm(Timer, Duration),
    /// The caller of `exec` can be answered: it runs.
    AnnounceStart,
    /// The phase that others see.
    Show(Phase),
    /// Read what is left in the pipes.
    Drain,
    /// The end.
    Publish(Box<Outcome>),
}

/// How it all ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It never ran, through no one's wish: an error for the caller, and no trace.
    StartFailed(StageFailure),
    /// A status for everyone.
    Ended(Ended),
}

/// What a tree has used, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) user_ms: u64,
    pub(crate) system_ms: u64,
    pub(crate) max_rss_bytes: Option<u64>,
}

impl From<TreeUsage> for Used {
    fn from(usage: TreeUsage) -> Self {
        let TreeUsage { user_ms, system_ms, max_rss_bytes } = usage;
        Self { user_ms, system_ms, max_rss_bytes: Some(max_rss_bytes) }
    }
}

/// What an ended process leaves to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) cause: EndedBy,
    pub(crate) termination: Termination,
    /// The command's own, where the contract wants it shown.
    pub(crate) command: Option<CommandEnd>,
    pub(crate) limit: Option<LimitName>,
    pub(crate) leftovers: u64,
    pub(crate) usage: Option<Used>,
    /// Why the tree was not seen gone; `None` when it was.
    pub(crate) unconfirmed: Option<String>,
}

/// What a process was started with, as far as its life depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) linger: Duration,
    /// `background: "keep"`.
    pub(crate) keep: bool,
    pub(crate) limits: Limits,
}
