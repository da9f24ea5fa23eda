//! Where a path leads: links followed one component at a time over facts, so that a decision knows not only the end but
//! also whether a link was crossed and how far the path exists.
//!
//! Says nothing about what may be seen. Deliberately not `canonicalize`: that answers "missing" for a path that left the
//! workspace before it ended, and so tells what exists outside.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::facts::{ELOOP, ENOTDIR};
use crate::{Disk, Errno, Kind};

/// Linux gives up after as many links.
const MAX_LINKS: usize = 40;

/// Where an absolute path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Without links as far as it exists; what does not exist follows as written.
    pub(crate) path: PathBuf,
    /// What is there, never a link; or why the walk ended early.
    pub(crate) end: Result<Kind, Errno>,
    /// A link was crossed on the way.
    pub(crate) linked: bool,
}

/// A path that leads out of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Escape;

/// Follows the absolute `path`.
pub(crate) fn walk(disk: &dyn Disk, path: &Path) -> Walk {
    let mut steps: VecDeque<Step> = steps(path).collect();
    let mut at = Walk { path: PathBuf::from("/"), end: Ok(Kind::Dir), linked: false };
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        let name = match step {
            Step::Root => {
                at.path = PathBuf::from("/");
                continue;
            }
            Step::Up => {
                at.path.pop();
                continue;
            }
            Step::Down(name) => name,
        };
        let next = at.path.join(name);
        let stopped = match disk.kind(&next) {
            Ok(Kind::Link { target }) => {
                at.linked = true;
                links += 1;
                if links <= MAX_LINKS {
                    let rest = std::mem::take(&mut steps);
                    steps = self::steps(&target).chain(rest).collect();
                    continue;
                }
                Err(ELOOP)
            }
            Ok(Kind::Dir) => Ok(Kind::Dir),
            Ok(Kind::File { .. } | Kind::Other) if !steps.is_empty() => Err(ENOTDIR),
            Ok(leaf) => Ok(leaf),
            Err(errno) => Err(errno),
        };
        at.path = next;
        if stopped.is_err() {
            steps.into_iter().for_each(|step| as_written(&mut at.path, step));
            return Walk { end: stopped, ..at };
        }
        at.end = stopped;
    }
    at
}

/// Follows `path`, relative to `root` or absolute, and refuses it when it leads out of `root`, whether or not it exists
/// there. `root` has no links in it.
pub(crate) fn walk_within(disk: &dyn Disk, root: &Path, path: &Path) -> Result<Walk, Escape> {
    if path.is_relative() && climbs_out(path) {
        return Err(Escape);
    }
    let walked = walk(disk, &root.join(path));
    if walked.path.starts_with(root) { Ok(walked) } else { Err(Escape) }
}

/// Whether a relative path goes above where it starts, as written.
fn climbs_out(relative: &Path) -> bool {
    let mut depth = 0_usize;
    for component in relative.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    false
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> + '_ {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Below what does not exist, `..` can only be read as written.
fn as_written(path: &mut PathBuf, step: Step) {
    match step {
        Step::Root => *path = PathBuf::from("/"),
        Step::Up => {
            path.pop();
        }
        Step::Down(name) => path.push(name),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::ENOENT;
    use crate::fake::FakeDisk;

    fn disk() -> FakeDisk {
        FakeDisk::new()
            .dir("/ws/a/b")
            .file("/ws/file")
            .link("/ws/in", "a/b")
            .link("/ws/out", "/etc")
            .link("/ws/up", "../etc")
            .link("/ws/around", "/ws/a")
            .link("/ws/dangling", "/nowhere/at/all")
            .link("/ws/loop", "loop")
            .dir("/etc/ssl")
    }

    #[test]
    fn links_are_followed_and_noticed() {
        let walked = walk(&disk(), Path::new("/ws/in"));
        assert_eq!((walked.path, walked.end, walked.linked), ("/ws/a/b".into(), Ok(Kind::Dir), true));
        let walked = walk(&disk(), Path::new("/ws/in/../../file"));
        assert_eq!((walked.path, walked.end), ("/ws/file".into(), Ok(Kind::File { links: 1 })));
        assert!(!walk(&disk(), Path::new("/ws/./a//b/")).linked);
    }

    #[test]
    fn a_walk_says_why_it_ended_early() {
        let end = |path: &str| walk(&disk(), Path::new(path)).end;
        assert_eq!(end("/ws/none/x"), Err(ENOENT));
        assert_eq!(end("/ws/file/x"), Err(ENOTDIR));
        assert_eq!(end("/ws/loop"), Err(ELOOP));
        assert_eq!(walk(&disk(), Path::new("/ws/none/x/../y")).path, Path::new("/ws/none/y"));
    }

    #[test]
    fn a_path_out_of_the_root_is_an_escape_whether_or_not_it_exists() {
        let within = |path: &str| walk_within(&disk(), Path::new("/ws"), Path::new(path));
        for path in
            ["..", "a/../..", "../ws/a", "/etc", "/wsx", "out", "out/ssl", "out/none", "up", "dangling", "in/../../.."]
        {
            assert_eq!(within(path), Err(Escape), "{path}");
        }
        for path in ["", ".", "a/..", "in", "around/b", "/ws/a", "none", "in/.."] {
            assert!(within(path).is_ok(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_let_through_lies_outside_the_root(
            links in proptest::collection::vec(("[abc]", "(/ws|/etc|/ws2)?(/?([abc]|[.][.]?)){0,4}"), 0..4),
            path in "/?([abc]|[.][.]?|ws|etc)(/([abc]|[.][.]?|ws)){0,6}",
        ) {
            let mut disk = FakeDisk::new().dir("/ws/a/b/c").dir("/ws/c").dir("/etc/a").dir("/ws2/a");
            for (name, target) in links.iter().filter(|(_, target)| !target.is_empty()) {
                disk = disk.link(&format!("/ws/{name}"), target);
            }
            if let Ok(walked) = walk_within(&disk, Path::new("/ws"), Path::new(&path)) {
                prop_assert!(walked.path.starts_with("/ws"), "{:?}", walked);
                prop_assert!(walked.path.components().all(|c| c != Component::ParentDir));
                // What was reached is itself free of links: following it again changes nothing.
                let again = walk(&disk, &walked.path);
                if walked.end.is_ok() {
                    prop_assert_eq!((again.path, again.linked), (walked.path, false));
                }
            }
        }
    }
}
