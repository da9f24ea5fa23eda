//! A disk made of what a test says is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::facts::{ENOENT, ENOTDIR};
use crate::{Disk, Errno, Kind};

/// Directories, files and links by path. Setting a path makes its parents directories.
#[derive(Debug, Clone)]
pub(crate) struct FakeDisk {
    entries: BTreeMap<PathBuf, Result<Kind, Errno>>,
    home: Option<PathBuf>,
}

impl FakeDisk {
    pub(crate) fn new() -> Self {
        Self { entries: BTreeMap::from([("/".into(), Ok(Kind::Dir))]), home: None }
    }

    /// A small Debian with merged `/usr`, and the home directory `/home/ann`.
    pub(crate) fn debian() -> Self {
        ["/usr/bin", "/usr/lib", "/usr/local/bin", "/etc", "/tmp", "/var/lib", "/home/ann"]
            .into_iter()
            .fold(Self::new(), Self::dir)
            .link("/bin", "usr/bin")
            .link("/lib", "usr/lib")
            .home("/home/ann")
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        self.set(path, Ok(Kind::Dir))
    }

    pub(crate) fn file(self, path: &str) -> Self {
        self.hard_linked(path, 1)
    }

    pub(crate) fn hard_linked(self, path: &str, links: u64) -> Self {
        self.set(path, Ok(Kind::File { links }))
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        self.set(path, Ok(Kind::Link { target: target.into() }))
    }

    pub(crate) fn unreadable(self, path: &str, errno: Errno) -> Self {
        self.set(path, Err(errno))
    }

    pub(crate) fn gone(mut self, path: &str) -> Self {
        self.entries.retain(|entry, _| !entry.starts_with(path));
        self
    }

    pub(crate) fn home(mut self, path: &str) -> Self {
        self.home = Some(path.into());
        self
    }

    fn set(mut self, path: &str, what: Result<Kind, Errno>) -> Self {
        for parent in Path::new(path).ancestors().skip(1) {
            self.entries.entry(parent.into()).or_insert(Ok(Kind::Dir));
        }
        self.entries.insert(path.into(), what);
        self
    }
}

impl Disk for FakeDisk {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        for parent in path.ancestors().skip(1) {
            match self.entries.get(parent) {
                None => return Err(ENOENT),
                Some(Err(errno)) => return Err(*errno),
                Some(Ok(Kind::Dir)) => {}
                Some(Ok(_)) => return Err(ENOTDIR),
            }
        }
        self.entries.get(path).cloned().unwrap_or(Err(ENOENT))
    }

    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }
}
