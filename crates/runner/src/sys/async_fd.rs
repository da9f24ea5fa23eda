//! Descriptors that a runtime waits for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::pidfd::PidFd;

/// A value that owns one descriptor, opened before the value was made and closed when it is dropped.
pub(crate) trait OwnsDescriptor: AsRawFd {}

impl OwnsDescriptor for OwnedFd {}
impl OwnsDescriptor for PidFd {}

/// Hands the descriptor to the current runtime's reactor.
pub(crate) fn async_fd<T: OwnsDescriptor>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the value owns its descriptor: it is open, stays the same and is closed only when the value is dropped,
    // which the AsyncFd does itself, after it has deregistered it.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(Into::into)
}
