//! What a policy lets a command see and reach, and which rule decides: for a whole workspace, for one path, for one host.
//!
//! Enforces nothing and decides nothing of its own: an access is read from the plan that [`crate::plan()`] makes for a
//! start, and what is added is where it comes from and what it won against. So an explanation cannot say anything else
//! than what holds. Where a start is refused, the view is that of the policy without what this version cannot enforce, and
//! the refusal is told with it. Holds no environment value, only names.
//!
//! - `accesses`: the plan's view as a map, and the same as a disk, so that links are followed as the command would.
//! - `sources`: who names which path, before any of them has won.
//! - `paths`, `hosts`: the answers for one path and for one host.

mod accesses;
mod hosts;
mod paths;
mod sources;

use std::path::{Path, PathBuf};

use codespace_domain::{ByteString, ExecRequest, Limits, Profile, RunnerError, WorkspaceId};
use codespace_linux_sandbox_protocol::{Engine, Plan};
use serde::Serialize;

pub use self::hosts::{HostExplained, Reach};
pub use self::paths::{Beaten, PathExplained, Why};
pub use self::sources::{RuleExplained, RuleSource, Shown};
use crate::paths::walk;
use crate::toolchains::{self, Toolchain};
use crate::{Disk, Home, HostFacts, NetworkPolicy, Registry, SandboxChoice, Workspace, admit, limits, plan};
use accesses::Accesses;
use sources::Sources;

/// What a command of a workspace sees and reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Its directory, as written.
    pub root: ByteString,
    /// Whether a command may write in it.
    pub profile: Profile,
    /// Whether a sandbox is asked for. Without one a command sees and reaches what the Runner does.
    pub sandboxed: bool,
    /// What a start is answered with now; absent when it is not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RunnerError>,
    /// The keys that this version cannot enforce, each with its reason. Any of them refuses a start.
    pub unenforceable: Vec<String>,
    /// The view, in the order in which it is built: a later rule lies on top of an earlier one.
    pub rules: Vec<RuleExplained>,
    /// What it reaches.
    pub network: Reach,
    /// The names in its environment.
    pub env: Vec<VariableExplained>,
    /// The limits of every process.
    pub limits: Limits,
    /// The timeout of a process that names none, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The longest that a process may name, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_timeout_ms: Option<u64>,
    /// How many processes may live at once.
    pub max_processes: u64,
    /// Whether one process has the workspace to itself.
    pub exclusive: bool,
}

/// A name in the environment. Never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariableExplained {
    /// The name.
    pub name: ByteString,
    /// Where its value comes from.
    pub from: VariableSource,
}

/// Where a variable comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableSource {
    /// One of the few that every command has.
    Default,
    /// A toolchain that is shown.
    Toolchain,
    /// `env.inherit`: from the Runner's own environment.
    Inherit,
    /// `env.set`.
    Set,
}

