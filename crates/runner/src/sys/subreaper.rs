//! What loses its parent below this process comes to this process, and not to the host's pid 1.

use std::io;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
static SUBREAPER: AtomicBool = AtomicBool::new(false);

/// Makes this process a subreaper: whatever loses its parent below it comes to it. From then on, **every** child that no
/// Runner has started is taken for such an orphan, and is ended and reaped. So this is for programs that start no
/// children but through the Runner, like the project's own binaries; call it before a Runner is started.
///
/// # Errors
/// Only on kernels older than 3.4.
#[cfg(target_os = "linux")]
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    SUBREAPER.store(true, Ordering::SeqCst);
    Ok(())
}

/// Elsewhere there are no subreapers, and nothing is changed.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Whether [`become_subreaper`] was called.
#[cfg(target_os = "linux")]
pub(crate) fn is_subreaper() -> bool {
    SUBREAPER.load(Ordering::SeqCst)
}
