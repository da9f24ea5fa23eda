//! Plan -> root child. The one place of the Runner that starts a process.
//!
//! Roots are started from one thread that lives as long as the Runner: the death signal that a root arms follows the
//! **thread** that started it, and a runtime's blocking thread ends after some idle seconds, which would kill a healthy
//! command.
//!
//! The child gets `/dev/null` as its three standard descriptors, the control socket, the plan and a pidfd of the Runner
//! under fixed numbers, and nothing else: everything above is close-on-exec. Its environment is empty.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use codespace_linux_sandbox_protocol::{CONTROL_FD, PLAN_FD, Plan, RUNNER_PIDFD};
use tokio::sync::oneshot;

use crate::control::Control;
use crate::orphans::{Ender, Known};
use crate::sys::descriptor_limit;
use crate::sys::memfd;
use crate::sys::pidfd::{AsyncPidFd, PidFd};
use crate::sys::spawn::{Spawned, spawn};

/// Why there is no root.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("write the plan: {0}")]
    Plan(#[source] io::Error),
    #[error("make the control socket: {0}")]
    Control(#[source] io::Error),
    #[error("start the sandbox helper {helper}: {source}")]
    Spawn { helper: PathBuf, source: io::Error },
    #[error("start a root: the Runner's spawner thread is gone")]
    NoSpawner,
}

impl LaunchError {
    /// The operating system's error number.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Plan(error) | Self::Control(error) | Self::Spawn { source: error, .. } => error.raw_os_error(),
            Self::NoSpawner => None,
        }
    }
}

/// The Runner's own direct child for one process. Not yet reaped, so its pid is its own.
pub(crate) struct Root {
    pub(crate) pid: i32,
    pub(crate) handle: AsyncPidFd,
    pub(crate) control: Control,
}

/// The thread that starts roots. It ends, and with it by the death signal every root, when this is dropped.
pub(crate) struct Spawner {
    jobs: mpsc::Sender<Job>,
    known: Known,
    orphans: Ender,
    #[cfg(test)]
    asked: std::sync::atomic::AtomicUsize,
}

enum Job {
    Start(Start),
    Run(Box<dyn FnOnce() + Send>),
}

