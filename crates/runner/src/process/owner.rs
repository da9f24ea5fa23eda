//! The owner of one process: performs what its lifecycle decides, and is the only writer of what others see.
//!
//! Everything that can wake it is one `select!`: what is asked of it, the launch, the control socket, the two handles,
//! the walk, the timers, the pumps. It never blocks; the walk has a thread of its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{Background, EndedBy, ErrorCode, RunnerError, Stage};
use codespace_linux_sandbox_protocol::{CommandEnd, FromSandbox, Plan, StageFailure, ToSandbox};
use codespace_policy::{Admitted, HostDisk, HostFacts, Registry};
use codespace_pty::Size;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::end::{Seen, Target, kill_pipe_root};
use super::standard_io::StandardIo;
use super::{Ask, End, Seat, Slot, Table, Visible, status, stdin};
use crate::cgroups::{Cgroups, Events, Leaf};
use crate::control::{Control, Received};
use crate::launch::{LaunchError, Root, Spawner};
use crate::lifecycle::{Action, Event, Lifecycle, Outcome, Terms, Timer, Used};
use crate::output::Pumps;
use crate::sys::pidfd::{AsyncPidFd, PidFd};

/// How long the pipes may stay open after the tree is gone: only where somebody outside the tree holds them.
const DRAIN: Duration = Duration::from_millis(500);

/// Between two looks at a dead root that a tracer keeps.
const REAP_AGAIN: Duration = Duration::from_millis(10);

/// How roots are started.
pub(crate) struct Launcher {
    pub(crate) spawner: Arc<Spawner>,
    pub(crate) helper: PathBuf,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) registry: Registry,
    pub(crate) host: HostFacts,
}

impl Launcher {
    /// Starts the thread that roots are started from, and finds the place of their cgroups.
    ///
    /// # Errors
    /// The operating system gave no thread.
    pub(crate) fn start(helper: PathBuf, registry: Registry, host: HostFacts) -> io::Result<Self> {
        let spawner = Arc::new(Spawner::start()?);
        Ok(Self { spawner, helper, cgroups: Cgroups::open(), registry, host })
    }

    /// Looks at the disk, which may block for long where that is a network's.
    fn plan(&self, admitted: &Admitted, slot: &Slot) -> Result<Planned, RunnerError> {
        let plan = codespace_policy::plan(&self.registry, admitted, &slot.request, &self.host, &HostDisk)?;
        let leaf = self.cgroups.as_ref().and_then(|cgroups| match cgroups.leaf(slot.id) {
            Ok(leaf) => Some(Arc::new(leaf)),
            Err(error) => {
                tracing::warn!(%error, "failed to make a cgroup; the process does without");
                None
            }
        });
        Ok(Planned { plan, leaf })
    }
}

/// Owns one process from its slot to its end; returns when the root is reaped.
pub(crate) async fn own(slot: Arc<Slot>, seat: Seat, launcher: Arc<Launcher>, table: Arc<Table>) {
    let Seat { asks, visible, stdin, accepted, admitted } = seat;
    let terms = Terms {
        timeout: admitted.timeout_ms.map(Duration::from_millis),
        grace: Duration::from_millis(admitted.grace_ms),
        linger: Duration::from_millis(admitted.linger_ms),
        keep: admitted.background == Background::Keep,
        limits: admitted.limits,
    };
    let io = match slot.request.tty {
        true => StandardIo::terminal(Size { rows: admitted.rows, cols: admitted.cols }),
        false => StandardIo::pipes(admitted.stdin),
    };
    let (lifecycle, first) = Lifecycle::new(terms);
    let mut owner = Owner {
        slot,
        table,
        launcher,
        visible,
        accepted,
        lifecycle,
        ending_since: None,
        proven_at: None,
        timers: Vec::new(),
        launch: Launch::Over,
        refusal: None,
        root: None,
        reap_again: None,
        first: None,
        cgroup: None,
        control: None,
        theirs: None,
        terminal: None,
        pumps: None,
        stdin: None,
        walk: None,
        adoption: None,
        drained_asked: false,
        published: false,
    };
    owner.perform(first);
    match io.and_then(|io| owner.take(io, stdin)) {
        Ok(()) => {
            let (launcher, slot) = (Arc::clone(&owner.launcher), Arc::clone(&owner.slot));
            let plan = tokio::task::spawn_blocking(move || launcher.plan(&admitted, &slot));
            owner.launch = Launch::Planning(plan);
        }
        Err(error) => {
            let message = format!("make the command's standard descriptors: {error}");
            let failure = StageFailure { stage: Stage::Prepare, errno: error.raw_os_error(), message };
            owner.launch_failed(start_failed(failure));
        }
    }
    owner.run(asks).await;
}

