//! Safe wrappers around what nix does not offer: with `mount_api` the helper's only `unsafe`.

pub(crate) mod mount_api;

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Takes over a descriptor that this process was started with.
///
/// # Safety
/// `fd` must be open, and nothing else in this process may own it.
pub(crate) unsafe fn inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller vouches for it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Which side of a clone this is.
pub(crate) enum Cloned {
    Parent { pidfd: OwnedFd },
    Child,
}

/// `clone(2)` as a fork with namespace flags. Raw `clone` and not `clone3`, which container runtimes answer with ENOSYS.
///
/// Only for a process with one thread: the child goes on with a copy of everything.
pub(crate) fn clone_process(namespaces: c_int) -> io::Result<Cloned> {
    let mut pidfd: RawFd = -1;
    let flags = namespaces | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: no stack is given, so parent and child each go on with their own copy of this one, as after fork; the
    // process has one thread, so no lock is held by another; CLONE_PIDFD writes an int to the third argument.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_ulong, 0usize, &raw mut pidfd, 0usize, 0usize) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        // SAFETY: the kernel has just opened it for us.
        _ => Ok(Cloned::Parent { pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// A pidfd of this very process.
pub(crate) fn own_pidfd() -> io::Result<OwnedFd> {
    // SAFETY: plain numbers in, a new descriptor or -1 out.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: only numbers go in; the callers own nothing from `first` on any more.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets or clears close-on-exec.
pub(crate) fn set_cloexec(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: fcntl on a borrowed, thus open, descriptor with an integer argument.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, if on { libc::FD_CLOEXEC } else { 0 }) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the open descriptor `number` across the next exec.
pub(crate) fn keep_across_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD on a number; one that is not open is EBADF.
    if unsafe { libc::fcntl(number, libc::F_SETFD, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes descriptor number `to` a copy of `from`. The number is then owned by nobody but the process image.
pub(crate) fn dup_to(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    if from.as_raw_fd() == to {
        return set_cloexec(from, false);
    }
    // SAFETY: dup2 onto a standard descriptor number, which no OwnedFd of this process stands for.
    if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `execve`; returns only with the error.
pub(crate) fn execve(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end with a null pointer and point into strings that live until after the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// `execveat` of an open program; returns only with the error.
pub(crate) fn exec_fd(program: BorrowedFd<'_>, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: as above; the empty path with AT_EMPTY_PATH means the descriptor itself.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Ends this process without running anything else.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Every signal back to its default action and unblocked, as a fresh program expects. Rust's runtime ignores SIGPIPE,
/// and whoever started the Runner may have ignored others.
pub(crate) fn reset_signals() {
    /// The kernel's own layout: a handler, flags, a restorer and a mask. All zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    const MASK: usize = 8;
    for number in 1..=64 {
        // The raw call, since libc's refuses the two signals that it keeps for itself, and they too may have been ignored.
        // SAFETY: a valid structure of zeroes; SIGKILL and SIGSTOP are refused harmlessly.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, number, DEFAULT.as_ptr(), std::ptr::null_mut::<c_void>(), MASK)
        };
    }
    let none = 0u64;
    // SAFETY: a valid mask of the size that is named.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            std::ptr::null_mut::<c_void>(),
            MASK,
        )
    };
}

/// Makes `fd` the controlling terminal of this process's new session.
pub(crate) fn set_controlling_terminal(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer argument.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSCTTY as _, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The effective capabilities of this process, as two words.
pub(crate) fn effective_capabilities() -> io::Result<u64> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    #[repr(C)]
    #[derive(Default, Clone, Copy)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = Header { version: 0x2008_0522, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 of the interface takes one header and two data words, both of which live here.
    let done = unsafe {
        libc::syscall(libc::SYS_capget, (&raw mut header).cast::<c_void>(), data.as_mut_ptr().cast::<c_void>())
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(data[0].effective) | u64::from(data[1].effective) << 32)
}

/// Ends a child that has not been reaped, and reaps it.
#[expect(clippy::disallowed_methods, reason = "the child is not reaped, so its number is still its own")]
pub(crate) fn kill_and_reap(pid: i32) {
    // SAFETY: plain numbers in; a failure leaves nothing to do.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL);
    }
}

/// Signals a process group of which a member has not been reaped: its number is still the group's.
#[expect(clippy::disallowed_methods, reason = "a member is not reaped, so the group's number is still its own")]
pub(crate) fn signal_group(group: i32, number: i32) {
    // SAFETY: plain numbers in. A group whose last live member has ended is ESRCH, which is no news.
    unsafe { libc::kill(-group, number) };
}

/// Kills a child that has not been reaped.
#[expect(clippy::disallowed_methods, reason = "the child is not reaped, so its number is still its own")]
pub(crate) fn kill_child(pid: i32) {
    // SAFETY: plain numbers in; a failure leaves nothing to do.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Makes this process a subreaper: what loses its parent below it comes to it.
pub(crate) fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
