//! Starts a child with `clone3`: its handle and its cgroup come with its birth, so there is no moment without either.
//!
//! The standard library can do neither. Joining a cgroup by a write instead waits for the whole machine's fork lock, some
//! milliseconds on a busy host; here it is the second choice, for kernels and container runtimes without `clone3`.

use std::ffi::{CStr, CString, c_int};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::unistd::pipe2;

use super::pidfd::PidFd;

/// A child that was started.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: i32,
    pub(crate) handle: PidFd,
}

/// The kernel's number; libc's own constant of this name overflows.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// On which side of a clone this is.
enum Side {
    Parent(Spawned),
    Child {
        /// Born where it belongs.
        in_cgroup: bool,
    },
}

/// Starts `program` with an environment of `env` alone, in the cgroup whose directory is `cgroup`. `prepare` runs in the
/// child just before the exec.
///
/// # Errors
/// The operating system's: of the clone, of `prepare`, or of the exec. There is no child then.
///
/// # Safety
/// `prepare` must only make system calls: the child is a copy of one thread of a process with many, so no lock may be
/// taken and nothing allocated.
pub(crate) unsafe fn spawn(
    program: &CStr,
    argv: &[&CStr],
    env: &[CString],
    cgroup: Option<BorrowedFd<'_>>,
    prepare: impl Fn() -> io::Result<()>,
) -> io::Result<Spawned> {
    // Everything that the child needs is made before it exists.
    let argv: Vec<_> = argv.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let env: Vec<_> = env.iter().map(|pair| pair.as_ptr()).chain([std::ptr::null()]).collect();
    let (report, write) = pipe2(OFlag::O_CLOEXEC)?;
    // A signal that reached the child before its exec would run a handler of this process in it.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    // SAFETY: the child only makes system calls, on memory that was made ready above.
    let cloned = unsafe { clone(cgroup) };
    let spawned = match cloned {
        Ok(Side::Child { in_cgroup }) => {
            let joined = match cgroup {
                Some(cgroup) if !in_cgroup => join(cgroup),
                Some(_) | None => Ok(()),
            };
            let prepared = joined.and_then(|()| prepare());
            let error = match prepared.and_then(|()| unblock_signals()) {
                Ok(()) => {
                    // SAFETY: both arrays end with a null pointer; all strings live in the parent's memory, copied here.
                    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
                    io::Error::last_os_error()
                }
                Err(error) => error,
            };
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
            // SAFETY: four bytes of this frame, to a descriptor that the child holds; then nothing but the end.
            unsafe {
                libc::write(write.as_raw_fd(), errno.as_ptr().cast(), errno.len());
                libc::_exit(127)
            }
        }
        Ok(Side::Parent(spawned)) => Ok(spawned),
        Err(error) => Err(error),
    };
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    drop(write);
    let spawned = spawned?;
    match exec_error(report) {
        None => Ok(spawned),
        Some(error) => {
            reap(&spawned)?;
            Err(error)
        }
    }
}

/// # Safety
/// The child must only make system calls.
unsafe fn clone(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Side> {
    let mut pidfd: RawFd = -1;
    let mut in_cgroup = cgroup.is_some();
    let into = if in_cgroup { CLONE_INTO_CGROUP } else { 0 };
    // SAFETY: a structure of integers, for which zero means "not asked for".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = libc::CLONE_PIDFD as u64 | into;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = cgroup.map_or(0, |fd| fd.as_raw_fd() as u64);
    // SAFETY: without a stack of its own the child goes on with a copy of this one, as after fork; the kernel writes the
    // pidfd to a variable of this frame.
    let mut pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    if pid < 0 && can_do_without_clone3(&io::Error::last_os_error()) {
        in_cgroup = false;
        let flags = (libc::CLONE_PIDFD | libc::SIGCHLD) as libc::c_ulong;
        // SAFETY: as above; here the third argument is where the pidfd goes.
        pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, &raw mut pidfd, 0usize, 0usize) };
    }
    match pid {
        0 => Ok(Side::Child { in_cgroup }),
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => {
            // SAFETY: the kernel has just opened it for this process.
            let handle = PidFd::from(unsafe { OwnedFd::from_raw_fd(pidfd) });
            Ok(Side::Parent(Spawned { pid: pid as i32, handle }))
        }
    }
}

/// Not there, or not all of it, or forbidden by a container's filter.
fn can_do_without_clone3(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG | libc::EPERM))
}

/// In the child: moves it to where it could not be born.
fn join(cgroup: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a constant name below an open directory; one byte of a constant; closed at the exec.
    let written = unsafe {
        let procs = libc::openat(cgroup.as_raw_fd(), c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if procs < 0 { -1 } else { libc::write(procs, c"0".as_ptr().cast(), 1) }
    };
    if written == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In the child: an empty mask, as a fresh program expects.
fn unblock_signals() -> io::Result<()> {
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(Into::into)
}

/// The child's word on why there is no program; its silence is the proof that there is.
fn exec_error(report: OwnedFd) -> Option<io::Error> {
    let mut errno = [0u8; 4];
    match std::fs::File::from(report).read_exact(&mut errno) {
        Ok(()) => Some(io::Error::from_raw_os_error(c_int::from_ne_bytes(errno))),
        Err(_) => None,
    }
}

/// Waits for a child that has said its last word.
fn reap(spawned: &Spawned) -> io::Result<()> {
    // SAFETY: this process's own child, not reaped: the number is its own.
    let reaped = unsafe { libc::waitpid(spawned.pid, std::ptr::null_mut(), libc::__WALL) };
    if reaped == spawned.pid { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::super::pidfd::Reaped;
    use super::*;

    fn run(program: &CStr, prepare: impl Fn() -> io::Result<()>) -> io::Result<Spawned> {
        // SAFETY: the closures of these tests make system calls at most.
        unsafe { spawn(program, &[program], &[], None, prepare) }
    }

    #[tokio::test]
    async fn a_child_runs_and_is_reaped_by_its_handle() {
        let spawned = run(c"/bin/false", || Ok(())).unwrap();
        let handle = spawned.handle.into_async().unwrap();
        handle.ended().await.unwrap();
        assert_eq!(handle.get().reap().unwrap(), Some(Reaped { by_signal: false, status: 1 }));
    }

    #[test]
    fn a_program_that_is_not_there_and_a_step_that_fails_are_told() {
        assert_eq!(run(c"/no/such/program", || Ok(())).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let refused = run(c"/bin/true", || Err(io::Error::from_raw_os_error(libc::EBADF))).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    }
}