/// Ready to be started.
struct Planned {
    plan: Plan,
    leaf: Option<Arc<Leaf>>,
}

/// How far the start of the root is.
enum Launch {
    Planning(JoinHandle<Result<Planned, RunnerError>>),
    Starting(Pin<Box<dyn Future<Output = Result<Root, LaunchError>> + Send>>),
    Over,
}

struct Owner {
    slot: Arc<Slot>,
    table: Arc<Table>,
    launcher: Arc<Launcher>,
    visible: watch::Sender<Visible>,
    accepted: Instant,
    lifecycle: Lifecycle,
    /// When the cause of the end came.
    ending_since: Option<Instant>,
    /// When the tree was seen gone, or the time for that was over.
    proven_at: Option<Instant>,
    timers: Vec<(Timer, Instant)>,
    launch: Launch,
    /// Why it never ran, where that was decided on this side.
    refusal: Option<RunnerError>,
    /// Until it is reaped.
    root: Option<(i32, Arc<AsyncPidFd>)>,
    /// It is dead, and its tracer has not yet let it go: look again then.
    reap_again: Option<Instant>,
    /// Until it is seen dead.
    first: Option<Arc<AsyncPidFd>>,
    /// Its events, until it is seen empty.
    cgroup: Option<(Arc<Leaf>, Option<Events>)>,
    /// Until its end of file.
    control: Option<Control>,
    /// The command's descriptors, until they are handed over.
    theirs: Option<[OwnedFd; 3]>,
    terminal: Option<OwnedFd>,
    pumps: Option<Pumps>,
    stdin: Option<JoinHandle<()>>,
    /// The root must not be reaped while this runs.
    walk: Option<JoinHandle<Seen>>,
    /// What the dead root has left behind is being ended.
    adoption: Option<JoinHandle<bool>>,
    drained_asked: bool,
    published: bool,
}

/// What woke the owner.
enum Woken {
    Ask(Option<Ask>),
    Planned(Result<Planned, RunnerError>),
    Launched(Result<Root, LaunchError>),
    Control(io::Result<Option<Received>>),
    RootDead,
    FirstDead,
    CgroupEmpty(io::Result<()>),
    Walked(Seen),
    OrphansEnded(bool),
    Timer(Timer),
    Drained,
}

impl Owner {
    fn take(&mut self, io: StandardIo, jobs: stdin::Jobs) -> io::Result<()> {
        let StandardIo { theirs, sources, input, terminal } = io;
        self.pumps = Some(Pumps::start(sources, self.slot.journal.clone())?);
        self.stdin = input.map(|input| {
            tokio::spawn(async move {
                if let Err(error) = stdin::serve(jobs, input).await {
                    tracing::error!(%error, "failed to write to a command's stdin");
                }
            })
        });
        self.theirs = Some(theirs);
        self.terminal = terminal;
        Ok(())
    }

