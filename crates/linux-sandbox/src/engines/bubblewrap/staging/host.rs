//! The host's files as a view shows them: found without following a link, copied, restricted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::{Stage, StageFailure};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;

use super::cannot;
use crate::engines::bubblewrap::entries::{Entry, Shown};
use crate::engines::bubblewrap::split::Staged;
use crate::sys::mount_api::{Restrictions, clone_tree, restrict};

/// The host's files, as they are without the staging.
pub(super) struct Host {
    root: OwnedFd,
    at: PathBuf,
    /// What the staging covers.
    pub(super) covered: OwnedFd,
    /// Copies that were made before.
    copied: Vec<(PathBuf, OwnedFd)>,
}

impl Host {
    /// Steps 1 and 2.
    pub(super) fn open(staged: &Staged) -> Result<Self, StageFailure> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let open =
            |path: &Path| nix::fcntl::open(path, flags, Mode::empty()).map_err(|e| cannot("open", path, &e.into()));
        let at = staged.at.clone();
        let mut host = Self { root: open(Path::new("/"))?, covered: open(&at)?, at, copied: Vec::new() };
        for Entry { path, shown } in &staged.root {
            if host.at.starts_with(path) && matches!(shown, Shown::ReadOnly | Shown::Writable) {
                let copy = host.copy(path, shown)?;
                host.copied.push((path.clone(), copy));
            }
        }
        Ok(host)
    }

    /// A restricted copy of what the host has at `path`, in no place yet.
    pub(super) fn copy(&self, path: &Path, shown: &Shown) -> Result<OwnedFd, StageFailure> {
        if let Some((_, copied)) = self.copied.iter().find(|(other, _)| other == path) {
            return copied.try_clone().map_err(|e| cannot("copy", path, &e));
        }
        let (above, below) = match path.strip_prefix(&self.at) {
            Ok(below) => (&self.covered, below),
            Err(_) => (&self.root, path),
        };
        // Resolved when the plan was made; that it is no longer there, or has become a link, is what happened since.
        let found = open_beneath(above.as_fd(), below)
            .map_err(|e| StageFailure { stage: Stage::Prepare, ..cannot("open what the view shows at", path, &e) })?;
        let copy = clone_tree(found.as_fd()).map_err(|e| cannot("copy", path, &e))?;
        let to = if *shown == Shown::Writable { Restrictions::WRITABLE } else { Restrictions::READ_ONLY };
        restrict(copy.as_fd(), to, true).map_err(|e| cannot("restrict", path, &e))?;
        Ok(copy)
    }
}

/// No link is followed, and nothing leads out of `above`.
pub(super) fn open_beneath(above: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(above, path, how)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_has_become_a_link_is_not_followed_and_nothing_leads_out() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/b")).unwrap();
        fs::write(top.path().join("a/file"), "").unwrap();
        symlink("a", top.path().join("link")).unwrap();
        let above = File::open(top.path().join("a")).unwrap();
        let whole = File::open(top.path()).unwrap();
        let errno = |dir: &File, path: &str| {
            open_beneath(dir.as_fd(), Path::new(path)).map(drop).map_err(|error| error.raw_os_error().unwrap())
        };
        for path in ["", "/", "b", "/b", "file"] {
            assert_eq!(errno(&above, path), Ok(()), "{path:?}");
        }
        for path in ["link", "link/b", "/link/file"] {
            assert_eq!(errno(&whole, path), Err(libc::ELOOP), "{path:?}");
        }
        assert_eq!(errno(&above, "../link"), Err(libc::EXDEV));
        assert_eq!(errno(&above, "none"), Err(libc::ENOENT));
    }
}
