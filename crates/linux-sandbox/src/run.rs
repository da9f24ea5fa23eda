//! The verb `run`: the Runner's direct child for one command (the *root*).
//!
//! 1. Arm the death signal, ask the Runner whether it is still there (`lifeline`): from here on this process cannot
//!    outlive the Runner.
//! 2. Read the plan, and prepare everything that can fail.
//! 3. Create the first process of a new PID namespace (`first_process`) and hand the Runner a pidfd of it. It waits on a
//!    lifeline of its own: from here on nothing below can outlive this process.
//! 4. Answer its question: the engine builds the sandbox below it, and the inner stage runs the command.
//! 5. Wait for its end, and say how it ended if that was not as planned.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use codespace_linux_sandbox_protocol::{
    CommandEnd, CommandSpec, Engine, FromSandbox, Plan, RUNNER_PIDFD, Stage, StageFailure, ToSandbox,
};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::control::{Control, Received};
use crate::engines::{self, Prepared};
use crate::fault::{self, Fault};
use crate::first_process::{self, Created};
use crate::inner::{self, Scope};
use crate::lifeline;
use crate::sys;

/// How much of what the engine said is passed on, in bytes.
const SAID: u64 = 4096;

/// Exit code 0: the tree is gone. 125: it never came to be.
pub(crate) fn main() -> ExitCode {
    // SAFETY: this is the first thing that this process image does with the descriptor.
    let Ok(control) = (unsafe { Control::inherited() }) else { return ExitCode::from(125) };
    // SAFETY: as above.
    let runner = unsafe { sys::inherited(RUNNER_PIDFD) };
    match tie_to_runner(&control, runner.as_fd()) {
        Ok(true) => {}
        // The Runner is gone; so is everybody who could be told.
        Ok(false) => return ExitCode::from(125),
        Err(error) => {
            control.fail(sandbox_failure("tie the helper to the Runner", &error));
            return ExitCode::from(125);
        }
    }
    run(&control, runner.as_fd()).unwrap_or_else(|failure| {
        control.fail(failure);
        ExitCode::from(125)
    })
}

fn run(control: &Control, runner: BorrowedFd<'_>) -> Result<ExitCode, StageFailure> {
    // A workspace that the helper stood in could not be unmounted, or removed, for as long as the command runs.
    std::env::set_current_dir("/").map_err(|e| sandbox_failure("change to /", &e))?;
    // SAFETY: this is the first thing that this process image does with the descriptor.
    let (plan, _plan_fd) = unsafe { crate::plan::inherited() }.map_err(|e| StageFailure {
        stage: Stage::Sandbox,
        errno: None,
        message: e.to_string(),
    })?;
    match &plan.engine {
        Engine::None { pid_namespace: false } => supervise(control, runner, &plan.command),
        Engine::None { pid_namespace: true } | Engine::Bubblewrap { .. } => {
            let (pidfd, said) = start(control, &plan)?;
            wait(control, &pidfd, said);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Without a PID namespace: the helper itself is the inner stage. What detaches itself comes back to it, and when the
/// Runner is gone it ends all of that by hand; so it must not be killed by the Runner's death.
///
/// The one gap, documented: helper and Runner killed in the same moment.
fn supervise(control: &Control, runner: BorrowedFd<'_>, command: &CommandSpec) -> Result<ExitCode, StageFailure> {
    // The command has this process's uid: it must not be able to trace it, read the plan or forge its own end.
    nix::sys::prctl::set_dumpable(false).map_err(|e| sandbox_failure("hide from the command", &e.into()))?;
    sys::become_subreaper().map_err(|e| sandbox_failure("become a subreaper", &e))?;
    lifeline::wake_at_death().map_err(|e| sandbox_failure("outlive the Runner for a moment", &e))?;
    control.send(&FromSandbox::Supervised);
    Ok(inner::run_command(control, command, false, &Scope::Descendants { runner }))
}

fn tie_to_runner(control: &Control, runner: BorrowedFd<'_>) -> io::Result<bool> {
    lifeline::arm()?;
    sys::set_cloexec(runner, true)?;
    if fault::on(Fault::NoLifeline) {
        return Ok(true);
    }
    control.send(&FromSandbox::Armed);
    if !lifeline::wait_for_answer(control.as_fd(), runner)? {
        return Ok(false);
    }
    match control.receive()? {
        Received::Message(ToSandbox::Go, _) => Ok(true),
        Received::Message(other, _) => {
            Err(io::Error::other(format!("{other:?} is no answer to the helper's question")))
        }
        Received::End => Ok(false),
    }
}

fn start(control: &Control, plan: &Plan) -> Result<(OwnedFd, Option<OwnedFd>), StageFailure> {
    let Prepared { exec, namespaces, said } = engines::prepare(plan)?;
    let told = |first: &OwnedFd| control.send_with(&FromSandbox::FirstProcess, Some(first.as_fd()));
    // The first process's own copy of the socket: the helper only sees that it has ended.
    let become_engine = || control.fail(exec.run());
    match first_process::create(namespaces, told, become_engine) {
        Ok(Created::Waiting(pidfd)) => Ok((pidfd, said)),
        Ok(Created::Left(pidfd)) => {
            // It said why over its own copy of the control socket, or was killed; `wait` tells how it ended.
            Ok((pidfd, said))
        }
        Err(error) => Err(StageFailure {
            stage: Stage::Sandbox,
            errno: error.raw_os_error(),
            message: format!(
                "create the first process of a new PID namespace: {error} (are user namespaces switched off, or is this \
                 a container that forbids them?)"
            ),
        }),
    }
}

/// Waits for the first process, thus for everything below it.
fn wait(control: &Control, pidfd: &OwnedFd, said: Option<OwnedFd>) {
    let status = loop {
        match waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::__WALL) {
            Err(nix::Error::EINTR) => {}
            other => break other,
        }
    };
    let end = match status {
        Ok(WaitStatus::Exited(_, 0)) => return,
        Ok(WaitStatus::Exited(_, code)) => CommandEnd::Code(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => CommandEnd::Signal(signal as i32),
        // Nothing else is asked for; a wait that fails has no child to tell about.
        Ok(_) | Err(_) => return,
    };
    let said = said.and_then(|fd| tail(fd).ok()).unwrap_or_default();
    control.send(&FromSandbox::EngineEnded { end, said });
}

fn tail(fd: OwnedFd) -> io::Result<String> {
    let mut file = std::fs::File::from(fd);
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(SAID)))?;
    let mut bytes = Vec::new();
    file.take(SAID).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn sandbox_failure(what: &str, error: &io::Error) -> StageFailure {
    StageFailure { stage: Stage::Sandbox, errno: error.raw_os_error(), message: format!("{what}: {error}") }
}
