//! Builds a view as a tree of mounts that bubblewrap binds once: its own set-up reads all mounts anew for each bind, and
//! its argument list is bounded.
//!
//! Runs in the first process, after its lifeline holds and in its own mount namespace, so that a kill at any moment takes
//! all of it away and nothing of it is ever seen outside. Everything it makes is made on file systems of its own; on the
//! host's it creates nothing, it only covers.
//!
//! The procedure, one step after the other; each failure names the step, and the path that it was about:
//! 1. **Open** the host's `/`, and the directory that the staging will cover (`Staged::at`): paths below that are looked up
//!    from this descriptor afterwards.
//! 2. **Copy** what a rule shows at or above that directory, while the staging is not yet part of it.
//! 3. **Cover** the directory with a private tmpfs, and in it make the roots of the staged trees: `root`, an empty tmpfs
//!    or what a rule shows at `/`, and `shm`.
//! 4. In `root`, make the **places** of `/proc` and `/dev`, and, where no rule shows `/`, the private `/tmp`.
//! 5. Make the **entries**, in their order. A path of the host is opened with no link followed (`openat2`), copied with all
//!    mounts below (in a user namespace of its own a mount cannot be copied without what others have put on it), restricted
//!    as a whole, and only then put at its place. A path that has become a link since it was resolved is an error.
//! 6. **Close**: the stand-ins and `root` become read-only, now that all mount points in them exist.

mod host;
mod tree;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use codespace_linux_sandbox_protocol::StageFailure;
use nix::errno::Errno;
use nix::sys::stat::{Mode, fstat, umask};

use self::host::Host;
use self::tree::{OwnFileSystems, Tree, make_directory};
use super::entries::{Entry, Shown};
use super::split::Staged;
use crate::engines::exec::failure;
use crate::sys::mount_api::{Restrictions, attach, clone_tree, new_tmpfs, restrict};

/// What a file that cannot be opened is covered with: a device on a mount where devices cannot be opened.
const NULL: &str = "/dev/null";

/// Builds it. Whatever fails, nothing has to be taken back: all of it is gone with this process.
pub(super) fn build(staged: &Staged) -> Result<(), StageFailure> {
    let before = umask(Mode::empty());
    let built = Staging::begin(staged).and_then(|staging| staging.finish(staged));
    umask(before);
    built
}

struct Staging {
    host: Host,
    root: Tree,
    shm: Option<Tree>,
    /// One for all stand-ins that nothing lies below. Attached, since older kernels copy nothing else.
    empty: Option<OwnedFd>,
    own: OwnFileSystems,
    /// The tmpfs that holds all of this.
    base: OwnedFd,
}

impl Staging {
    /// Steps 1 to 4.
    fn begin(staged: &Staged) -> Result<Self, StageFailure> {
        let host = Host::open(staged)?;
        let mut own = OwnFileSystems::default();
        let base = new_mount(&mut own, c"0700", host.covered.as_fd(), &staged.at)?;
        let top = match staged.rule_for_root() {
            Some(entry) => {
                let top = host.copy(&entry.path, &entry.shown)?;
                let place = make_directory(base.as_fd(), "root").map_err(|e| failure("make the view's root", &e))?;
                attach(top.as_fd(), place.as_fd()).map_err(|e| failure("put the view's root in its place", &e))?;
                top
            }
            None => own_tree(&mut own, base.as_fd(), "root")?,
        };
        let root = Tree { top, at: "/" };
        for place in ["/proc", "/dev"] {
            root.place(&own, Path::new(place), true)?;
        }
        if staged.rule_for_root().is_none() {
            let tmp = Path::new("/tmp");
            let place = root.place(&own, tmp, true)?;
            new_mount(&mut own, c"1777", place.as_fd(), tmp)?;
        }
        let shm = match staged.shm.is_empty() {
            true => None,
            false => Some(Tree { top: own_tree(&mut own, base.as_fd(), "shm")?, at: "/dev/shm" }),
        };
        Ok(Self { host, root, shm, empty: None, own, base })
    }

