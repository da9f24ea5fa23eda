//! What the helper is given for an admitted request: every rule and path held against the disk as it is now, or a refusal
//! that says why.
//!
//! Asks the disk and so may block; [`crate::admit()`] comes first, with all that can be told without. Creates nothing.

use std::path::{Path, PathBuf};

use codespace_domain::{ExecRequest, RunnerError, Stage};
use codespace_linux_sandbox_protocol::{CommandSpec, Engine, Network, PLAN_PROTOCOL, Plan, View};

use crate::admit::{Admitted, engine};
use crate::facts::{ENOTDIR, errno_text};
use crate::paths::walk;
use crate::rules::resolve_rules;
use crate::toolchains::Toolchain;
use crate::view::ViewMap;
use crate::{Disk, Home, HostFacts, Kind, NetworkPolicy, Registry, Workspace, cwd, environment, limits, toolchains};

/// Makes the plan of a start. `registry`, `request` and `host` are those that `admitted` comes from.
///
/// Errors: `PATH_ESCAPE` (`cwd`, or a rule that leads out by now), `SANDBOX_UNAVAILABLE` (a rule for a path that is gone
/// and that a command could make), `PROCESS_SPAWN_FAILED` at the stages `prepare` (the workspace or a rule of it) and
/// `cwd`; and those of [`crate::admit()`] when the registry or the facts are others than there.
pub fn plan(
    registry: &Registry,
    admitted: &Admitted,
    request: &ExecRequest,
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<Plan, RunnerError> {
    let workspace = registry.find(&admitted.workspace_id)?;
    let (engine, _) = engine(workspace, host)?;
    let root = root(workspace, disk)?;
    let toolchains = match workspace.filesystem.home {
        Home::Toolchains => toolchains::find(host, disk),
        Home::None => Vec::new(),
    };
    let view = match engine {
        Engine::None { .. } => None,
        Engine::Bubblewrap { .. } => Some(view(admitted, workspace, &root, &toolchains, host, disk)?),
    };
    let cwd = cwd::resolve(request.cwd.as_ref(), &root, view.as_ref(), disk)?;
    let seen = view.as_ref().map(|view| (view, toolchains.as_slice()));
    let env = environment::build(workspace, request, &root, host, seen, disk);
    let rlimits = limits::of_a_process(admitted.limits);
    let command = CommandSpec { argv: request.command.clone(), env, cwd: cwd.into(), tty: admitted.tty, rlimits };
    Ok(Plan {
        protocol: PLAN_PROTOCOL,
        network: network(workspace, &engine),
        engine,
        view: view.map_or(View { rules: Vec::new() }, ViewMap::into_view),
        command,
    })
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

fn view(
    admitted: &Admitted,
    workspace: &Workspace,
    root: &Path,
    toolchains: &[Toolchain],
    host: &HostFacts,
    disk: &dyn Disk,
) -> Result<ViewMap, RunnerError> {
    let rules = resolve_rules(&workspace.filesystem, workspace.profile, root, disk).map_err(|r| r.at_start())?;
    if let Some(rule) = rules.unenforceable.first() {
        return Err(rule.at_start(&admitted.workspace_id));
    }
    ViewMap::build(workspace, root, &rules.there, toolchains, &host.forbidden, disk)
}

fn network(workspace: &Workspace, engine: &Engine) -> Network {
    match (engine, &workspace.network) {
        (Engine::None { .. }, _) | (_, NetworkPolicy::Host) => Network::Host,
        // A proxy, once there is one, lies outside of the isolated namespace too.
        (_, NetworkPolicy::Restricted | NetworkPolicy::Enabled | NetworkPolicy::List(_)) => Network::Isolated,
    }
}

#[cfg(test)]
mod tests;
