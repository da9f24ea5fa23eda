//! The life of one process as a pure function: state + event -> state + actions. The owner task (`process/owner.rs`)
//! performs the actions and feeds the events; nothing here touches the kernel or the clock.
//!
//! ```text
//!             started                 the command's own end, or an end that was asked for
//!  STARTING ----------> RUNNING ---------------------------------------------------------> ENDING
//!     |                                                                                      |
//!     | failed, or an end                          seen gone (or 2 s), output drained        v
//!     +------------------------------------------------------------------------------->  exited, once
//! ```
//!
//! Three facts are kept apart: how the command ended, what ended the process (the first cause that was accepted), and
//! whether the tree was seen gone. The tree is gone when all of these were seen, each for itself:
//! - the root is dead (its pidfd), then reaped;
//! - the control socket is at its end: helper, engine and inner stage are gone;
//! - the first process of the PID namespace is dead (its pidfd), which the kernel lets happen only after everything in the
//!   namespace is; or it was never announced, and then it never got leave to go on. Where there is no namespace: the
//!   supervising helper has said that nothing is left, or the Runner has looked below it while it was stopped;
//! - its cgroup is empty, where it has one.

mod words;

use std::time::Duration;

use codespace_domain::{EndedBy, LimitName, Phase, Stage, Termination};
use codespace_linux_sandbox_protocol::{CommandEnd, StageFailure, TreeUsage};

pub(crate) use words::{Action, Ended, Event, Outcome, Terms, Timer, Used};

/// How long a tree may take to be seen gone before `exited` is published without that.
pub(crate) const PROOF: Duration = Duration::from_secs(2);

/// What a command leaves that was not counted has at least so long before it is ended.
pub(crate) const UNSEEN: Duration = Duration::from_millis(100);

/// How long a helper may take to leave after its sandbox has ended by itself.
pub(crate) const HELPER: Duration = Duration::from_millis(500);

/// Of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    NotYet,
    Lives,
    Gone,
}

/// Of what the command runs in: the namespace's first process, or what a supervising helper keeps below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Unannounced,
    Namespace,
    Supervised,
    Gone,
}

/// The state of one process.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    terms: Terms,
    root: Root,
    /// There is a cgroup, and it was not seen empty.
    cgroup: bool,
    control_open: bool,
    below: Below,
    started: bool,
    failure: Option<StageFailure>,
    engine_said: String,
    command: Option<CommandEnd>,
    leftovers: u64,
    usage: Option<TreeUsage>,
    /// The tree has ended by itself.
    gone_told: bool,
    cause: Option<EndedBy>,
    killed: bool,
    proof_overdue: bool,
    draining: bool,
    published: bool,
}

impl Lifecycle {
    /// A process whose slot was just reserved, and the first things to do.
    pub(crate) fn new(terms: Terms) -> (Self, Vec<Action>) {
        let mut actions = vec![Action::Show(Phase::Starting)];
        actions.extend(terms.timeout.map(|timeout| Action::Arm(Timer::Timeout, timeout)));
        let state = Self {
            terms,
            root: Root::NotYet,
            cgroup: false,
            control_open: true,
            below: Below::Unannounced,
            started: false,
            failure: None,
            engine_said: String::new(),
            command: None,
            leftovers: 0,
            usage: None,
            gone_told: false,
            cause: None,
            killed: false,
            proof_overdue: false,
            draining: false,
            published: false,
        };
        (state, actions)
    }

