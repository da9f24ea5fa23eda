//! Who names which path of a view: the sandbox itself, the system's directories, the toolchains, the registry's keys, the
//! Runner's own paths. All that was said, whether or not it won; what won is the plan's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use codespace_domain::{ByteString, Profile};
use codespace_linux_sandbox_protocol::Access;
use serde::Serialize;

use crate::paths::walk;
use crate::toolchains::Toolchain;
use crate::view::SYSTEM;
use crate::{Disk, Kind, NetworkPolicy, Workspace};

/// What the sandbox has of its own, empty at every start.
const OWN: [&str; 3] = ["/proc", "/dev", "/tmp"];

/// How a path is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The host's, read-only.
    Read,
    /// The host's, read-only, as far as others than its owner and group may read it; the rest is hidden.
    ReadPublic,
    /// The host's, writable.
    Write,
    /// Hidden: an empty, unreadable stand-in.
    Deny,
    /// A symbolic link.
    Symlink,
    /// The sandbox's own, not the host's; gone with the sandbox.
    Private,
    /// No rule shows it, so it is not there.
    Absent,
    /// There is no sandbox: what the Runner's user sees.
    Host,
}

/// One rule of a view and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleExplained {
    /// Absolute, without links.
    pub path: ByteString,
    /// How it is shown.
    pub access: Shown,
    /// Where the rule comes from.
    pub from: RuleSource,
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RuleSource {
    /// The sandbox has one of its own.
    Sandbox,
    /// Shown by default: the system's programs and settings.
    System,
    /// With the host's network: the file of name servers that `/etc/resolv.conf` leads to.
    Resolver,
    /// `filesystem.home`.
    Toolchains {
        /// As the variable or the default place names it.
        written: ByteString,
    },
    /// A credential file of a toolchain.
    Credentials,
    /// The workspace itself: `root` and `profile`.
    Workspace,
    /// A rule of the registry.
    Registry {
        /// Below the workspace, for instance `filesystem.deny[0]`.
        key: String,
        /// The path as the operator wrote it.
        written: ByteString,
    },
    /// Another name of something that is shown: it was written through a link.
    Link {
        /// Where the link leads.
        target: ByteString,
    },
    /// A mount point, so that the way to a protected or hidden path below it cannot be renamed.
    Pin,
    /// The Runner's own path, which nothing can show.
    Runner,
    /// There is no sandbox.
    NoSandbox,
}

/// What somebody says about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) shown: Shown,
    pub(super) from: RuleSource,
    /// Whether there is anything at the path.
    pub(super) there: bool,
}

impl Source {
    pub(super) fn explained(&self) -> RuleExplained {
        RuleExplained { path: self.path.as_path().into(), access: self.shown, from: self.from.clone() }
    }
}

/// All that is said, the layers in the order in which they are put on one another.
pub(super) struct Sources {
    pub(super) all: Vec<Source>,
    /// Where in `all` a path is named; a policy may have thousands of rules.
    by_path: HashMap<PathBuf, Vec<usize>>,
}

