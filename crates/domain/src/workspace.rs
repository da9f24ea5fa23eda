//! Workspaces as a client sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ByteString, Enforcement, Limits, WorkspaceId};

/// What a command may do in its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Profile {
    /// Read the workspace.
    ReadOnly,
    /// Read and write the workspace.
    WorkspaceWrite,
}

/// What a command may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NetworkMode {
    /// A loopback of its own and nothing else.
    #[default]
    Restricted,
    /// Public addresses, through a proxy.
    Enabled,
    /// Names that the operator listed, through a proxy.
    AllowList,
    /// The host's network.
    Host,
}

/// Params of `workspace_info`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkspaceInfoRequest {
    /// One workspace, else all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
}

/// One workspace, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum WorkspaceInfoReply {
    /// The one that was named.
    One(Box<WorkspaceInfo>),
    /// All that are registered.
    All {
        /// By id.
        workspaces: BTreeMap<WorkspaceId, WorkspaceInfo>,
    },
}

/// A registered workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceInfo {
    /// Its directory on the host.
    pub root: ByteString,
    /// What a command may do in it.
    pub profile: Profile,
    /// What is really enforced.
    pub execution: ExecutionInfo,
}

/// What is really enforced for the commands of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionInfo {
    /// The engine in use.
    pub sandbox: Enforcement,
    /// What a command may reach.
    pub network: NetworkMode,
    /// Whether that is enforced.
    pub network_enforced: bool,
    /// Limits of every process.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The timeout of a process that names none; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The longest timeout that a process may name; absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_timeout_ms: Option<u64>,
    /// How many processes may live at once.
    pub max_processes: u64,
    /// Whether one process has the workspace to itself.
    pub exclusive: bool,
}
