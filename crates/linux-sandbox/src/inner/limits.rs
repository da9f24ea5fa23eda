//! Limits that the kernel keeps per process. Soft and hard both, so that the command cannot raise them again.

use std::io;

use codespace_linux_sandbox_protocol::Rlimits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Sets what is named, never above what this process has itself.
pub(super) fn set(limits: &Rlimits) -> io::Result<()> {
    let named = [(Resource::RLIMIT_FSIZE, limits.file_bytes), (Resource::RLIMIT_NOFILE, limits.open_files)];
    for (resource, value) in named {
        let Some(value) = value else { continue };
        let (_, hard) = getrlimit(resource)?;
        setrlimit(resource, value.min(hard), value.min(hard))?;
    }
    if let Some(seconds) = limits.cpu_seconds {
        let (_, hard) = getrlimit(Resource::RLIMIT_CPU)?;
        // SIGXCPU at the soft limit tells which limit it was; a program that catches it is killed a second later.
        setrlimit(Resource::RLIMIT_CPU, seconds.min(hard), seconds.saturating_add(1).min(hard))?;
    }
    Ok(())
}
