//! The descriptors that a service manager has started this process with.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes them over, close-on-exec: those that `LISTEN_FDS` counts, where `LISTEN_PID` is this process. The first call
/// alone gets them. It has to come before this process opens anything: their numbers are the first free ones, which
/// would be somebody else's if nothing was given in truth.
///
/// # Errors
/// The variables cannot be read, or a descriptor that they count is not there.
pub(crate) fn take_descriptors() -> io::Result<Vec<OwnedFd>> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    // Marking them shows that they are there.
    let numbers = sd_notify::listen_fds()?;
    // SAFETY: each is open, was there before this process began, and is taken this once.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect())
}