struct Start {
    helper: PathBuf,
    give: [(OwnedFd, RawFd); 3],
    cgroup: Option<OwnedFd>,
    done: oneshot::Sender<io::Result<Spawned>>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let known = Known::new();
        let starting = known.clone();
        std::thread::Builder::new().name("spawner".into()).spawn(move || {
            for job in queue {
                let Start { helper, give, cgroup, done } = match job {
                    Job::Start(start) => start,
                    Job::Run(work) => {
                        work();
                        continue;
                    }
                };
                let start = || start(&helper, give, cgroup);
                let started = starting.start(start, |started| started.as_ref().map(|spawned| spawned.pid).ok());
                if let Err(Ok(Spawned { pid, handle })) = done.send(started) {
                    // Nobody waits for it any more. It ends here, or it would live as long as this thread.
                    end_unwanted(pid, &handle);
                    starting.forget(pid);
                }
            }
        })?;
        Ok(Self {
            jobs,
            orphans: Ender::default(),
            known,
            #[cfg(test)]
            asked: std::sync::atomic::AtomicUsize::default(),
        })
    }

    /// Starts a root for `plan`, in the cgroup whose directory is `cgroup`. Dropping the future ends a root that
    /// comes of it.
    pub(crate) async fn launch(
        &self,
        helper: &Path,
        plan: &Plan,
        cgroup: Option<OwnedFd>,
    ) -> Result<Root, LaunchError> {
        let bytes = serde_json::to_vec(plan).map_err(|e| LaunchError::Plan(e.into()))?;
        let plan = memfd::sealed("plan", &bytes).map_err(LaunchError::Plan)?;
        let (control, theirs) = Control::pair().map_err(LaunchError::Control)?;
        let spawn = |source| LaunchError::Spawn { helper: helper.to_owned(), source };
        let runner = OwnedFd::from(PidFd::open(own_pid()).map_err(spawn)?);
        let give = [(theirs, CONTROL_FD), (plan, PLAN_FD), (runner, RUNNER_PIDFD)];
        let (done, started) = oneshot::channel();
        let job = Start { helper: helper.to_owned(), give, cgroup, done };
        self.jobs.send(Job::Start(job)).map_err(|_| LaunchError::NoSpawner)?;
        #[cfg(test)]
        self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let Spawned { pid, handle } = started.await.map_err(|_| LaunchError::NoSpawner)?.map_err(spawn)?;
        // Only fails for want of memory or descriptors; the handle's loss would make the root unendable.
        match handle.into_async() {
            Ok(handle) => Ok(Root { pid, handle, control }),
            Err(source) => {
                if let Ok(handle) = PidFd::open(pid) {
                    end_unwanted(pid, &handle);
                }
                Err(spawn(source))
            }
        }
    }

    /// How many starts wait for the thread, or have been made.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(std::sync::atomic::Ordering::SeqCst)
    }

    #[cfg(test)]
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// Does `work`, which may block, on a thread of its own; on the spawner thread where the host gives no other. An end must
    /// not fail because the tree that is to be ended has taken all processes. The answer is an error when `work` panicked.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (done, outcome) = oneshot::channel();
        // Whoever waits may have given up.
        let work = move || drop(done.send(work()));
        let work = Arc::new(Mutex::new(Some(work)));
        let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let own = Arc::clone(&work);
        let started = std::thread::Builder::new().name("blocking".into()).spawn(move || {
            if let Some(work) = take(&own) {
                work();
            }
        });
        if started.is_err()
            && let Some(work) = take(&work)
        {
            // A spawner that is gone drops the work, and whoever waits is told.
            self.jobs.send(Job::Run(Box::new(work))).ok();
        }
        outcome
    }

    /// A root was reaped.
    pub(crate) fn forget(&self, pid: i32) {
        self.known.forget(pid);
    }

    /// Ends the children of this process that it did not start. `true`: none is left.
    pub(crate) async fn end_orphans(&self) -> bool {
        self.orphans.end_all(self).await
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

fn start(helper: &Path, give: [(OwnedFd, RawFd); 3], cgroup: Option<OwnedFd>) -> io::Result<Spawned> {
    let program = CString::new(helper.as_os_str().as_bytes())?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let numbers = [0, 1, 2].map(|i: usize| (give[i].0.as_raw_fd(), give[i].1));
    let null = null.as_raw_fd();
    let cgroup = cgroup.as_ref().map(AsFd::as_fd);
    // SAFETY: `prepare_child` makes system calls only, on descriptors that stay open until this function returns.
    unsafe { spawn(&program, &[&program, c"run"], &environment(), cgroup, || prepare_child(numbers, null)) }
}

/// Of the helper: empty, but for the switches of a test build.
fn environment() -> Vec<CString> {
    #[cfg(feature = "fault-injection")]
    if let Ok(faults) = std::env::var("CODESPACE_FAULT") {
        return CString::new(format!("CODESPACE_FAULT={faults}")).into_iter().collect();
    }
    Vec::new()
}

/// In the child, before exec. Nothing here allocates.
fn prepare_child(give: [(RawFd, RawFd); 3], null: RawFd) -> io::Result<()> {
    // Armed as early as can be. The helper arms it again and asks whether the Runner still lives.
    // SAFETY: PR_SET_PDEATHSIG takes one integer.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A session of its own: else a Ctrl-C at the terminal that the Runner was started from would kill the helper, and a
    // Ctrl-Z stop it.
    // SAFETY: takes and changes nothing but this process's session.
    if unsafe { libc::setsid() } < 0 {
        return Err(io::Error::last_os_error());
    }
    descriptor_limit::restore_in_child()?;
    // Out of the way first: a source may have the number of another's destination.
    let high = [lift(give[0].0)?, lift(give[1].0)?, lift(give[2].0)?, lift(null)?];
    let places =
        [(high[0], give[0].1), (high[1], give[1].1), (high[2], give[2].1), (high[3], 0), (high[3], 1), (high[3], 2)];
    for (from, to) in places {
        // SAFETY: plain numbers; in this child nothing owns the destination.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let first = (RUNNER_PIDFD + 1) as libc::c_uint;
    // SAFETY: plain numbers. Marked rather than closed: an exec error is still to be told over one of them.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn lift(fd: RawFd) -> io::Result<RawFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and returns a new descriptor or -1.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 10) };
    if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(copy) }
}

fn end_unwanted(pid: i32, handle: &PidFd) {
    if handle.signal(libc::SIGKILL).is_ok() {
        // SAFETY: this process's own child, not reaped: the number is its own. Blocks for a moment only, after SIGKILL.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}
