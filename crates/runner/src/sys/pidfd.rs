//! Handles on processes. A pid is a number that may pass to somebody else; a pidfd stays with its process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::async_fd::async_fd;

/// A handle on one process, whatever becomes of its pid.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has `pid` at this moment.
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: plain numbers in, a new descriptor or -1 out. Close-on-exec is always set.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Sends a signal to exactly this process. One that is gone already is `ESRCH`.
    pub(crate) fn signal(&self, number: i32) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and a null info means the same as for kill.
        let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), number, no_info, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether it has ended. For the first process of a PID namespace this means: with everything in it.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1))
    }

    /// Reaps it, as a child of this process that has ended or will; `None` when it is still running.
    pub(crate) fn reap(&self) -> io::Result<Option<Reaped>> {
        // SAFETY: zeroed is a valid value of both structures.
        let (mut info, mut usage): (libc::siginfo_t, libc::rusage) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let flags = libc::WEXITED | libc::WNOHANG | libc::__WALL;
        // SAFETY: the raw call, since libc's has no place for the usage; both structures live here.
        let done = unsafe {
            libc::syscall(libc::SYS_waitid, libc::P_PIDFD, self.0.as_raw_fd(), &raw mut info, flags, &raw mut usage)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: filled by the kernel for a child; zero means that there was none to reap.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(None);
        }
        Ok(Some(Reaped { by_signal: info.si_code != libc::CLD_EXITED, status }))
    }

    /// The same handle for waiting without a thread.
    pub(crate) fn into_async(self) -> io::Result<AsyncPidFd> {
        Ok(AsyncPidFd(async_fd(self, Interest::READABLE)?))
    }
}

impl From<OwnedFd> for PidFd {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<PidFd> for OwnedFd {
    fn from(handle: PidFd) -> Self {
        handle.0
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// By a signal rather than by exiting.
    pub(crate) by_signal: bool,
    /// The signal number or the exit code.
    pub(crate) status: i32,
}

/// A handle that can be waited for.
#[derive(Debug)]
pub(crate) struct AsyncPidFd(AsyncFd<PidFd>);

impl AsyncPidFd {
    /// Resolves when the process has ended (it may still have to be reaped).
    pub(crate) async fn ended(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            if self.0.get_ref().has_ended() {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// The plain handle.
    pub(crate) fn get(&self) -> &PidFd {
        self.0.get_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process of its own")]
    #[expect(clippy::zombie_processes, reason = "it is reaped by its handle, which is what is tested")]
    async fn a_process_is_signalled_waited_for_and_reaped_by_its_handle() {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let handle = PidFd::open(i32::try_from(child.id()).unwrap()).unwrap().into_async().unwrap();
        assert!(!handle.get().has_ended());
        assert_eq!(handle.get().reap().unwrap(), None);
        handle.get().signal(libc::SIGKILL).unwrap();
        handle.ended().await.unwrap();
        assert_eq!(handle.get().reap().unwrap(), Some(Reaped { by_signal: true, status: libc::SIGKILL }));
        assert_eq!(handle.get().signal(libc::SIGKILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