    async fn run(mut self, mut asks: mpsc::UnboundedReceiver<Ask>) {
        let mut asked = true;
        // After the end is published there may still be a root to reap, where the tree was not seen gone in time.
        while !self.published
            || self.root.is_some()
            || self.walk.is_some()
            || matches!(self.launch, Launch::Starting(_))
        {
            match self.next(&mut asks, asked).await {
                Woken::Ask(Some(ask)) => self.asked(ask),
                Woken::Ask(None) => {
                    // Nobody holds the slot any more: the Runner is being dropped.
                    asked = false;
                    self.feed(Event::End { cause: EndedBy::Stop, grace: Some(Duration::ZERO) });
                }
                Woken::Planned(plan) => self.planned(plan),
                Woken::Launched(root) => self.launched(root),
                Woken::Control(Ok(Some(received))) => self.received(received),
                Woken::Control(Ok(None)) => {
                    self.control = None;
                    self.feed(Event::ControlClosed);
                }
                Woken::Control(Err(error)) => {
                    tracing::error!(%error, process = %self.slot.id, "failed to hear from the sandbox");
                    // Closing this end makes the inner stage leave.
                    self.control = None;
                    self.feed(Event::ControlClosed);
                }
                Woken::RootDead => {
                    self.reap_again = None;
                    self.reap_root();
                }
                Woken::FirstDead => {
                    self.first = None;
                    self.feed(Event::NamespaceGone);
                }
                Woken::CgroupEmpty(outcome) => {
                    if let Some((_, events)) = &mut self.cgroup {
                        *events = None;
                    }
                    match outcome {
                        Ok(()) => self.feed(Event::CgroupEmpty),
                        // Then nothing is said of it, and the end stays unconfirmed.
                        Err(error) => tracing::warn!(%error, "failed to watch a cgroup"),
                    }
                }
                Woken::Walked(seen) => {
                    self.walk = None;
                    match seen {
                        Seen::Empty => self.feed(Event::SeenEmpty),
                        Seen::Nothing => {}
                    }
                }
                Woken::OrphansEnded(all) => {
                    self.adoption = None;
                    if all {
                        self.feed(Event::SeenEmpty);
                    }
                }
                Woken::Timer(timer) => self.feed(Event::Fired(timer)),
                Woken::Drained => {
                    self.pumps = None;
                    self.slot.journal.close();
                    self.feed(Event::Drained);
                }
            }
        }
    }

