//! A view as a list of single mounts and links, in their order, before anybody decides who makes them: the argument list
//! and the staging are both made from this, so that neither can mean something else than the other.
//!
//! Pure: what the host has at a path is asked through [`Look`].

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::{Access, Stage, StageFailure, View};

use crate::engines::etc::{self, Mask};
use crate::engines::exec::failure;

/// One mount, or one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) shown: Shown,
}

/// What is at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// The host's, read-only.
    ReadOnly,
    /// The host's.
    Writable,
    /// A symbolic link, as on the host.
    Link { target: PathBuf },
    /// A stand-in for a directory.
    EmptyDirectory {
        /// Something is shown below it, so it can be entered, though not listed.
        way_through: bool,
        /// There are entries below it, so it must be writable until they are made.
        holds: bool,
    },
    /// A stand-in for everything else.
    EmptyFile,
}

/// What has to be known of the host.
pub(super) trait Look {
    /// What covers `path`.
    fn mask(&self, path: &Path) -> io::Result<Mask>;
    /// What has to be covered below a directory of which only the public part is shown.
    fn masks(&self, path: &Path) -> io::Result<Vec<Mask>>;
}

/// The host itself.
pub(super) struct HostLook;

impl Look for HostLook {
    fn mask(&self, path: &Path) -> io::Result<Mask> {
        Mask::of(path)
    }

    fn masks(&self, path: &Path) -> io::Result<Vec<Mask>> {
        etc::masks(path)
    }
}

/// The entries of `view`, in the order in which they are put over each other.
pub(super) fn entries(view: &View, look: &dyn Look) -> Result<Vec<Entry>, StageFailure> {
    let unseen = |path: &Path, error: &io::Error| failure(&format!("look at {path:?}"), error);
    let above_any = above(view.rules.iter().map(|rule| rule.path.as_path()));
    let shown = view.rules.iter().filter(|rule| rule.access != Access::Deny);
    let above_shown = above(shown.map(|rule| rule.path.as_path()));
    let stand_in = |mask: Mask, denied: bool| match mask {
        Mask::Directory(path) => {
            let way_through = denied && above_shown.contains(path.as_path());
            let shown = Shown::EmptyDirectory { way_through, holds: above_any.contains(path.as_path()) };
            Some(Entry { path, shown })
        }
        Mask::File(path) => Some(Entry { path, shown: Shown::EmptyFile }),
        Mask::Nothing => None,
    };
    let mut entries = Vec::with_capacity(view.rules.len());
    for rule in &view.rules {
        let path = rule.path.as_path();
        let shown = match &rule.access {
            Access::Read | Access::ReadPublic => Shown::ReadOnly,
            Access::Write => Shown::Writable,
            Access::Symlink { target } => Shown::Link { target: target.as_path().to_owned() },
            Access::Deny => {
                let mask = look.mask(path).map_err(|e| unseen(path, &e))?;
                // It was there when the rule was decided. Where it has gone for a moment it may be back in the next.
                let Some(entry) = stand_in(mask, true) else {
                    let gone = io::Error::from_raw_os_error(libc::ENOENT);
                    let failure = failure(&format!("deny {path:?}, which has just been there"), &gone);
                    return Err(StageFailure { stage: Stage::Prepare, ..failure });
                };
                entries.push(entry);
                continue;
            }
        };
        entries.push(Entry { path: path.to_owned(), shown });
        if rule.access == Access::ReadPublic {
            let masks = look.masks(path).map_err(|e| unseen(path, &e))?;
            entries.extend(masks.into_iter().filter_map(|mask| stand_in(mask, false)));
        }
    }
    Ok(entries)
}

/// Every directory above one of `paths`.
fn above<'a>(paths: impl Iterator<Item = &'a Path>) -> HashSet<&'a Path> {
    let mut above = HashSet::new();
    for path in paths {
        // Whatever is above a known one is known, too: else the cost would be that of all pairs.
        for directory in path.ancestors().skip(1) {
            if !above.insert(directory) {
                break;
            }
        }
    }
    above
}

#[cfg(test)]
pub(super) mod tests {
    use codespace_linux_sandbox_protocol::Rule;

    use super::*;

    pub(in super::super) fn rule(path: &str, access: Access) -> Rule {
        Rule { path: path.into(), access }
    }

    /// A host of which these are the directories; everything else is a file, and what has `none` in its name is missing.
    pub(in super::super) struct Directories(pub(in super::super) &'static [&'static str]);

    impl Look for Directories {
        fn mask(&self, path: &Path) -> io::Result<Mask> {
            Ok(match path {
                _ if path.to_string_lossy().contains("none") => Mask::Nothing,
                _ if self.0.iter().any(|directory| path == Path::new(directory)) => Mask::Directory(path.to_owned()),
                _ => Mask::File(path.to_owned()),
            })
        }

        fn masks(&self, path: &Path) -> io::Result<Vec<Mask>> {
            Ok(vec![Mask::File(path.join("shadow")), Mask::Directory(path.join("ssl/private"))])
        }
    }

    #[test]
    fn a_stand_in_lets_through_what_is_shown_below_it_and_holds_what_is_not() {
        let view = View {
            rules: vec![
                rule("/etc", Access::ReadPublic),
                rule("/a", Access::Deny),
                rule("/b", Access::Deny),
                rule("/c", Access::Deny),
                rule("/file", Access::Deny),
                rule("/b/denied", Access::Deny),
                rule("/c/x/y", Access::Read),
                rule("/etc/ssl/private/shown", Access::Read),
            ],
        };
        let look = Directories(&["/a", "/b", "/c", "/b/denied"]);
        let directory = |path: &str, way_through, holds| Entry {
            path: path.into(),
            shown: Shown::EmptyDirectory { way_through, holds },
        };
        let plain = |path: &str, shown| Entry { path: path.into(), shown };
        assert_eq!(
            entries(&view, &look).unwrap(),
            [
                plain("/etc", Shown::ReadOnly),
                plain("/etc/shadow", Shown::EmptyFile),
                // Covered, not denied: what lies below it is for those who may enter it.
                directory("/etc/ssl/private", false, true),
                directory("/a", false, false),
                directory("/b", false, true),
                directory("/c", true, true),
                plain("/file", Shown::EmptyFile),
                directory("/b/denied", false, false),
                plain("/c/x/y", Shown::ReadOnly),
                plain("/etc/ssl/private/shown", Shown::ReadOnly),
            ]
        );
    }
    #[test]
    fn a_denied_path_that_has_gone_since_the_decision_ends_the_start() {
        let view = View { rules: vec![rule("/a", Access::Read), rule("/none", Access::Deny)] };
        let failure = entries(&view, &Directories(&["/a"])).unwrap_err();
        assert_eq!((failure.stage, failure.errno), (Stage::Prepare, Some(libc::ENOENT)), "{failure:?}");
        assert!(failure.message.contains("/none"), "{failure:?}");
    }
}