impl Sources {
    pub(super) fn of(
        workspace: &Workspace,
        root: &Path,
        toolchains: &[Toolchain],
        forbidden: &[PathBuf],
        disk: &dyn Disk,
    ) -> Self {
        let mut sources = Self { all: Vec::new(), by_path: HashMap::new() };
        OWN.iter().for_each(|path| sources.say(path, Shown::Private, RuleSource::Sandbox));
        for path in SYSTEM {
            let kind = disk.kind(Path::new(path));
            match kind {
                Ok(Kind::Link { .. }) => sources.say(path, Shown::Symlink, RuleSource::System),
                Ok(Kind::Dir) => sources.say(path, Shown::Read, RuleSource::System),
                Ok(Kind::File { .. } | Kind::Other) | Err(_) => continue,
            }
            // Where a folder above it is a link, it may be shown where it lies, and under this name as a link.
            let walked = walk(disk, Path::new(path));
            if kind == Ok(Kind::Dir) && walked.linked {
                sources.say(path, Shown::Symlink, RuleSource::System);
                sources.say(walked.path, Shown::Read, RuleSource::System);
            }
        }
        sources.say("/etc", Shown::ReadPublic, RuleSource::System);
        if workspace.network == NetworkPolicy::Host {
            let resolver = walk(disk, Path::new("/etc/resolv.conf"));
            if resolver.linked && resolver.end.is_ok() {
                sources.say(resolver.path, Shown::Read, RuleSource::Resolver);
            }
        }
        for toolchain in toolchains {
            if toolchain.of_home {
                let written = toolchain.written.as_path().into();
                sources.say(&toolchain.resolved, Shown::Read, RuleSource::Toolchains { written });
            }
            let secrets = toolchain.credentials.iter();
            secrets.for_each(|secret| sources.say(secret, Shown::Deny, RuleSource::Credentials));
        }
        let of_root = match workspace.profile {
            Profile::ReadOnly => Shown::Read,
            Profile::WorkspaceWrite => Shown::Write,
        };
        sources.say(root, of_root, RuleSource::Workspace);
        sources.registry(workspace, root, disk);
        for path in forbidden {
            let walked = walk(disk, path);
            if walked.end.is_ok() {
                sources.say(walked.path, Shown::Deny, RuleSource::Runner);
            }
        }
        sources
    }

    /// The lists in the order of their strictness: `deny` wins a tie, then `read`.
    fn registry(&mut self, workspace: &Workspace, root: &Path, disk: &dyn Disk) {
        let filesystem = &workspace.filesystem;
        let lists = [
            (Shown::Write, "write", &filesystem.write),
            (Shown::Read, "read", &filesystem.read),
            (Shown::Deny, "deny", &filesystem.deny),
        ];
        for (shown, list, paths) in lists {
            for (index, written) in paths.iter().enumerate() {
                let walked = walk(disk, &root.join(written));
                let key = format!("filesystem.{list}[{index}]");
                let from = RuleSource::Registry { key, written: written.as_path().into() };
                self.add(Source { path: walked.path, shown, from, there: walked.end.is_ok() });
            }
        }
    }

    fn say(&mut self, path: impl Into<PathBuf>, shown: Shown, from: RuleSource) {
        self.add(Source { path: path.into(), shown, from, there: true });
    }

    fn add(&mut self, source: Source) {
        self.by_path.entry(source.path.clone()).or_default().push(self.all.len());
        self.all.push(source);
    }

    /// What the sandbox has of its own.
    pub(super) fn own(&self) -> impl Iterator<Item = &Source> {
        self.all.iter().filter(|source| source.from == RuleSource::Sandbox)
    }

    /// A rule of the plan with where it comes from: of those who said just this, the last layer.
    pub(super) fn of_rule(&self, path: &Path, access: &Access) -> RuleExplained {
        let shown = shown(access);
        let of_path = self.by_path.get(path).into_iter().flatten().rev().map(|at| &self.all[*at]);
        let said = of_path.into_iter().find(|source| source.there && source.shown == shown);
        let from = match (said, access) {
            (Some(said), _) => said.from.clone(),
            (None, Access::Symlink { target }) => RuleSource::Link { target: target.clone() },
            // Nobody named it; the view made it a mount point.
            (None, Access::Read | Access::ReadPublic | Access::Write | Access::Deny) => RuleSource::Pin,
        };
        RuleExplained { path: path.into(), access: shown, from }
    }
}

/// The plan's word as the explanation's.
pub(super) fn shown(access: &Access) -> Shown {
    match access {
        Access::Read => Shown::Read,
        Access::ReadPublic => Shown::ReadPublic,
        Access::Write => Shown::Write,
        Access::Deny => Shown::Deny,
        Access::Symlink { .. } => Shown::Symlink,
    }
}

/// The directory of the sandbox's own that `path` lies in.
pub(super) fn is_the_sandboxes_own(path: &Path) -> Option<&'static Path> {
    OWN.iter().map(Path::new).find(|own| path.starts_with(own))
}
