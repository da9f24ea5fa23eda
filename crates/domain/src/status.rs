//! How a process stands and how it ended. Four facts are kept apart: how the command itself ended, what ended the
//! process, whether its tree was seen gone, and whether its output is at its end.

use serde::{Deserialize, Serialize};

use crate::{ByteString, Lifetime, Limits, ProcessId, ProcessKey, WorkspaceId, signal_name};

/// `exited` is published once: the command is gone, its tree was seen gone (or the time for it ran out) and its output
/// is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the meaning")]
pub enum State {
    Running,
    Exited,
}

/// Where a running process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The command's `execve` has not yet succeeded.
    Starting,
    /// The command runs.
    Running,
    /// An end was accepted, or the command ended and its tree is being ended.
    Ending,
}

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// By the command's own exit code.
    Exited,
    /// By a signal that was none of the ends below.
    Signaled,
    /// By its timeout.
    Timeout,
    /// By an end that was asked for, or by a limit.
    Terminated,
    /// Its helper was lost, and the command's own end was not seen.
    Unknown,
}

/// The first cause that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The command itself, or a signal that somebody else sent it.
    Command,
    /// The process's timeout.
    Timeout,
    /// `terminate_process`.
    Terminate,
    /// `terminate_workspace`.
    Workspace,
    /// The Runner's stop.
    Stop,
    /// The connection that a `connection` lifetime is tied to has closed.
    Connection,
    /// A limit; see `limit`.
    Limit,
    /// Something else killed the helper.
    HelperLost,
}

/// Which limit ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the limit of its name")]
pub enum LimitName {
    Memory,
    Pids,
    Cpu,
    FileSize,
    OpenFiles,
}

/// A signal that ended a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalInfo {
    /// Linux signal number.
    pub number: i32,
    /// Its name without `SIG`, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl From<i32> for SignalInfo {
    fn from(number: i32) -> Self {
        Self { number, name: signal_name(number).map(str::to_owned) }
    }
}

/// What was seen of the tree's end. Never guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeReport {
    /// The Runner has seen that nothing of the tree is left.
    pub confirmed: bool,
    /// Live processes at the moment when the command ended by itself; 0 for an end that was asked for.
    pub leftovers: u64,
    /// From the end's cause to the proof, in milliseconds.
    pub took_ms: u64,
    /// Why it is not confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What the whole tree used, as far as the platform tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// From the acceptance of `exec` to the end.
    pub wall_ms: u64,
    /// Processor time in user mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ms: Option<u64>,
    /// Processor time in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_ms: Option<u64>,
    /// The largest resident set of any one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rss_bytes: Option<u64>,
}

/// Which engine a process runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// No sandbox; asked for by name in the registry.
    None,
    /// bubblewrap.
    Bubblewrap,
    /// The Runner's own engine.
    Native,
}

/// Result of `process_status`, and what `exited` carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessStatus {
    /// The process.
    pub process_id: ProcessId,
    /// The key that its client gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_key: Option<ProcessKey>,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its argv; beyond 16 KiB the last argument says how much is left out.
    pub command: Vec<ByteString>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Running or exited.
    pub state: State,
    /// Only while running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The helper's pid as the host sees it, while it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// When `exec` was accepted, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub started_at: String,
    /// When `exited` was published, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// The command's own, only with `exited` (or with `background: "keep"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The command's own, only with `signaled` (or with `background: "keep"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalInfo>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// What ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// What was seen of the tree's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeReport>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// With `ended_by: "limit"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitName>,
    /// What of the policy could not hold by itself and was found afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_findings: Vec<String>,
    /// Output bytes so far.
    pub output_total: u64,
    /// Where the latest kept bytes begin.
    pub output_retained_from: u64,
    /// No more output can come.
    pub eof: bool,
    /// The timeout in force; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The limits in force; absent when there are none.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// What its life is tied to.
    pub lifetime: Lifetime,
    /// Which engine it runs in.
    pub sandbox: Enforcement,
}