    /// Steps 5 and 6.
    fn finish(mut self, staged: &Staged) -> Result<(), StageFailure> {
        let shown_at_root = usize::from(staged.rule_for_root().is_some());
        for entry in staged.root.iter().skip(shown_at_root).chain(&staged.shm) {
            self.make(entry)?;
        }
        for entry in staged.root.iter().chain(&staged.shm) {
            if matches!(entry.shown, Shown::EmptyDirectory { holds: true, .. }) {
                let made = self.tree(&entry.path).open(&entry.path).map_err(|e| cannot("close", &entry.path, &e))?;
                close(made.as_fd()).map_err(|e| cannot("close", &entry.path, &e))?;
            }
        }
        if staged.rule_for_root().is_none() {
            close(self.root.top.as_fd()).map_err(|e| failure("close the view's root", &e))?;
        }
        Ok(())
    }

    fn make(&mut self, Entry { path, shown }: &Entry) -> Result<(), StageFailure> {
        let is_directory;
        let mount = match shown {
            Shown::Link { target } => return self.tree(path).link(&self.own, path, target),
            Shown::ReadOnly | Shown::Writable => {
                let source = self.host.copy(path, shown)?;
                is_directory = is_a_directory(source.as_fd()).map_err(|e| cannot("look at", path, &e))?;
                source
            }
            Shown::EmptyFile => {
                is_directory = false;
                self.host.copy(Path::new(NULL), &Shown::ReadOnly)?
            }
            Shown::EmptyDirectory { holds: false, .. } => {
                is_directory = true;
                clone_tree(self.empty()?).map_err(|e| cannot("cover", path, &e))?
            }
            Shown::EmptyDirectory { holds: true, way_through } => {
                let place = self.tree(path).place(&self.own, path, true)?;
                let mode = if *way_through { c"0111" } else { c"0000" };
                return new_mount(&mut self.own, mode, place.as_fd(), path).map(drop);
            }
        };
        let place = self.tree(path).place(&self.own, path, is_directory)?;
        attach(mount.as_fd(), place.as_fd()).map_err(|e| cannot("mount", path, &e))
    }

    fn tree(&self, path: &Path) -> &Tree {
        match &self.shm {
            Some(shm) if path.starts_with(shm.at) => shm,
            _ => &self.root,
        }
    }

    fn empty(&mut self) -> Result<BorrowedFd<'_>, StageFailure> {
        if self.empty.is_none() {
            let make = || -> io::Result<OwnedFd> {
                let mount = new_tmpfs(c"0000")?;
                close(mount.as_fd())?;
                attach(mount.as_fd(), make_directory(self.base.as_fd(), "empty")?.as_fd())?;
                Ok(mount)
            };
            self.empty = Some(make().map_err(|e| failure("make an empty stand-in", &e))?);
        }
        self.empty.as_ref().map(AsFd::as_fd).ok_or_else(|| failure("make an empty stand-in", &Errno::ENOENT.into()))
    }
}

/// A new tmpfs of this mode, put on `place`.
fn new_mount(
    own: &mut OwnFileSystems,
    mode: &CStr,
    place: BorrowedFd<'_>,
    path: &Path,
) -> Result<OwnedFd, StageFailure> {
    let mut make = || -> io::Result<OwnedFd> {
        let mount = new_tmpfs(mode)?;
        attach(mount.as_fd(), place)?;
        own.add(mount.as_fd())?;
        Ok(mount)
    };
    make().map_err(|e| cannot("cover", path, &e))
}

/// A staged tree that begins empty.
fn own_tree(own: &mut OwnFileSystems, base: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, StageFailure> {
    let place = make_directory(base, name).map_err(|e| failure(&format!("make the staged tree {name}"), &e))?;
    new_mount(own, c"0755", place.as_fd(), Path::new(name))
}

fn is_a_directory(of: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(fstat(of)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

fn close(mount: BorrowedFd<'_>) -> io::Result<()> {
    restrict(mount, Restrictions::READ_ONLY, false)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> StageFailure {
    failure(&format!("{what} {path:?}"), error)
}
