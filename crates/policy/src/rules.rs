//! The registry's `filesystem` rules held against the disk: each path resolved, or the reason why it cannot hold.
//!
//! The same code runs when the registry is loaded and at every start, so that what was refused then is refused now; a rule
//! that this version cannot enforce is handed out apart, since the two answer it differently. It does not know the system
//! directories or the toolchains; putting the whole view together is `view`'s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codespace_domain::{ErrorCode, Profile, RunnerError, Stage};

use crate::facts::{EACCES, ENOENT, ENOTDIR, errno_text};
use crate::paths::{Escape, Walk, walk, walk_within};
use crate::registry::Unenforceable;
use crate::{Disk, Errno, Filesystem, Kind, RegistryError};

/// What a rule asks for. The stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    Write,
    Read,
    Deny,
}

/// A rule whose path exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathRule {
    pub(crate) wanted: Wanted,
    /// Absolute, as the operator wrote it.
    pub(crate) written: PathBuf,
    /// Absolute, without links.
    pub(crate) resolved: PathBuf,
    pub(crate) kind: Kind,
}

/// The rules of a workspace, held against the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Those whose paths exist, in the order of `write`, `read`, `deny`.
    pub(crate) there: Vec<PathRule>,
    /// Those that do not hold by themselves, and that this version cannot make hold.
    pub(crate) unenforceable: Vec<Unenforceable>,
}

/// A rule that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleRefusal {
    /// For instance `filesystem.deny[0]`.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Escapes,
    Unreadable(Errno),
    /// `/proc` and `/dev` are the view's own.
    Own,
    DeniesRoot,
    /// A socket, a device or a pipe: showing it is more than showing a file.
    Special,
    Tilde,
    Empty,
}

/// Looks at the path of each rule. `root` has no links in it.
pub(crate) fn resolve_rules(
    filesystem: &Filesystem,
    profile: Profile,
    root: &Path,
    disk: &dyn Disk,
) -> Result<Rules, RuleRefusal> {
    let lists = [
        (Wanted::Write, "write", &filesystem.write),
        (Wanted::Read, "read", &filesystem.read),
        (Wanted::Deny, "deny", &filesystem.deny),
    ];
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for (wanted, list, paths) in lists {
        for (index, path) in paths.iter().enumerate() {
            let key = || format!("filesystem.{list}[{index}]");
            match resolve_rule(wanted, path, root, disk) {
                Ok(Ok(rule)) => there.push(rule),
                // A command can make what is missing within something writable.
                Ok(Err(resolved)) => missing.push((resolved, wanted, Unenforceable::missing(key(), path))),
                Err(why) => return Err(RuleRefusal { key: key(), path: path.clone(), why }),
            }
        }
    }
    let decided = strictest(profile, root, &there);
    let could_be_made = |resolved: &Path| {
        let nearest = resolved.ancestors().find_map(|path| decided.get(path));
        nearest == Some(&Wanted::Write)
    };
    let unenforceable = missing.into_iter().filter(|(at, wanted, _)| *wanted != Wanted::Write && could_be_made(at));
    let unenforceable = unenforceable.map(|(.., rule)| rule).collect();
    Ok(Rules { there, unenforceable })
}

/// Whether the paths of `filesystem.protect` are such that a rule could hold for them.
pub(crate) fn check_protected(paths: &[PathBuf], root: &Path, disk: &dyn Disk) -> Result<(), RuleRefusal> {
    check_each("filesystem.protect", paths, |path| match locate(path, root, disk)? {
        walked if is_the_views_own(&walked.path) => Err(Why::Own),
        _ => Ok(()),
    })
}

/// Whether the paths of `unix_sockets` are paths. A socket comes and goes with its server, so it need not be there.
pub(crate) fn check_sockets(paths: &[PathBuf], root: &Path, disk: &dyn Disk) -> Result<(), RuleRefusal> {
    check_each("unix_sockets", paths, |path| locate(path, root, disk).map(drop))
}

fn check_each(list: &str, paths: &[PathBuf], check: impl Fn(&Path) -> Result<(), Why>) -> Result<(), RuleRefusal> {
    paths.iter().enumerate().try_for_each(|(index, path)| {
        check(path).map_err(|why| RuleRefusal { key: format!("{list}[{index}]"), path: path.clone(), why })
    })
}