    async fn next(&mut self, asks: &mut mpsc::UnboundedReceiver<Ask>, asked: bool) -> Woken {
        let timer = self.timers.iter().min_by_key(|(_, at)| *at).copied();
        let walking = self.walk.is_some();
        tokio::select! {
            // In this order: what the sandbox had to say is heard before its end is looked at.
            biased;
            ask = asks.recv(), if asked => Woken::Ask(ask),
            received = hear(self.control.as_ref()) => Woken::Control(received),
            woken = until_launched(&mut self.launch) => woken,
            seen = until_joined(self.walk.as_mut()) => Woken::Walked(seen.unwrap_or(Seen::Nothing)),
            all = until_joined(self.adoption.as_mut()) => Woken::OrphansEnded(all.unwrap_or(false)),
            // The walk needs the root's pid to be the root's.
            () = until_dead(self.root.as_ref().map(|(_, handle)| handle)), if !walking && self.reap_again.is_none() => Woken::RootDead,
            () = until(self.reap_again), if !walking => Woken::RootDead,
            () = until_dead(self.first.as_ref()) => Woken::FirstDead,
            outcome = until_empty(self.cgroup.as_ref()), if self.lifecycle.is_ending() && self.root.is_none() => {
                Woken::CgroupEmpty(outcome)
            }
            () = until_drained(self.pumps.as_mut()), if self.drained_asked => Woken::Drained,
            timer = until_fired(timer) => {
                self.timers.retain(|(kind, _)| *kind != timer);
                Woken::Timer(timer)
            }
        }
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::End { cause, grace } => self.feed(Event::End { cause, grace }),
            Ask::Signal { number, done } => {
                let outcome = match (&self.control, self.lifecycle.takes_signals()) {
                    (Some(control), true) => control
                        .send(&ToSandbox::Signal { number }, &[])
                        .map_err(|e| RunnerError::new(ErrorCode::Internal, format!("signal {}: {e}", self.slot.id))),
                    _ => Err(self.slot.not_running()),
                };
                // Whoever asked may have given up.
                done.send(outcome).ok();
            }
            Ask::Resize { size, done } => {
                let outcome = match &self.terminal {
                    Some(terminal) if self.slot.lives() => codespace_pty::resize(terminal.as_fd(), size).map_err(|e| {
                        RunnerError::new(ErrorCode::Internal, format!("resize {}: {e}", self.slot.id))
                            .about(self.slot.id)
                    }),
                    _ => Err(self.slot.not_running()),
                };
                done.send(outcome).ok();
            }
        }
    }

    fn planned(&mut self, planned: Result<Planned, RunnerError>) {
        self.launch = Launch::Over;
        match planned {
            Ok(Planned { plan, leaf }) => {
                let entrance = leaf.and_then(|leaf| match (leaf.entrance(), leaf.watch()) {
                    (Ok(entrance), Ok(events)) => {
                        self.cgroup = Some((leaf, Some(events)));
                        Some(entrance)
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        tracing::warn!(%error, "failed to use a cgroup; the process does without");
                        None
                    }
                });
                let launcher = Arc::clone(&self.launcher);
                let start = async move { launcher.spawner.launch(&launcher.helper, &plan, entrance).await };
                self.launch = Launch::Starting(Box::pin(start));
                if self.cgroup.is_some() {
                    self.feed(Event::InCgroup);
                }
            }
            Err(refusal) => self.launch_failed(refusal),
        }
    }

    fn launch_failed(&mut self, refusal: RunnerError) {
        let failure = StageFailure {
            stage: refusal.stage.unwrap_or(Stage::Prepare),
            errno: refusal.errno,
            message: refusal.message.clone(),
        };
        self.refusal = Some(refusal);
        self.feed(Event::LaunchFailed(failure));
    }

    fn launched(&mut self, root: Result<Root, LaunchError>) {
        self.launch = Launch::Over;
        match root {
            Ok(Root { pid, handle, control }) => {
                self.root = Some((pid, Arc::new(handle)));
                self.control = Some(control);
                self.visible.send_modify(|visible| visible.pid = Some(pid));
                if self.published {
                    // It took so long that its end was told already. Nothing waits for it but its own end.
                    self.kill_tree();
                }
                self.feed(Event::Launched);
            }
            Err(error) => {
                let failure = StageFailure { stage: Stage::Sandbox, errno: error.errno(), message: error.to_string() };
                self.feed(Event::LaunchFailed(failure));
            }
        }
    }

    fn received(&mut self, (message, fd): Received) {
        let event = match message {
            FromSandbox::Armed => Event::Armed,
            FromSandbox::FirstProcess => {
                match fd.map(|fd| PidFd::from(fd).into_async()) {
                    Some(Ok(first)) => self.first = Some(Arc::new(first)),
                    // Without the handle the end could not be proven. Nothing has started yet, and nothing will.
                    Some(Err(_)) | None => {
                        let message = "keep a handle of the sandbox's first process".to_owned();
                        self.feed(Event::Failed(StageFailure { stage: Stage::Sandbox, errno: None, message }));
                        return;
                    }
                }
                Event::FirstProcess
            }
            FromSandbox::Supervised => Event::Supervised,
            FromSandbox::Ready => Event::Ready,
            FromSandbox::Started => Event::Started,
            FromSandbox::Failed(failure) => Event::Failed(failure),
            FromSandbox::Exited { end, usage, leftovers } => Event::Exited { end, usage, leftovers },
            FromSandbox::Gone { usage } => Event::Gone { usage },
            FromSandbox::EngineEnded { end, said } => Event::EngineEnded { said: engine_ended(end, &said) },
        };
        self.feed(event);
    }

    fn reap_root(&mut self) {
        let Some((pid, handle)) = &self.root else { return };
        match handle.get().reap() {
            Ok(Some(reaped)) => tracing::debug!(root = pid, ?reaped, "reaped"),
            // Dead, but traced from outside: no event tells when its tracer lets it go.
            Ok(None) => {
                self.reap_again = Some(Instant::now() + REAP_AGAIN);
                return;
            }
            // Somebody else in this process waits for any child; the root is gone all the same.
            Err(error) => tracing::warn!(root = pid, %error, "failed to reap a root"),
        }
        let spawner = Arc::clone(&self.launcher.spawner);
        spawner.forget(*pid);
        // What it has left behind has just come to this process.
        self.adoption = Some(tokio::spawn(async move { spawner.end_orphans().await }));
        self.root = None;
        self.visible.send_modify(|visible| visible.pid = None);
        self.feed(Event::RootGone);
    }

    fn feed(&mut self, event: Event) {
        let actions = self.lifecycle.on(event);
        if self.ending_since.is_none() && self.lifecycle.is_ending() {
            self.ending_since = Some(Instant::now());
        }
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::AnswerHelper => self.say(&ToSandbox::Go),
                Action::HandStdio => {
                    if let (Some(control), Some(theirs)) = (&self.control, self.theirs.take()) {
                        let fds = [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()];
                        if let Err(error) = control.send(&ToSandbox::Start, &fds) {
                            // The sandbox is gone; its end of file follows.
                            tracing::debug!(%error, "nobody took the command's descriptors");
                        }
                    }
                }
                Action::AskToEnd => {
                    self.say(&ToSandbox::Signal { number: libc::SIGTERM });
                    // A stopped command takes the first only when it goes on.
                    self.say(&ToSandbox::Signal { number: libc::SIGCONT });
                }
                Action::AskSupervisor => self.say(&ToSandbox::End),
                Action::KillTree => self.kill_tree(),
                Action::Arm(timer, after) => self.arm(timer, after),
                Action::AnnounceStart => {
                    self.visible.send_modify(|visible| visible.started = true);
                }
                Action::Show(phase) => {
                    self.visible.send_modify(|visible| visible.phase = Some(phase));
                }
                Action::Drain => {
                    self.proven_at = Some(Instant::now());
                    // Never handed over, or held by nobody: the pipes end here.
                    self.theirs = None;
                    if let Some(stdin) = self.stdin.take() {
                        stdin.abort();
                    }
                    if let Some(pumps) = &self.pumps {
                        pumps.drain(DRAIN);
                    }
                    self.drained_asked = true;
                    if self.pumps.is_none() {
                        self.slot.journal.close();
                        self.feed(Event::Drained);
                    }
                }
                Action::Publish(outcome) => self.publish(*outcome),
            }
        }
    }

    fn say(&self, message: &ToSandbox) {
        let Some(control) = &self.control else { return };
        if let Err(error) = control.send(message, &[]) {
            tracing::debug!(%error, ?message, "nobody heard");
        }
    }

    fn arm(&mut self, timer: Timer, after: Duration) {
        let from = if timer == Timer::Timeout { self.accepted } else { Instant::now() };
        // A time too far away to be told never comes.
        let Some(at) = from.checked_add(after) else { return };
        match self.timers.iter_mut().find(|(kind, _)| *kind == timer) {
            // A second grace can only make it sooner.
            Some((_, known)) => *known = at.min(*known),
            None => self.timers.push((timer, at)),
        }
    }

    fn kill_tree(&mut self) {
        if let Launch::Planning(_) = self.launch {
            // The look at the disk may go on, but nothing comes of it.
            self.launch = Launch::Over;
            self.feed(Event::Abandoned);
            return;
        }
        if self.root.is_none() && self.first.is_none() && self.cgroup.is_none() {
            return;
        }
        let target = Target {
            root: self.root.clone(),
            first: self.first.clone(),
            cgroup: self.cgroup.as_ref().map(|(leaf, _)| Arc::clone(leaf)),
            sandboxed: self.slot.sandboxed,
        };
        self.walk = Some(tokio::task::spawn_blocking(move || kill_pipe_root(&target)));
    }

    fn publish(&mut self, outcome: Outcome) {
        let now = Instant::now();
        let end = match outcome {
            Outcome::Ended(mut ended) => {
                // An end that was asked for leaves no one who could tell what was used; the cgroup still knows.
                let cpu = self.cgroup.as_ref().and_then(|(leaf, _)| leaf.cpu_ms());
                if let (None, Some((user_ms, system_ms))) = (ended.usage, cpu) {
                    ended.usage = Some(Used { user_ms, system_ms, max_rss_bytes: None });
                }
                let proven = self.proven_at.unwrap_or(now);
                let took = proven - self.ending_since.unwrap_or(proven).min(proven);
                End::Ended(status::ended(&self.slot, &ended, now - self.accepted, took))
            }
            Outcome::StartFailed(failure) => {
                self.table.forget(self.slot.id);
                End::StartFailed(self.refusal.take().unwrap_or_else(|| start_failed(failure)))
            }
        };
        if matches!(end, End::Ended(_)) {
            self.table.ended(self.slot.id);
        }
        self.visible.send_modify(|visible| {
            visible.phase = None;
            visible.end = Some(end);
        });
        self.published = true;
    }
}

