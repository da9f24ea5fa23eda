//! How many descriptors this process may have. The soft limit is often 1,024 for the sake of programs that use `select`;
//! the Runner is none, and needs about eight for each process and two for each connection.

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// What there was before it was raised; the commands' own.
static BEFORE: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Raises this process's soft limit to its hard one. The commands that are started keep the limit that there was.
///
/// # Errors
/// The operating system's.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    BEFORE.get_or_init(|| (soft, hard));
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(())
}

/// In a child between clone and exec: one system call at most.
#[cfg(target_os = "linux")]
pub(crate) fn restore_in_child() -> io::Result<()> {
    match BEFORE.get() {
        Some((soft, hard)) => setrlimit(Resource::RLIMIT_NOFILE, *soft, *hard).map_err(Into::into),
        None => Ok(()),
    }
}
