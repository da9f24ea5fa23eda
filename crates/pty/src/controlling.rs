//! What a child does between fork and exec to make a terminal its controlling one.

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::unistd::{getpid, getsid, setsid};

use crate::ioctl;

/// Puts the calling process into a new session and makes `terminal` (the slave side) its controlling terminal, so
/// that `/dev/tty` opens it and the terminal's signals reach the process.
///
/// Async-signal-safe: system calls only, no allocation, no lock; for use between fork and exec. A process that leads
/// its session already stays in it.
///
/// # Errors
/// `EPERM` if the process leads its group but not its session, has another controlling terminal, or the terminal
/// belongs to another session; `ENOTTY` if it is no terminal.
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    match setsid() {
        Ok(_) => {}
        Err(Errno::EPERM) if getsid(None) == Ok(getpid()) => {}
        Err(errno) => return Err(errno.into()),
    }
    ioctl::set_controlling(terminal)
}
