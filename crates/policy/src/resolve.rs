//! One request made into a start: every default applied, every rule resolved, or a refusal that says why.
//!
//! Pure: the same registry, request and facts give the same answer. Creates nothing and reserves nothing.

use std::path::{Path, PathBuf};

use codespace_domain::{
    Background, Enforcement, ErrorCode, ExecRequest, Lifetime, Limits, NetworkMode, OnFull, RunnerError, Stage,
    StdinMode, WorkspaceId,
};
use codespace_linux_sandbox_protocol::{CommandSpec, Engine, Network, PLAN_PROTOCOL, Plan, View};

use crate::facts::{ENOTDIR, errno_text};
use crate::paths::walk;
use crate::view::ViewMap;
use crate::{
    Disk, Home, HostFacts, Kind, Registry, SandboxChoice, Workspace, command, cwd, environment, limits, toolchains,
};

const DEFAULT_LINGER_MS: u64 = 250;
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;
const DEFAULT_ROWS: u16 = 24;
const DEFAULT_COLS: u16 = 80;

/// A start with nothing left open. Times are milliseconds, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Where it runs.
    pub workspace_id: WorkspaceId,
    /// What the helper is given.
    pub plan: Plan,
    /// Which engine that is.
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

/// Decides about one request.
///
/// Errors: `INVALID_COMMAND`, `WORKSPACE_NOT_FOUND`, `SANDBOX_UNAVAILABLE`, `LIMIT_UNSUPPORTED`, `PATH_ESCAPE`, and
/// `PROCESS_SPAWN_FAILED` at the stages `prepare` (the workspace or a rule of it) and `cwd`.
pub fn resolve(
    registry: &Registry,
    request: &ExecRequest,
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<Resolved, RunnerError> {
    let workspace = registry.find(&request.workspace_id)?;
    command::check(request)?;
    let (limits, rlimits) = limits::effective(workspace.limits, request.limits)?;
    let (engine, enforcement) = engine(workspace, host)?;
    let root = root(workspace, disk)?;
    let toolchains = match workspace.filesystem.home {
        Home::Toolchains => toolchains::find(host, disk),
        Home::None => Vec::new(),
    };
    let view = match engine {
        Engine::None => None,
        Engine::Bubblewrap { .. } => Some(ViewMap::build(workspace, &root, &toolchains, &host.forbidden, disk)?),
    };
    let cwd = cwd::resolve(request.cwd.as_ref(), &root, view.as_ref(), disk)?;
    let seen = view.as_ref().map(|view| (view, toolchains.as_slice()));
    let env = environment::build(workspace, request, &root, host, seen, disk);
    let command = CommandSpec { argv: request.command.clone(), env, cwd: cwd.into(), tty: request.tty, rlimits };
    let plan = Plan {
        protocol: PLAN_PROTOCOL,
        network: network(workspace, &engine),
        engine,
        view: view.map_or(View { rules: Vec::new() }, ViewMap::into_view),
        command,
    };
    Ok(Resolved {
        workspace_id: request.workspace_id.clone(),
        plan,
        enforcement,
        pid_namespace: workspace.pid_namespace,
        timeout_ms: limits::timeout_ms(workspace.timeout_ms, request.timeout_ms),
        limits,
        grace_ms: request.grace_ms,
        linger_ms: request.linger_ms.unwrap_or(DEFAULT_LINGER_MS),
        output_bytes: request.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES),
        on_full: request.on_full,
        rows: request.rows.unwrap_or(DEFAULT_ROWS),
        cols: request.cols.unwrap_or(DEFAULT_COLS),
        stdin: if request.tty { StdinMode::Pipe } else { request.stdin },
        lifetime: request.lifetime,
        background: request.background,
        max_processes: workspace.max_processes,
        exclusive: workspace.exclusive,
    })
}

impl Registry {
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

/// The engine that the workspace asks for, or why it cannot be had: a command never runs with less than that.
fn engine(workspace: &Workspace, host: &HostFacts) -> Result<(Engine, Enforcement), RunnerError> {
    let unavailable = |what: &str, reasons: &[String]| {
        let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        RunnerError::new(ErrorCode::SandboxUnavailable, format!("{what}{because}"))
            .with_hint("codespace-runner doctor says what to change on this machine")
    };
    match (workspace.sandbox, &host.engine) {
        (SandboxChoice::None, _) => Ok((Engine::None, Enforcement::None)),
        (SandboxChoice::Auto | SandboxChoice::Bubblewrap, Some(engine @ Engine::Bubblewrap { .. })) => {
            if workspace.network == NetworkMode::Restricted && !host.network_enforced {
                return Err(unavailable("keep the command off the network", &host.reasons));
            }
            Ok((engine.clone(), Enforcement::Bubblewrap))
        }
        (SandboxChoice::Auto | SandboxChoice::Bubblewrap, Some(Engine::None) | None) => {
            Err(unavailable("set up the sandbox that the workspace asks for", &host.reasons))
        }
    }
}

fn network(workspace: &Workspace, engine: &Engine) -> Network {
    match (engine, workspace.network) {
        (Engine::None, _) | (_, NetworkMode::Host) => Network::Host,
        (_, NetworkMode::Restricted) => Network::Isolated,
    }
}

fn root(workspace: &Workspace, disk: &dyn Disk) -> Result<PathBuf, RunnerError> {
    let written: &Path = &workspace.root;
    let walked = walk(disk, written);
    let errno = match walked.end {
        Ok(Kind::Dir) => return Ok(walked.path),
        Ok(_) => ENOTDIR,
        Err(errno) => errno,
    };
    let message = format!("find the workspace's root {}: {}", written.display(), errno_text(errno));
    Err(RunnerError::spawn_failed(Stage::Prepare, Some(errno), message))
}

#[cfg(test)]
mod tests;
