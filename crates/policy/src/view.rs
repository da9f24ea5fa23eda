//! What a sandboxed command sees of the file system, as rules by path.
//!
//! Layers, each over the one before: the system's directories, the toolchains of the home directory, the registry's rules
//! with the workspace itself, and last the Runner's own paths, which nothing can show again. Knows nothing of mounts; who
//! builds the view applies the rules in their order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codespace_domain::{ByteString, RunnerError, Stage};
use codespace_linux_sandbox_protocol::{Access, Rule, View};

use crate::paths::walk;
use crate::rules::{PathRule, Wanted, strictest};
use crate::toolchains::Toolchain;
use crate::{Disk, Kind, NetworkPolicy, Workspace};

/// Shown read-only where they exist.
pub(crate) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"];

/// Rules by path. A path is decided by the nearest rule at or above it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ViewMap {
    rules: BTreeMap<PathBuf, Access>,
}

impl ViewMap {
    /// The view of a command in `workspace`, whose resolved root is `root` and whose rules are `rules`. Refused when a
    /// file has a name more than the rule that denies it, and when the workspace is the Runner's own.
    pub(crate) fn build(
        workspace: &Workspace,
        root: &Path,
        rules: &[PathRule],
        toolchains: &[Toolchain],
        forbidden: &[PathBuf],
        disk: &dyn Disk,
    ) -> Result<Self, RunnerError> {
        refuse_hard_links(rules)?;
        let mut map = Self::default();
        map.add_system(workspace.network == NetworkPolicy::Host, disk);
        map.add_toolchains(toolchains);
        map.add_registry(strictest(workspace.profile, root, rules));
        map.hide(forbidden, root, disk)?;
        let written = rules.iter().filter(|r| r.wanted != Wanted::Deny).map(|r| (&r.written, &r.resolved));
        let of_home = toolchains.iter().map(|t| (&t.written, &t.resolved));
        map.add_links(written.chain(of_home).chain([(&workspace.root, &root.to_owned())]));
        map.prune();
        map.pin();
        Ok(map)
    }

    /// How the resolved `path` is seen; `None` when it is not there.
    pub(crate) fn access(&self, path: &Path) -> Option<&Access> {
        path.ancestors().find_map(|at| self.rules.get(at))
    }

