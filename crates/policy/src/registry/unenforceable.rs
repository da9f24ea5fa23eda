//! What a registry may ask for and this version cannot enforce. Such a workspace is loaded, so that the others run, and
//! its commands are refused at their start: none ever runs with less than was asked for.
//!
//! Owns the keys and the words. What is plainly wrong is `check`'s, and an error of the load.

use std::path::Path;

use codespace_domain::{ErrorCode, RunnerError, WorkspaceId};

use super::{NetworkPolicy, Registry, Workspace};
use crate::Disk;
use crate::paths::walk;
use crate::rules::resolve_rules;

/// One key of a workspace that cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unenforceable {
    /// Below the workspace, for instance `filesystem.deny[0]`.
    key: String,
    why: String,
    hint: &'static str,
}

/// Those of the workspace's keys that can be told without the disk. Whatever the workspace's sandbox: a registry that was
/// not checked gets no further here.
pub(crate) fn unenforceable_keys(workspace: &Workspace) -> Vec<Unenforceable> {
    let network = match workspace.network {
        NetworkPolicy::Restricted | NetworkPolicy::Host => None,
        NetworkPolicy::Enabled => Some("this version has no proxy yet"),
        NetworkPolicy::List(_) => Some("this version has no allow-list yet"),
    };
    let network = network.map(|why| Unenforceable::new("network", why, "remove the key, or set it to \"restricted\""));
    let sockets = (!workspace.unix_sockets.is_empty()).then(|| {
        Unenforceable::new("unix_sockets", "this version cannot grant sockets of the host yet", "remove the key")
    });
    let protect = (!workspace.filesystem.protect.is_empty()).then(|| {
        let hint = "remove the key; paths that exist can be named in filesystem.read";
        Unenforceable::new("filesystem.protect", "this version cannot protect paths yet", hint)
    });
    let nested = workspace.nested_sandboxes.then(|| {
        Unenforceable::new("nested_sandboxes", "this version cannot allow nested sandboxes yet", "remove the key")
    });
    let limits = [("limits.memory_bytes", workspace.limits.memory_bytes), ("limits.pids", workspace.limits.pids)];
    let limits = limits
        .into_iter()
        .filter(|(_, limit)| limit.is_some())
        .map(|(key, _)| Unenforceable::new(key, "this version cannot enforce it yet", "remove the key"));
    [network, sockets, protect, nested].into_iter().flatten().chain(limits).collect()
}

impl Unenforceable {
    fn new(key: impl Into<String>, why: impl Into<String>, hint: &'static str) -> Self {
        Self { key: key.into(), why: why.into(), hint }
    }

    /// A rule for a path that a command could make, since it does not exist within something writable.
    pub(crate) fn missing(key: String, path: &Path) -> Self {
        let why = format!(
            "{} does not exist within a writable folder, and this version cannot enforce such a rule yet",
            path.display()
        );
        Self::new(key, why, "create it, or remove the rule")
    }

    /// As the refusal of a start.
    pub(crate) fn at_start(&self, id: &WorkspaceId) -> RunnerError {
        RunnerError::new(ErrorCode::SandboxUnavailable, format!("enforce {}", self.told(id))).with_hint(self.hint)
    }

    fn told(&self, id: &WorkspaceId) -> String {
        format!("workspaces.{id}.{}: {}", self.key, self.why)
    }
}

impl Registry {
    /// Why commands of a workspace will be refused although it was loaded, one entry for each key, for a log. For
    /// instance `workspaces.demo.network: this version has no allow-list yet`. As the disk is now: a rule for a path
    /// that does not exist can be enforced once it does.
    pub fn unenforceable(&self, disk: &dyn Disk) -> Vec<(WorkspaceId, String)> {
        let mut all = Vec::new();
        for (id, workspace) in &self.workspaces {
            let root = walk(disk, &workspace.root).path;
            let mut found = unenforceable_keys(workspace);
            // A rule that has become wrong since the load has an error of its own at the start.
            if let Ok(rules) = resolve_rules(&workspace.filesystem, workspace.profile, &root, disk) {
                found.extend(rules.unenforceable);
            }
            all.extend(found.iter().map(|key| (id.clone(), key.told(id))));
        }
        all
    }
}
