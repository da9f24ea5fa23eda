//! What is decided about a request before anything is reserved for it: every default applied, or a refusal that says why.
//!
//! Pure, and looks at no disk, which may block for long (NFS): the same registry, request and facts give the same answer
//! at once. What needs the disk is [`crate::plan()`]'s. Creates nothing and reserves nothing.

use codespace_domain::{
    Background, Enforcement, ErrorCode, ExecRequest, Lifetime, Limits, OnFull, RunnerError, StdinMode, WorkspaceId,
};
use codespace_linux_sandbox_protocol::Engine;

use crate::registry::unenforceable_keys;
use crate::{HostFacts, NetworkPolicy, Registry, SandboxChoice, Workspace, command, limits};

const DEFAULT_LINGER_MS: u64 = 250;
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;
/// No process keeps more, whatever it asks for: a flood must not become the Runner's memory.
const MOST_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;
const DEFAULT_ROWS: u16 = 24;
const DEFAULT_COLS: u16 = 80;

/// The terms of a start. Times are milliseconds, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Where it runs.
    pub workspace_id: WorkspaceId,
    /// Which engine keeps it in its place.
    pub enforcement: Enforcement,
    /// Whether a command without a sandbox gets a PID namespace for the sake of its end; always with a sandbox.
    pub pid_namespace: bool,
    /// The timeout in force; `None` when there is none.
    pub timeout_ms: Option<u64>,
    /// The limits in force.
    pub limits: Limits,
    /// SIGTERM first, and so long until the end.
    pub grace_ms: u64,
    /// How long what the command left running may go on.
    pub linger_ms: u64,
    /// How many of the latest output bytes are kept.
    pub output_bytes: u64,
    /// What happens when unread output fills that.
    pub on_full: OnFull,
    /// Whether its standard descriptors are a terminal.
    pub tty: bool,
    /// The terminal's rows; at least 1.
    pub rows: u16,
    /// The terminal's columns; at least 1.
    pub cols: u16,
    /// What stdin is; `Pipe` for a tty, which always has it.
    pub stdin: StdinMode,
    /// What the process's life is tied to.
    pub lifetime: Lifetime,
    /// Whether what the command left running is ended or kept.
    pub background: Background,
    /// How many processes of the workspace may live at once.
    pub max_processes: u64,
    /// Whether the process has the workspace to itself.
    pub exclusive: bool,
}

/// Decides whether one request may start, and on which terms.
///
/// Errors: `WORKSPACE_NOT_FOUND`, `INVALID_COMMAND`, `LIMIT_UNSUPPORTED`, `SANDBOX_UNAVAILABLE` (the engine cannot be
/// had, or the workspace asks for what this version cannot enforce).
pub fn admit(registry: &Registry, request: &ExecRequest, host: &HostFacts) -> Result<Admitted, RunnerError> {
    let workspace = registry.find(&request.workspace_id)?;
    command::check(request)?;
    let limits = limits::effective(workspace.limits, request.limits)?;
    if let Some(key) = unenforceable_keys(workspace).first() {
        return Err(key.at_start(&request.workspace_id));
    }
    let (_, enforcement) = engine(workspace, host)?;
    Ok(Admitted {
        workspace_id: request.workspace_id.clone(),
        enforcement,
        pid_namespace: workspace.pid_namespace,
        timeout_ms: limits::timeout_ms(workspace.timeout_ms, request.timeout_ms),
        limits,
        grace_ms: request.grace_ms,
        linger_ms: request.linger_ms.unwrap_or(DEFAULT_LINGER_MS),
        output_bytes: request.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES).min(MOST_OUTPUT_BYTES),
        on_full: request.on_full,
        tty: request.tty,
        rows: request.rows.unwrap_or(DEFAULT_ROWS),
        cols: request.cols.unwrap_or(DEFAULT_COLS),
        stdin: if request.tty { StdinMode::Pipe } else { request.stdin },
        lifetime: request.lifetime,
        background: request.background,
        max_processes: workspace.max_processes,
        exclusive: workspace.exclusive,
    })
}

/// The engine that the workspace asks for, or why it cannot be had: a command never runs with less than that.
pub(crate) fn engine(workspace: &Workspace, host: &HostFacts) -> Result<(Engine, Enforcement), RunnerError> {
    let unavailable = |what: &str, reasons: &[String]| {
        let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        RunnerError::new(ErrorCode::SandboxUnavailable, format!("{what}{because}"))
            .with_hint("codespace-runner doctor says what to change on this machine")
    };
    match (workspace.sandbox, &host.engine) {
        (SandboxChoice::None, _) => Ok((Engine::None { pid_namespace: workspace.pid_namespace }, Enforcement::None)),
        (SandboxChoice::Auto | SandboxChoice::Bubblewrap, Some(engine @ Engine::Bubblewrap { .. })) => {
            if workspace.network != NetworkPolicy::Host && !host.network_enforced {
                return Err(unavailable("keep the command off the network", &host.reasons));
            }
            Ok((engine.clone(), Enforcement::Bubblewrap))
        }
        (SandboxChoice::Auto | SandboxChoice::Bubblewrap, Some(Engine::None { .. }) | None) => {
            Err(unavailable("set up the sandbox that the workspace asks for", &host.reasons))
        }
    }
}

#[cfg(test)]
mod tests;
