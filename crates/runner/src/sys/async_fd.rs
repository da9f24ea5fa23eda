//! Descriptors that a runtime waits for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[cfg(target_os = "linux")]
use super::pidfd::PidFd;

/// A value that owns one descriptor, opened before the value was made and closed when it is dropped.
pub(crate) trait OwnsDescriptor: AsRawFd {}

impl OwnsDescriptor for OwnedFd {}
#[cfg(target_os = "linux")]
impl OwnsDescriptor for PidFd {}

/// Hands the descriptor to the current runtime's reactor.
pub(crate) fn async_fd<T: OwnsDescriptor>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the value owns its descriptor: it is open, stays the same and is closed only when the value is dropped,
    // which the AsyncFd does itself, after it has deregistered it.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(Into::into)
}

/// Reads and writes of this descriptor do not wait. The flag belongs to the open file behind it, so to every copy too: it
/// is for the Runner's own end of a pipe, never for the end that a command gets.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
