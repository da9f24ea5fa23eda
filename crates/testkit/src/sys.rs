//! The system calls that a test needs and the standard library has not: handles on processes, the subreaper, a reap that
//! names its child.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A handle on one process, whatever becomes of its pid.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: plain numbers in, a new descriptor or -1 out.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    pub(crate) fn signal(&self, number: i32) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and a null info means the same as for kill.
        let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), number, no_info, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// What loses its parent below this process comes to this process.
pub(crate) fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reaps exactly this child, if it is dead.
pub(crate) fn reap(pid: i32) {
    // SAFETY: a child of this process that is a zombie stays one until somebody waits for it by this pid; no status is
    // asked for. Not there any more is as good.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
}

/// The calling process, from its first instruction on, dies with the thread that started it. For `pre_exec`.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer, and nothing is allocated.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