/// The root and the rules by resolved path; where several name one path, the strictest.
pub(crate) fn strictest(profile: Profile, root: &Path, rules: &[PathRule]) -> BTreeMap<PathBuf, Wanted> {
    let of_root = match profile {
        Profile::ReadOnly => Wanted::Read,
        Profile::WorkspaceWrite => Wanted::Write,
    };
    let mut decided = BTreeMap::from([(root.to_owned(), of_root)]);
    for rule in rules {
        decided.entry(rule.resolved.clone()).and_modify(|w| *w = rule.wanted.max(*w)).or_insert(rule.wanted);
    }
    decided
}

/// One rule; within, an error is where the path that does not exist would be.
fn resolve_rule(wanted: Wanted, path: &Path, root: &Path, disk: &dyn Disk) -> Result<Result<PathRule, PathBuf>, Why> {
    let walked = locate(path, root, disk)?;
    if is_the_views_own(&walked.path) {
        return Err(Why::Own);
    }
    if wanted == Wanted::Deny && walked.path == root {
        return Err(Why::DeniesRoot);
    }
    match walked.end {
        Ok(Kind::Other) if wanted != Wanted::Deny => Err(Why::Special),
        Ok(kind) => Ok(Ok(PathRule { wanted, written: root.join(path), resolved: walked.path, kind })),
        Err(ENOENT | ENOTDIR) => Ok(Err(walked.path)),
        // The command has the Runner's uid: what the Runner may not look at is out of its reach as well.
        Err(EACCES) if wanted == Wanted::Deny => Ok(Err(walked.path)),
        Err(errno) => Err(Why::Unreadable(errno)),
    }
}

/// Where a path of the registry leads.
fn locate(path: &Path, root: &Path, disk: &dyn Disk) -> Result<Walk, Why> {
    if path.as_os_str().is_empty() {
        return Err(Why::Empty);
    }
    if path.starts_with("~") {
        return Err(Why::Tilde);
    }
    match path.is_absolute() {
        true => Ok(walk(disk, path)),
        false => walk_within(disk, root, path).map_err(|Escape| Why::Escapes),
    }
}

fn is_the_views_own(path: &Path) -> bool {
    let below_shm = path.starts_with("/dev/shm") && path != Path::new("/dev/shm");
    (path.starts_with("/proc") || path.starts_with("/dev")) && !below_shm
}

impl RuleRefusal {
    /// As an error of the registry's load.
    pub(crate) fn at_load(&self, workspace: &str) -> RegistryError {
        let error = RegistryError::at(format!("workspaces.{workspace}.{}", self.key), self.message());
        match self.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// As an error of a start: the disk has changed since the load.
    pub(crate) fn at_start(&self) -> RunnerError {
        let message = format!("hold the rule {}: {}", self.key, self.message());
        let error = match self.why {
            Why::Escapes => RunnerError::new(ErrorCode::PathEscape, message),
            Why::Unreadable(errno) => RunnerError::spawn_failed(Stage::Prepare, Some(errno), message),
            Why::Own | Why::DeniesRoot | Why::Special | Why::Tilde | Why::Empty => {
                RunnerError::spawn_failed(Stage::Prepare, None, message)
            }
        };
        match self.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn message(&self) -> String {
        let path = self.path.display();
        match self.why {
            Why::Escapes => format!("{path} leads out of the workspace"),
            Why::Unreadable(errno) => format!("{path} cannot be looked at: {}", errno_text(errno)),
            Why::Own => format!("{path} is the sandbox's own, which no rule can change"),
            Why::DeniesRoot => format!("{path} is the workspace itself"),
            Why::Special => format!("{path} is neither a file nor a directory"),
            Why::Tilde => format!("{path} is no path: no shell reads this file"),
            Why::Empty => "an empty path".to_owned(),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self.why {
            Why::Escapes => Some("give the absolute path to name something outside of the workspace"),
            Why::Tilde => Some("give the absolute path"),
            Why::Empty => Some("\".\" is the workspace's root"),
            Why::Unreadable(_) | Why::Own | Why::DeniesRoot | Why::Special => None,
        }
    }
}
