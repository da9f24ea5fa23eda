//! The owner of one process: performs what its lifecycle decides, and is the only writer of what others see.
//!
//! Everything that can wake it is one `select!`: what is asked of it, the launch, the control socket, the two handles,
//! the walk, the timers, the pumps. It never blocks; the walk has a thread of its own.

mod acting;
mod launching;
mod wake;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{Background, EndedBy, ErrorCode, RunnerError, Stage};
use codespace_linux_sandbox_protocol::{FromSandbox, StageFailure, ToSandbox};
use codespace_pty::Size;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use launching::Launcher;

use self::launching::{Launch, engine_ended, start_failed};
use self::wake::Woken;
use super::end::Seen;
use super::standard_io::StandardIo;
use super::{Ask, End, Seat, Slot, Table, Visible, status, stdin};
use crate::cgroups::{Events, Leaf};
use crate::control::{Control, Received};
use crate::lifecycle::{Event, Lifecycle, Terms, Timer};
use crate::output::Pumps;
use crate::sys::pidfd::{AsyncPidFd, PidFd};

/// Between two looks at a dead root that a tracer keeps.
const REAP_AGAIN: Duration = Duration::from_millis(10);

/// Owns one process from its slot to its end; returns when the root is reaped.
pub(crate) async fn own(slot: Arc<Slot>, seat: Seat, launcher: Arc<Launcher>, table: Arc<Table>) {
    let Seat { asks, visible, stdin, accepted, request, admitted } = seat;
    let terms = Terms {
        timeout: admitted.timeout_ms.map(Duration::from_millis),
        grace: Duration::from_millis(admitted.grace_ms),
        linger: Duration::from_millis(admitted.linger_ms),
        keep: admitted.background == Background::Keep,
        limits: admitted.limits,
    };
    let io = match slot.asked.tty {
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
            let (launcher, slot, table) =
                (Arc::clone(&owner.launcher), Arc::clone(&owner.slot), Arc::clone(&owner.table));
            let spawner = Arc::clone(&launcher.spawner);
            let plan = spawner.run(move || launcher.plan(&request, &admitted, &slot, &table));
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
    walk: Option<oneshot::Receiver<Seen>>,
    /// What the dead root has left behind is being ended.
    adoption: Option<JoinHandle<bool>>,
    drained_asked: bool,
    published: bool,
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
}
