//! What loses its parent below this process comes to this process, and not to the host's pid 1.

use std::io;

/// Makes this process a subreaper. For binaries only: it changes the whole process.
///
/// # Errors
/// Only on kernels older than 3.4.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
