//! The facts that decisions are made from: what lies on the disk, and what the host and the Runner's own surroundings
//! offer. Plain data and one trait; asking the kernel is [`crate::HostDisk`]'s.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::Engine;

/// Linux's error number.
pub type Errno = i32;

pub(crate) const ENOENT: Errno = 2;
pub(crate) const EACCES: Errno = 13;
pub(crate) const ENOTDIR: Errno = 20;
pub(crate) const ELOOP: Errno = 40;

/// What one directory entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file.
    File {
        /// How many names it has.
        links: u64,
    },
    /// A symbolic link.
    Link {
        /// What it points to, as written.
        target: PathBuf,
    },
    /// A socket, a device or a pipe.
    Other,
}

/// What a decision needs to know of the file system.
pub trait Disk {
    /// What is at `path` itself: a link in its last component is not followed. The error is the kernel's.
    fn kind(&self, path: &Path) -> Result<Kind, Errno>;

    /// The home directory of the user that the Runner runs as, as written.
    fn home(&self) -> Option<PathBuf>;
}

/// What the host offers, and what of the Runner's own surroundings matters.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// The engine that the probe found to work; `None` when there is none.
    pub engine: Option<Engine>,
    /// Whether that engine can keep a command off the network.
    pub network_enforced: bool,
    /// What the probe found missing, for people.
    pub reasons: Vec<String>,
    /// The Runner's own environment: what `env.inherit` takes from.
    pub runner_env: BTreeMap<OsString, OsString>,
    /// The Runner's home directory, where `"home": "toolchains"` looks.
    pub runner_home: Option<PathBuf>,
    /// The Runner's own socket directory, configuration, binaries and state: reachable in no view.
    pub forbidden: Vec<PathBuf>,
}

/// The kernel's words for an error number.
pub(crate) fn errno_text(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