/// Explains a whole workspace.
///
/// # Errors
/// `WORKSPACE_NOT_FOUND`. A refused start is no error here, see [`Explanation::refused`].
pub fn explain(
    registry: &Registry,
    id: &WorkspaceId,
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<Explanation, RunnerError> {
    let explained = Explained::new(registry, id, host, disk)?;
    let workspace = explained.workspace;
    let (rules, env) = match &explained.plan {
        Ok(plan) => (explained.rules(plan), explained.env(plan)),
        Err(_) => (Vec::new(), Vec::new()),
    };
    let unenforceable = registry.unenforceable(disk);
    Ok(Explanation {
        workspace_id: id.clone(),
        root: workspace.root.clone().into(),
        profile: workspace.profile,
        sandboxed: explained.sandboxed(),
        refused: explained.refused.clone(),
        unenforceable: unenforceable.into_iter().filter(|(of, _)| of == id).map(|(_, what)| what).collect(),
        rules,
        network: hosts::reach(workspace),
        env,
        limits: workspace.limits,
        timeout_ms: limits::timeout_ms(workspace.timeout_ms, None),
        max_timeout_ms: workspace.timeout_ms.max,
        max_processes: workspace.max_processes,
        exclusive: workspace.exclusive,
    })
}

/// Explains one path, absolute or relative to the workspace, as a command would name it.
///
/// # Errors
/// `WORKSPACE_NOT_FOUND`, and what a start is answered with where there is no view at all: the root is gone, a denied file
/// has several names, the workspace is the Runner's own.
pub fn explain_path(
    registry: &Registry,
    id: &WorkspaceId,
    path: &Path,
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<PathExplained, RunnerError> {
    let explained = Explained::new(registry, id, host, disk)?;
    let plan = explained.plan.as_ref().map_err(RunnerError::clone)?;
    Ok(paths::explain(&explained, plan, path))
}

/// Explains one host, `HOST` or `HOST:PORT`.
///
/// # Errors
/// `WORKSPACE_NOT_FOUND`; `INVALID_COMMAND` for what cannot be a host.
pub fn explain_host(
    registry: &Registry,
    id: &WorkspaceId,
    written: &str,
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<HostExplained, RunnerError> {
    let refused = Explained::new(registry, id, host, disk)?.refused;
    hosts::explain(registry.find(id)?, written, refused)
}

/// A workspace with the plan of a start in it.
struct Explained<'a> {
    workspace: &'a Workspace,
    host: &'a HostFacts,
    disk: &'a dyn Disk,
    root: PathBuf,
    toolchains: Vec<Toolchain>,
    /// Of the policy as far as it can be enforced.
    plan: Result<Plan, RunnerError>,
    /// What a start of the policy as it is would be answered with.
    refused: Option<RunnerError>,
}

impl<'a> Explained<'a> {
    fn new(
        registry: &'a Registry,
        id: &WorkspaceId,
        host: &'a HostFacts,
        disk: &'a dyn Disk,
    ) -> Result<Self, RunnerError> {
        let workspace = registry.find(id)?;
        let root = walk(disk, &workspace.root).path;
        let refused = start(registry, id, host, disk).err();
        let enforceable = Registry { workspaces: [(id.clone(), enforceable(workspace, disk))].into() };
        // With an engine, also on a host that has none: that is told by the refusal.
        let engine = match &host.engine {
            Some(engine @ Engine::Bubblewrap { .. }) => engine.clone(),
            Some(Engine::None { .. }) | None => Engine::Bubblewrap { program: "bwrap".into() },
        };
        let with_engine = HostFacts { engine: Some(engine), network_enforced: true, ..host.clone() };
        let plan = start(&enforceable, id, &with_engine, disk);
        let toolchains = match workspace.filesystem.home {
            Home::Toolchains => toolchains::find(host, disk),
            Home::None => Vec::new(),
        };
        Ok(Self { workspace, host, disk, root, toolchains, plan, refused })
    }

    fn sandboxed(&self) -> bool {
        self.workspace.sandbox != SandboxChoice::None
    }

    fn sources(&self) -> Sources {
        Sources::of(self.workspace, &self.root, &self.toolchains, &self.host.forbidden, self.disk)
    }

    fn rules(&self, plan: &Plan) -> Vec<RuleExplained> {
        if !self.sandboxed() {
            return vec![RuleExplained { path: "/".into(), access: Shown::Host, from: RuleSource::NoSandbox }];
        }
        let sources = self.sources();
        let accesses = Accesses::of(&plan.view);
        let own = sources.own().filter(|rule| accesses.nearest(&rule.path).is_none()).map(|rule| rule.explained());
        let of_plan = plan.view.rules.iter().map(|rule| sources.of_rule(rule.path.as_path(), &rule.access));
        own.chain(of_plan).collect()
    }

    /// The same order as that in which they are set: the last one who names it gives the value.
    fn env(&self, plan: &Plan) -> Vec<VariableExplained> {
        let of = |name: &ByteString| {
            let named = |other: &&String| other.as_bytes() == name.as_bytes();
            let inherited = self.host.runner_env.contains_key(name.as_os_str());
            let toolchains = self.toolchains.iter().filter_map(|toolchain| toolchain.variable);
            if self.workspace.env.set.keys().any(|other| named(&other)) {
                VariableSource::Set
            } else if inherited && self.workspace.env.inherit.iter().any(|other| named(&other)) {
                VariableSource::Inherit
            } else if toolchains.map(ByteString::from).any(|variable| variable == *name) {
                VariableSource::Toolchain
            } else {
                VariableSource::Default
            }
        };
        plan.command.env.iter().map(|(name, _)| VariableExplained { name: name.clone(), from: of(name) }).collect()
    }
}

/// What any start in the workspace gets.
fn start(registry: &Registry, id: &WorkspaceId, host: &HostFacts, disk: &dyn Disk) -> Result<Plan, RunnerError> {
    let request = ExecRequest::new(id.clone(), ["true"]);
    let admitted = admit(registry, &request, host)?;
    plan(registry, &admitted, &request, host, disk)
}

/// The workspace without what [`Registry::unenforceable`] tells of.
fn enforceable(workspace: &Workspace, disk: &dyn Disk) -> Workspace {
    let mut workspace = workspace.clone();
    workspace.network = match workspace.network {
        NetworkPolicy::Enabled | NetworkPolicy::List(_) => NetworkPolicy::Restricted,
        enforced @ (NetworkPolicy::Restricted | NetworkPolicy::Host) => enforced,
    };
    workspace.unix_sockets.clear();
    workspace.nested_sandboxes = false;
    (workspace.limits.memory_bytes, workspace.limits.pids) = (None, None);
    let root = workspace.root.clone();
    let filesystem = &mut workspace.filesystem;
    filesystem.protect.clear();
    // A rule for what is not there shows nothing, and so does not change the view.
    for list in [&mut filesystem.read, &mut filesystem.deny] {
        list.retain(|path| walk(disk, &root.join(path)).end.is_ok());
    }
    workspace
}

#[cfg(test)]
mod tests;