fn engine_ended(end: CommandEnd, said: &str) -> String {
    match (end, said) {
        (CommandEnd::Code(code), "") => format!("the engine ended with exit code {code}"),
        (CommandEnd::Signal(number), "") => format!("the engine was ended by signal {number}"),
        (_, said) => said.to_owned(),
    }
}

fn start_failed(failure: StageFailure) -> RunnerError {
    let hint = match failure.stage {
        Stage::Sandbox => Some("`codespace-runner doctor` tries a sandbox and names what is in the way"),
        Stage::Exec if failure.errno == Some(libc::ENOENT) => {
            Some("the program, or the interpreter that its first line names, is not in what the command can see")
        }
        Stage::Exec if failure.errno == Some(libc::ENOEXEC) => Some("a script needs a first line like #!/bin/sh"),
        Stage::Exec if failure.errno == Some(libc::E2BIG) => Some("pass large data in a file or by stdin"),
        Stage::Prepare | Stage::Cwd | Stage::Exec => None,
    };
    let mut error = RunnerError::spawn_failed(failure.stage, failure.errno, failure.message);
    if let Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC) = error.errno {
        error.code = ErrorCode::ResourceUnavailable;
        return error
            .with_hint("the host has run out of processes, memory or descriptors: end something, or raise the limit");
    }
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

