//! Who occupies a workspace: an `exclusive` one is for one process, whatever ids its directory is registered under.
//!
//! The id alone does not tell. Two ids may name one directory, by a link or a bind mount too, or the one a directory
//! within the other's; a process of either is then in the other's way. So what is compared is the root as it is on the
//! disk when the start is planned: its device and inode, and those of the directories that it is in.
//!
//! What this does not see: a directory that lies within another one through a bind mount alone, under a path that does not
//! say so; and what another Runner has started.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use codespace_domain::{ErrorCode, RunnerError, WorkspaceId};

/// A directory as the disk knows it.
type Identity = (u64, u64);

/// The root of a workspace that a process is in.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// The root first, then what it is in, up to the file system's root.
    chain: Vec<Identity>,
}

impl Ground {
    /// Looks at the disk.
    pub(crate) fn of(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let chain = root.ancestors().map(|directory| directory.metadata().map(|found| (found.dev(), found.ino())));
        Ok(Self { chain: chain.collect::<io::Result<_>>()? })
    }

    /// Whether the one is the other, or lies within it.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let holds = |outer: &Self, inner: &Self| outer.chain.first().is_some_and(|root| inner.chain.contains(root));
        holds(self, other) || holds(other, self)
    }
}

/// The refusal of a start in a workspace that is exclusive, or in the way of one that is.
pub(super) fn busy(workspace: &WorkspaceId, occupied_by: &WorkspaceId) -> RunnerError {
    let message = if workspace == occupied_by {
        format!("start a command: the workspace {workspace} is exclusive and in use")
    } else {
        format!(
            "start a command: the root of the workspace {workspace} overlaps that of {occupied_by}, which is in use, and \
             one of them is exclusive"
        )
    };
    RunnerError::new(ErrorCode::WorkspaceBusy, message).with_hint("wait for its process, or end it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directory_and_one_within_it_overlap_by_whatever_path_and_a_neighbour_does_not() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::create_dir(at("ab")).unwrap();
        std::os::unix::fs::symlink(at("a/b"), at("link")).unwrap();
        let ground = |name: &str| Ground::of(&at(name)).unwrap();
        for (one, other) in
            [("a", "a"), ("a", "a/b"), ("a/b/c", "a"), ("link", "a/b"), ("link/c", "a"), ("link", "a/b/c")]
        {
            assert!(ground(one).overlaps(&ground(other)), "{one} {other}");
            assert!(ground(other).overlaps(&ground(one)), "{other} {one}");
        }
        for (one, other) in [("a", "ab"), ("ab", "link"), ("ab", "a/b/c")] {
            assert!(!ground(one).overlaps(&ground(other)), "{one} {other}");
        }
        assert!(Ground::of(&at("none")).is_err());
    }
}
