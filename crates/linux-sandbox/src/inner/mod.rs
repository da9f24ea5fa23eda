//! The inner stage: the first process inside the sandbox, and the parent of the command.
//!
//! It starts the command, reaps whatever loses its parent, passes signals on, and tells the Runner of the start, of the
//! command's own end and of the end of everything. As the first process of its PID namespace it cannot be stopped or
//! killed from inside; when it ends, the kernel ends whatever is left.
//!
//! Before it reads the plan it makes itself undumpable: from inside, its memory, its environment and its descriptors
//! cannot be opened through `/proc`, so the command can neither read the plan nor forge its own end. All its descriptors
//! are close-on-exec.

mod command;
mod leftovers;
mod limits;
mod seccomp;
mod supervise;

pub(crate) use supervise::Scope;

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use codespace_linux_sandbox_protocol::{CommandSpec, Engine, FromSandbox, PLAN_FD, Stage, StageFailure, ToSandbox};

use crate::control::{Control, Received};
use crate::sys;

/// Exit code 0: everything below has ended. 125: the command did not start. 124: the Runner is gone.
pub(crate) fn main() -> ExitCode {
    // Nothing else runs in this namespace yet, so there is no one who could have looked before this.
    let hidden = nix::sys::prctl::set_dumpable(false);
    let closed = sys::close_from(PLAN_FD + 1);
    // SAFETY: this is the first thing that this process image does with the descriptor.
    let Ok(control) = (unsafe { Control::inherited() }) else { return ExitCode::from(125) };
    let spec = hidden
        .map_err(|e| failure("hide itself from the command", e.into()))
        .and_then(|()| closed.map_err(|e| failure("close what it was not given", e)))
        .and_then(|()| prepare());
    match spec {
        Ok((spec, sandboxed)) => run_command(&control, &spec, sandboxed, &Scope::Namespace),
        Err(failure) => {
            control.fail(failure);
            ExitCode::from(125)
        }
    }
}

/// From the question for the command's descriptors to the end of everything that it started. `scope`: what this process
/// has to watch over.
pub(crate) fn run_command(control: &Control, spec: &CommandSpec, sandboxed: bool, scope: &Scope<'_>) -> ExitCode {
    let Some(stdio) = ask_for_stdio(control) else { return ExitCode::from(124) };
    let child = match command::start(spec, sandboxed, scope, control, stdio) {
        Ok(child) => child,
        Err(failure) => {
            control.fail(failure);
            return ExitCode::from(125);
        }
    };
    control.send(&FromSandbox::Started);
    supervise::until_everything_is_gone(control, child, scope)
}

fn prepare() -> Result<(CommandSpec, bool), StageFailure> {
    // SAFETY: this is the first thing that this process image does with the descriptor.
    let (plan, _) = unsafe { crate::plan::inherited() }.map_err(|e| StageFailure {
        stage: Stage::Sandbox,
        errno: None,
        message: e.to_string(),
    })?;
    if std::process::id() != 1 {
        let message = "be the first process of its PID namespace: the engine put another one in front".to_owned();
        return Err(StageFailure { stage: Stage::Sandbox, errno: None, message });
    }
    let sandboxed = match plan.engine {
        Engine::Bubblewrap { .. } => true,
        Engine::None { .. } => false,
    };
    if sandboxed {
        nix::sys::prctl::set_no_new_privs().map_err(|e| failure("set no_new_privs", e.into()))?;
        // The engine dropped them; a sandbox in which that went wrong must not run anything.
        match sys::effective_capabilities().map_err(|e| failure("read its capabilities", e))? {
            0 => {}
            left => {
                let message = format!("drop all capabilities: {left:#x} are left");
                return Err(StageFailure { stage: Stage::Sandbox, errno: None, message });
            }
        }
    }
    Ok((plan.command, sandboxed))
}

/// The sandbox stands. The Runner answers only while no end was asked for, so a command that is ended before this never
/// starts. `None`: the Runner is gone, or has let go.
fn ask_for_stdio(control: &Control) -> Option<[OwnedFd; 3]> {
    control.send(&FromSandbox::Ready);
    match control.receive() {
        Ok(Received::Message(ToSandbox::Start, fds)) => fds.try_into().ok(),
        Ok(Received::Message(_, _) | Received::End) | Err(_) => None,
    }
}

fn failure(what: &str, error: std::io::Error) -> StageFailure {
    StageFailure { stage: Stage::Sandbox, errno: error.raw_os_error(), message: format!("{what}: {error}") }
}