async fn hear(control: Option<&Control>) -> io::Result<Option<Received>> {
    match control {
        Some(control) => control.receive().await,
        None => std::future::pending().await,
    }
}

async fn until_launched(launch: &mut Launch) -> Woken {
    match launch {
        Launch::Planning(plan) => Woken::Planned(
            plan.await
                .unwrap_or_else(|error| Err(RunnerError::new(ErrorCode::Internal, format!("plan the start: {error}")))),
        ),
        Launch::Starting(root) => Woken::Launched(root.await),
        Launch::Over => std::future::pending().await,
    }
}

async fn until_dead(handle: Option<&Arc<AsyncPidFd>>) {
    match handle {
        // A handle that cannot be waited for says nothing; the proof's deadline says the rest.
        Some(handle) => match handle.ended().await {
            Ok(()) => {}
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// `None` when the task failed.
async fn until_joined<T>(task: Option<&mut JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => match task.await {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                tracing::error!(%error, "a task of a process's end failed");
                None
            }
        },
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn until_fired(timer: Option<(Timer, Instant)>) -> Timer {
    match timer {
        Some((timer, at)) => {
            tokio::time::sleep_until(at).await;
            timer
        }
        None => std::future::pending().await,
    }
}

async fn until_empty(cgroup: Option<&(Arc<Leaf>, Option<Events>)>) -> io::Result<()> {
    match cgroup {
        Some((_, Some(events))) => events.empty().await,
        Some((_, None)) | None => std::future::pending().await,
    }
}

async fn until_drained(pumps: Option<&mut Pumps>) {
    match pumps {
        Some(pumps) => drop(pumps.ended().await),
        None => std::future::pending().await,
    }
}
