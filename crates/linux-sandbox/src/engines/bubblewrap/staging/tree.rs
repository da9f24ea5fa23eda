//! A staged tree: where a path's place in it is, and that it is made if need be. Nothing is created on the host's file
//! systems: there a place exists, or the view cannot be built.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use codespace_linux_sandbox_protocol::StageFailure;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::symlinkat;

use super::cannot;
use super::host::open_beneath;

/// A staged tree.
pub(super) struct Tree {
    pub(super) top: OwnedFd,
    /// Where it will be inside.
    pub(super) at: &'static str,
}

/// The file systems that were made here, by device number: only in these is anything created.
#[derive(Default)]
pub(super) struct OwnFileSystems(HashSet<u64>);

impl Tree {
    /// The place of `path`, which may exist, so that it can be covered; else it is made, in a file system of our own.
    pub(super) fn place(&self, own: &OwnFileSystems, path: &Path, is_directory: bool) -> Result<OwnedFd, StageFailure> {
        let made = || -> io::Result<OwnedFd> {
            match self.open(path) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                found => return found,
            }
            let Some((above, name)) = self.parent(own, path)? else { return self.open(path) };
            if is_directory {
                return make_directory(above.as_fd(), name);
            }
            let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            drop(openat(&above, name, flags, Mode::from_bits_truncate(0o444))?);
            open_beneath(above.as_fd(), Path::new(name))
        };
        made().map_err(|e| cannot("make a place for", path, &e))
    }

    pub(super) fn link(&self, own: &OwnFileSystems, path: &Path, target: &Path) -> Result<(), StageFailure> {
        let made = || -> io::Result<()> {
            let Some((above, name)) = self.parent(own, path)? else { return Err(Errno::EEXIST.into()) };
            Ok(symlinkat(target, &above, name)?)
        };
        made().map_err(|e| cannot("link", path, &e))
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let below = path.strip_prefix(self.at).map_err(|_| Errno::EXDEV)?;
        open_beneath(self.top.as_fd(), below)
    }

    /// The directory that `path` is in, made if need be, where something may be created in it; and the name in it.
    fn parent<'a>(&self, own: &OwnFileSystems, path: &'a Path) -> io::Result<Option<(OwnedFd, &'a OsStr)>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let parent = match self.open(parent) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => match self.parent(own, parent)? {
                Some((above, name)) => make_directory(above.as_fd(), name)?,
                None => return Err(error),
            },
            found => found?,
        };
        // The host's: a mount point that was there when the plan was made is there no longer.
        if own.has(parent.as_fd())? { Ok(Some((parent, name))) } else { Err(Errno::ENOENT.into()) }
    }
}

impl OwnFileSystems {
    pub(super) fn add(&mut self, top: BorrowedFd<'_>) -> io::Result<()> {
        self.0.insert(fstat(top)?.st_dev);
        Ok(())
    }

    fn has(&self, place: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(self.0.contains(&fstat(place)?.st_dev))
    }
}

pub(super) fn make_directory(above: BorrowedFd<'_>, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
    mkdirat(above, name.as_ref(), Mode::from_bits_truncate(0o755))?;
    open_beneath(above, Path::new(name.as_ref()))
}
