//! What `codespace-linux-sandbox probe` prints: one JSON object on stdout.

use codespace_domain::ByteString;
use serde::{Deserialize, Serialize};

/// What this host can enforce, each thing tried for real.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// [`crate::PLAN_PROTOCOL`].
    pub protocol: u32,
    /// `/bin/true` ran in a sandbox.
    pub works: bool,
    /// A command can be kept off the network.
    pub network_enforced: bool,
    /// Absolute path of the engine's program, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_program: Option<ByteString>,
    /// What the engine calls itself, for instance `bubblewrap 0.8.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// What does not work.
    pub findings: Vec<Finding>,
}

/// One thing that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}
