//! The registry: which directories are workspaces and what a command may do in each, as the operator wrote it.
//!
//! Types and how they come to be. `strict_json` reads the text and refuses keys that are there twice, `check` holds each
//! workspace against the disk, `unenforceable` tells what is right but cannot be had in this version. Nothing here decides
//! about a request, and paths stay as written: they are resolved at every start anew.

mod check;
mod error;
mod network;
mod strict_json;
mod unenforceable;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codespace_domain::{ErrorCode, Limits, Profile, RunnerError, WorkspaceId};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::error::RegistryError;
pub use self::network::{NetworkList, NetworkPolicy};
pub(crate) use self::unenforceable::{Unenforceable, unenforceable_keys};
pub use self::written::registry_schema;
use crate::Disk;

/// The id under which the current directory is registered when there is no registry file.
pub const DEFAULT_WORKSPACE: &str = "default";

/// Every registered workspace, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registry {
    /// By id.
    pub workspaces: BTreeMap<WorkspaceId, Workspace>,
}

/// One directory and what a command may do in it. Paths are as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Absolute path of an existing directory.
    pub root: PathBuf,
    /// Whether a command may write in the workspace.
    #[serde(default = "written::profile")]
    pub profile: Profile,
    /// Who keeps the command in its place.
    #[serde(default)]
    pub sandbox: SandboxChoice,
    /// Whether a command without a sandbox gets a PID namespace, so that it ends whole. Can only be turned off together
    /// with the sandbox.
    #[serde(default = "written::yes")]
    pub pid_namespace: bool,
    /// What a command sees beside the workspace and the system.
    #[serde(default)]
    pub filesystem: Filesystem,
    /// What a command reaches. This version enforces `restricted` and `host`; with another a command does not run.
    #[serde(default)]
    pub network: NetworkPolicy,
    /// Path sockets of the host that a command may connect to. This version enforces none: a command does not run.
    #[serde(default)]
    pub unix_sockets: Vec<PathBuf>,
    /// The command's environment, beside its few standard variables.
    #[serde(default)]
    pub env: EnvPolicy,
    /// Limits of every process; a request can narrow them.
    #[serde(default)]
    pub limits: Limits,
    /// Timeouts, in milliseconds.
    #[serde(default)]
    pub timeout_ms: TimeoutPolicy,
    /// How many processes may live at once.
    #[serde(default = "written::max_processes")]
    #[schemars(range(min = 1))]
    pub max_processes: u64,
    /// Whether one process has the workspace to itself.
    #[serde(default)]
    pub exclusive: bool,
    /// Allows the home directory, its parents and system directories as `root`.
    #[serde(default)]
    pub allow_broad_root: bool,
    /// Whether a command may make sandboxes of its own. This version cannot allow it: a command does not run.
    #[serde(default)]
    pub nested_sandboxes: bool,
}

/// Who keeps a command in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxChoice {
    /// The best engine that works on this host; without one the command does not run.
    #[default]
    Auto,
    /// bubblewrap; without it the command does not run.
    Bubblewrap,
    /// Nobody: the command sees and reaches what the Runner does.
    None,
}

/// Paths that a command sees, and how. Absolute or relative to the workspace; the most specific one decides, on a tie
/// `deny`, then `read`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Shown read-only.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Shown writable.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// Not there.
    #[serde(default)]
    pub deny: Vec<PathBuf>,
    /// Read-only within a writable workspace, also while they do not exist. This version enforces none: a
    /// command does not run.
    #[serde(default)]
    pub protect: Vec<PathBuf>,
    /// What of the Runner's home directory is shown.
    #[serde(default)]
    pub home: Home,
}

/// What of the Runner's home directory is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// Nothing.
    #[default]
    None,
    /// Read-only, the toolchains that PATH and the usual variables point to, without their credential files.
    Toolchains,
}

/// A command's environment, beside its few standard variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvPolicy {
    /// Names that pass from the Runner's own environment.
    #[serde(default)]
    pub inherit: Vec<String>,
    /// Names and values that are set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// Timeouts, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeoutPolicy {
    /// Of a process that names none; absent or 0: none, or `max` where there is one.
    #[serde(default)]
    pub default: Option<u64>,
    /// The longest that a process may name; absent: no bound.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max: Option<u64>,
}

impl Workspace {
    /// A writable workspace at `root` with the registry's defaults everywhere else.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            profile: written::profile(),
            sandbox: SandboxChoice::default(),
            pid_namespace: written::yes(),
            filesystem: Filesystem::default(),
            network: NetworkPolicy::default(),
            unix_sockets: Vec::new(),
            env: EnvPolicy::default(),
            limits: Limits::default(),
            timeout_ms: TimeoutPolicy::default(),
            max_processes: written::max_processes(),
            exclusive: false,
            allow_broad_root: false,
            nested_sandboxes: false,
        }
    }
}

impl Registry {
    /// Reads and checks a registry's text. What this version cannot enforce is no error here, see
    /// [`Registry::unenforceable`].
    pub fn from_json(text: &str, disk: &dyn Disk) -> Result<Self, RegistryError> {
        let registry = Self { workspaces: written::parse(text)? };
        registry.workspaces.iter().try_for_each(|(id, workspace)| check::workspace(id, workspace, disk))?;
        Ok(registry)
    }

    /// A registry of one workspace, checked as if it had been read from a file.
    pub fn single(id: WorkspaceId, workspace: Workspace, disk: &dyn Disk) -> Result<Self, RegistryError> {
        check::workspace(&id, &workspace, disk)?;
        Ok(Self { workspaces: BTreeMap::from([(id, workspace)]) })
    }

    /// What there is without a registry file: `dir` as `default`, writable, its network restricted. The home directory,
    /// its parents and system directories are refused unless `allow_broad_root`.
    pub fn current_directory(dir: &Path, allow_broad_root: bool, disk: &dyn Disk) -> Result<Self, RegistryError> {
        let id =
            DEFAULT_WORKSPACE.to_owned().try_into().map_err(|e| RegistryError::at("workspaces", format!("{e}")))?;
        Self::single(id, Workspace { allow_broad_root, ..Workspace::new(dir) }, disk)
    }

    /// The workspace of this id; `WORKSPACE_NOT_FOUND` names those that there are.
    pub fn find(&self, id: &WorkspaceId) -> Result<&Workspace, RunnerError> {
        self.workspaces.get(id).ok_or_else(|| {
            let known: Vec<_> = self.workspaces.keys().map(WorkspaceId::as_str).collect();
            let hint = match known.is_empty() {
                true => "no workspace is registered".to_owned(),
                false => format!("registered: {}", known.join(", ")),
            };
            RunnerError::new(ErrorCode::WorkspaceNotFound, format!("find the workspace {id}")).with_hint(hint)
        })
    }
}

#[cfg(test)]
mod tests;
