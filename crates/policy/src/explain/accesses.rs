//! The plan's view as something to ask: which rule a path falls under, and where a path leads when the view's own links and
//! what it hides are followed, as the command's own look would be.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::{Access, View};

use super::sources::is_the_sandboxes_own;
use crate::facts::{EACCES, ENOENT};
use crate::{Disk, Errno, Kind};

/// The rules of a plan by path.
pub(super) struct Accesses<'a> {
    rules: BTreeMap<&'a Path, &'a Access>,
}

impl<'a> Accesses<'a> {
    pub(super) fn of(view: &'a View) -> Self {
        Self { rules: view.rules.iter().map(|rule| (rule.path.as_path(), &rule.access)).collect() }
    }

    /// The rule that `path`, which has no links in it, falls under: the nearest at or above it.
    pub(super) fn nearest(&self, path: &Path) -> Option<(&'a Path, &'a Access)> {
        path.ancestors().find_map(|at| self.rules.get_key_value(at)).map(|(path, access)| (*path, *access))
    }

    /// The rules below `path`.
    pub(super) fn below(&self, path: &Path) -> Vec<(&'a Path, &'a Access)> {
        let from = self.rules.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        from.map(|(at, access)| (*at, *access)).take_while(|(at, _)| at.starts_with(path)).collect()
    }

    /// Whether something is shown below `path`, so that there is a way through it.
    pub(super) fn way_through(&self, path: &Path) -> bool {
        self.below(path).iter().any(|(_, access)| **access != Access::Deny)
    }
}

/// The disk as it is seen inside.
pub(super) struct Inside<'a> {
    pub(super) accesses: &'a Accesses<'a>,
    pub(super) disk: &'a dyn Disk,
}

impl Disk for Inside<'_> {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        let way_through = || self.accesses.way_through(path);
        match self.accesses.nearest(path) {
            Some((at, Access::Symlink { target })) if at == path => Ok(Kind::Link { target: target.as_path().into() }),
            Some((_, Access::Read | Access::ReadPublic | Access::Write)) => self.disk.kind(path),
            Some((_, Access::Deny)) if way_through() => Ok(Kind::Dir),
            Some((_, Access::Deny)) => Err(EACCES),
            Some((_, Access::Symlink { .. })) => Err(ENOENT),
            // The mount points' parents are made, and so are the sandbox's own directories.
            None if way_through() || is_the_sandboxes_own(path).is_some_and(|own| own == path) => Ok(Kind::Dir),
            None => Err(ENOENT),
        }
    }

    fn home(&self) -> Option<PathBuf> {
        self.disk.home()
    }
}