    /// Takes an event in.
    pub(crate) fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.published {
            return actions;
        }
        match event {
            Event::Launched => {
                self.root = Root::Lives;
                if self.killed {
                    // The end came while the root was being started.
                    actions.push(Action::KillTree);
                }
            }
            Event::InCgroup => self.cgroup = true,
            Event::CgroupEmpty => self.cgroup = false,
            Event::LaunchFailed(failure) => {
                self.root = Root::Gone;
                self.control_open = false;
                self.failure.get_or_insert(failure);
            }
            Event::Abandoned => {
                self.root = Root::Gone;
                self.control_open = false;
            }
            // Who is to end gets no leave to go on.
            Event::Armed if !self.killed => actions.push(Action::AnswerHelper),
            Event::Ready if !self.killed => actions.push(Action::HandStdio),
            Event::Armed | Event::Ready => {}
            Event::FirstProcess => self.below = Below::Namespace,
            Event::Supervised => self.below = Below::Supervised,
            Event::Started => {
                self.started = true;
                actions.push(Action::AnnounceStart);
                if self.cause.is_none() {
                    actions.push(Action::Show(Phase::Running));
                }
            }
            Event::Failed(failure) => {
                self.failure.get_or_insert(failure);
            }
            Event::Exited { end, usage, leftovers } => self.command_ended(end, usage, leftovers, &mut actions),
            Event::Gone { usage } => {
                self.usage = Some(usage);
                self.gone_told = true;
                self.seen_empty();
            }
            Event::EngineEnded { said } => self.engine_said = said,
            // As a rule the helper is just leaving, and in the second case may have something to say first.
            Event::ControlClosed => {
                self.control_open = false;
                actions.push(Action::Arm(Timer::Helper, HELPER));
            }
            Event::NamespaceGone => {
                self.below = Below::Gone;
                actions.push(Action::Arm(Timer::Helper, HELPER));
            }
            Event::RootGone => self.root = Root::Gone,
            Event::SeenEmpty => self.seen_empty(),
            Event::End { cause, grace } => self.end(cause, grace, &mut actions),
            Event::Fired(Timer::Timeout) => self.end(EndedBy::Timeout, None, &mut actions),
            Event::Fired(Timer::Grace | Timer::Linger) => self.kill(&mut actions),
            Event::Fired(Timer::Helper) => self.force(&mut actions),
            Event::Fired(Timer::Proof) => self.proof_overdue = true,
            Event::Drained => {
                if self.draining {
                    self.published = true;
                    actions.push(Action::Publish(Box::new(self.outcome())));
                }
                return actions;
            }
        }
        self.settle(&mut actions);
        actions
    }

    /// The process is to end, whatever the cause, and the tree may still be there.
    pub(crate) fn is_ending(&self) -> bool {
        self.cause.is_some() || self.killed || self.root == Root::Gone
    }

    /// There is a command that a signal could reach.
    pub(crate) fn takes_signals(&self) -> bool {
        self.started && self.command.is_none() && !self.killed
    }

    fn command_ended(&mut self, end: CommandEnd, usage: TreeUsage, leftovers: u64, actions: &mut Vec<Action>) {
        self.command = Some(end);
        self.leftovers = leftovers;
        self.usage = Some(usage);
        // An end that was asked for before stays its cause; what is left has what is left of the grace.
        if self.cause.is_some() || self.terms.keep {
            return;
        }
        self.cause = Some(if self.limit().is_some() { EndedBy::Limit } else { EndedBy::Command });
        actions.push(Action::Show(Phase::Ending));
        if leftovers > 0 && self.terms.linger.is_zero() {
            self.kill(actions);
        } else {
            // Also where none was counted: one that hides from the count must not stay for ever. With none, the tree is
            // gone before this fires.
            let least = if leftovers == 0 { UNSEEN } else { Duration::ZERO };
            actions.push(Action::Arm(Timer::Linger, self.terms.linger.max(least)));
        }
    }

    /// The first cause wins; a later one can only make it sooner.
    fn end(&mut self, cause: EndedBy, grace: Option<Duration>, actions: &mut Vec<Action>) {
        let first = self.cause.is_none();
        if first {
            self.cause = Some(cause);
            actions.push(Action::Show(Phase::Ending));
        } else if cause == EndedBy::Timeout && self.command.is_none() {
            // The timeout of a process that is being ended already says nothing new. Only what its command has left
            // running must not outlast it.
            return;
        }
        let grace = grace.unwrap_or(self.terms.grace);
        // Before its execve there is no command that could take a SIGTERM, after its end none any more.
        if self.killed || grace.is_zero() || !self.started || self.command.is_some() {
            self.kill(actions);
        } else {
            if first {
                actions.push(Action::AskToEnd);
            }
            actions.push(Action::Arm(Timer::Grace, grace));
        }
    }

    fn kill(&mut self, actions: &mut Vec<Action>) {
        if self.killed {
            return;
        }
        self.killed = true;
        actions.push(Action::Arm(Timer::Proof, PROOF));
        if self.below == Below::Supervised && self.root == Root::Lives && self.control_open {
            // Nobody ends it better; whoever does not answer in time is ended from outside.
            actions.extend([Action::AskSupervisor, Action::Arm(Timer::Helper, HELPER)]);
            return;
        }
        // A root that does not exist yet is ended as soon as it does; or there will be none, and `Abandoned` says so.
        actions.push(Action::KillTree);
    }

    /// The helper had its time.
    fn force(&mut self, actions: &mut Vec<Action>) {
        if self.killed {
            actions.push(Action::KillTree);
        } else {
            self.kill(actions);
        }
    }

    /// What follows from the state alone.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        if self.draining {
            return;
        }
        let gone = self.tree_is_gone();
        if !gone && !self.killed {
            // The root is gone without having been asked to, or the start has failed: the rest follows.
            if self.root == Root::Gone || self.failure.is_some() {
                self.kill(actions);
            }
        }
        if gone || self.proof_overdue {
            self.draining = true;
            actions.push(Action::Drain);
        }
    }

    fn tree_is_gone(&self) -> bool {
        let below = matches!(self.below, Below::Unannounced | Below::Gone);
        self.root == Root::Gone && !self.control_open && below && !self.cgroup
    }

    /// A namespace has its own proof, which is stronger.
    fn seen_empty(&mut self) {
        if self.below == Below::Supervised {
            self.below = Below::Gone;
        }
    }

    fn limit(&self) -> Option<LimitName> {
        match self.command {
            Some(CommandEnd::Signal(libc::SIGXCPU)) if self.terms.limits.cpu_seconds.is_some() => Some(LimitName::Cpu),
            // One that ignores the first signal is killed a second later.
            Some(CommandEnd::Signal(libc::SIGKILL)) if self.spent_its_cpu_limit() => Some(LimitName::Cpu),
            Some(CommandEnd::Signal(libc::SIGXFSZ)) if self.terms.limits.file_bytes.is_some() => {
                Some(LimitName::FileSize)
            }
            _ => None,
        }
    }

    fn spent_its_cpu_limit(&self) -> bool {
        let used = self.usage.map_or(0, |usage| usage.user_ms + usage.system_ms);
        self.terms
            .limits
            .cpu_seconds
            .is_some_and(|seconds| used + 100 >= seconds.saturating_add(1).saturating_mul(1000))
    }

    fn outcome(&self) -> Outcome {
        let own = |end: CommandEnd| match end {
            CommandEnd::Code(_) => Termination::Exited,
            CommandEnd::Signal(_) => Termination::Signaled,
        };
        let cause = match (self.cause, self.command) {
            (Some(cause), _) => cause,
            // A background that was kept, and ended by itself.
            (None, Some(_)) if self.gone_told => EndedBy::Command,
            (None, _) if self.started => EndedBy::HelperLost,
            (None, _) => return Outcome::StartFailed(self.start_failure()),
        };
        let termination = match (cause, self.command) {
            (EndedBy::Command | EndedBy::Limit, Some(end)) => own(end),
            (EndedBy::Limit, None)
            | (EndedBy::Terminate | EndedBy::Workspace | EndedBy::Stop | EndedBy::Connection, _) => {
                Termination::Terminated
            }
            (EndedBy::Timeout, _) => Termination::Timeout,
            (EndedBy::HelperLost, _) | (EndedBy::Command, None) => Termination::Unknown,
        };
        let shows_own_end = self.terms.keep || matches!(termination, Termination::Exited | Termination::Signaled);
        Outcome::Ended(Ended {
            cause,
            termination,
            command: self.command.filter(|_| shows_own_end),
            limit: self.limit().filter(|_| cause == EndedBy::Limit),
            leftovers: if matches!(cause, EndedBy::Command | EndedBy::Limit) { self.leftovers } else { 0 },
            usage: self.usage.map(Used::from),
            unconfirmed: (!self.tree_is_gone()).then(|| self.still_there()),
        })
    }

    fn start_failure(&self) -> StageFailure {
        self.failure.clone().unwrap_or_else(|| {
            let message = match self.engine_said.as_str() {
                "" => "set up the sandbox: the helper ended before the command was started".to_owned(),
                said => format!("set up the sandbox: {said}"),
            };
            StageFailure { stage: Stage::Sandbox, errno: None, message }
        })
    }

    fn still_there(&self) -> String {
        let mut parts = Vec::new();
        if self.root != Root::Gone {
            parts.push("the helper was not seen to end");
        }
        if self.cgroup {
            parts.push("its cgroup was not seen to be empty");
        }
        if self.control_open {
            parts.push("a stage of the sandbox still holds its control socket");
        }
        match self.below {
            Below::Unannounced | Below::Gone => {}
            Below::Namespace => {
                parts.push("the PID namespace's first process was not seen to end (is a member traced from outside?)");
            }
            Below::Supervised => {
                parts.push("without a PID namespace, what the helper had kept below it was not seen to end");
            }
        }
        format!("after {} ms: {}", PROOF.as_millis(), parts.join("; "))
    }
}

#[cfg(test)]
#[path = "lifecycle/tests.rs"]
mod tests;