    /// Whether the host's `path`, resolved, is there.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        matches!(self.access(path), Some(Access::Read | Access::ReadPublic | Access::Write))
    }

    /// Whether something is found at `path` as written, be it through a link of the view.
    pub(crate) fn leads_to(&self, path: &Path) -> bool {
        self.access(path).is_some_and(|access| *access != Access::Deny)
    }

    /// The rules, those with fewer components first.
    pub(crate) fn into_view(self) -> View {
        let mut rules: Vec<_> = self.rules.into_iter().collect();
        rules.sort_by_key(|(path, _)| path.components().count());
        View { rules: rules.into_iter().map(|(path, access)| Rule { path: path.into(), access }).collect() }
    }

    fn add_system(&mut self, hosts_network: bool, disk: &dyn Disk) {
        for dir in SYSTEM {
            if let Ok(Kind::Link { target }) = disk.kind(Path::new(dir)) {
                self.set(dir, Access::Symlink { target: target.into() });
                continue;
            }
            let found = walk(disk, Path::new(dir));
            if found.end != Ok(Kind::Dir) {
                continue;
            }
            if found.linked {
                // A link above it (/nix, say): the path of a rule has none.
                self.set(dir, Access::Symlink { target: found.path.clone().into() });
            }
            self.rules.insert(found.path, Access::Read);
        }
        if disk.kind(Path::new("/etc")) == Ok(Kind::Dir) {
            self.set("/etc", Access::ReadPublic);
        }
        // With the host's network its name servers are needed, and that file is often a link into /run.
        let resolver = walk(disk, Path::new("/etc/resolv.conf"));
        if hosts_network && resolver.linked && matches!(resolver.end, Ok(Kind::File { .. })) {
            self.rules.insert(resolver.path, Access::Read);
        }
    }

    fn add_toolchains(&mut self, toolchains: &[Toolchain]) {
        for toolchain in toolchains {
            if toolchain.of_home {
                self.rules.insert(toolchain.resolved.clone(), Access::Read);
            }
            for secret in &toolchain.credentials {
                self.rules.insert(secret.clone(), Access::Deny);
            }
        }
    }

    fn add_registry(&mut self, decided: BTreeMap<PathBuf, Wanted>) {
        for (path, wanted) in decided {
            let access = match wanted {
                // Naming /etc once more does not show its secret files.
                Wanted::Read if self.rules.get(&path) == Some(&Access::ReadPublic) => continue,
                Wanted::Read => Access::Read,
                Wanted::Write => Access::Write,
                Wanted::Deny => Access::Deny,
            };
            self.rules.insert(path, access);
        }
    }

    /// The Runner's own paths: denied, and whatever a rule shows at or below them is hidden again.
    fn hide(&mut self, forbidden: &[PathBuf], root: &Path, disk: &dyn Disk) -> Result<(), RunnerError> {
        for path in forbidden {
            let walked = walk(disk, path);
            if walked.end.is_err() {
                continue;
            }
            if root.starts_with(&walked.path) {
                let message = format!("use {} as a workspace: it is the Runner's own", root.display());
                return Err(RunnerError::spawn_failed(Stage::Prepare, None, message));
            }
            self.rules.retain(|rule, _| !rule.starts_with(&walked.path));
            self.rules.insert(walked.path, Access::Deny);
        }
        Ok(())
    }

    /// A folder between a writable one and what a rule keeps from being written becomes a rule of its own, thus a mount
    /// point, which cannot be renamed: else `mv a b; mkdir -p a/secret` would move what is denied to where no rule is.
    fn pin(&mut self) {
        let kept: Vec<PathBuf> =
            self.rules.iter().filter(|(_, access)| **access != Access::Write).map(|(path, _)| path.clone()).collect();
        for path in kept {
            for above in path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty()) {
                if self.rules.contains_key(above) || self.access(above) != Some(&Access::Write) {
                    break;
                }
                self.rules.insert(above.to_owned(), Access::Write);
            }
        }
    }

    /// What was named through a link is found by that name as well.
    fn add_links<'a>(&mut self, names: impl Iterator<Item = (&'a PathBuf, &'a PathBuf)>) {
        let clean = |path: &Path| path.components().collect::<PathBuf>();
        let mut names: Vec<_> = names.map(|(written, resolved)| (clean(written), resolved)).collect();
        // The shorter first: a link covers the names below it.
        names.sort_by_key(|(written, _)| written.components().count());
        for (written, resolved) in names {
            let climbs = written.components().any(|c| c == std::path::Component::ParentDir);
            if written != *resolved && !climbs && self.access(&written).is_none() && self.shows(resolved) {
                self.rules.insert(written, Access::Symlink { target: resolved.clone().into() });
            }
        }
    }

    /// Drops what says nothing new: each rule costs a mount.
    fn prune(&mut self) {
        let mut kept = Self::default();
        // Ordered by components, so that a parent comes before what is below it.
        for (path, access) in std::mem::take(&mut self.rules) {
            let above = kept.access(&path);
            let shown = matches!(above, Some(Access::Read | Access::ReadPublic | Access::Write));
            let needed = match access {
                Access::Deny => shown,
                Access::Symlink { .. } => above.is_none(),
                Access::Read | Access::ReadPublic | Access::Write => above != Some(&access),
            };
            if needed {
                kept.rules.insert(path, access);
            }
        }
        *self = kept;
    }

    fn set(&mut self, path: &str, access: Access) {
        self.rules.insert(path.into(), access);
    }
}

/// Another name of a denied file would still show it.
fn refuse_hard_links(rules: &[PathRule]) -> Result<(), RunnerError> {
    let denied = rules.iter().filter(|rule| rule.wanted == Wanted::Deny);
    for rule in denied {
        if let Kind::File { links } = rule.kind
            && links > 1
        {
            let path = ByteString::from(rule.resolved.as_path());
            let message = format!("deny {}: the file has {links} names", path.to_text());
            return Err(RunnerError::spawn_failed(Stage::Prepare, None, message)
                .with_hint("deny the folders of all its names, or give it a single name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
