//! Engines: who builds the sandbox below the first process. Each turns the same plan into a program to become, and ends
//! in the same inner stage (`crate::inner`), as the first process of the innermost PID namespace.

mod bubblewrap;
mod etc;
mod exec;
mod none;

use std::ffi::c_int;
use std::os::fd::OwnedFd;

use codespace_linux_sandbox_protocol::{Engine, Plan, StageFailure};

pub(crate) use exec::{Exec, memfd};

/// What the first process needs to know.
pub(crate) struct Prepared {
    /// What it turns into.
    pub(crate) exec: Exec,
    /// Its namespaces.
    pub(crate) namespaces: c_int,
    /// Where the engine's complaints land: it never has the command's stderr.
    pub(crate) said: Option<OwnedFd>,
}

/// Everything that can fail is done here, while there is nothing to take back.
pub(crate) fn prepare(plan: &Plan) -> Result<Prepared, StageFailure> {
    match &plan.engine {
        Engine::Bubblewrap { program } => bubblewrap::prepare(program.as_path(), &plan.view, plan.network),
        Engine::None { .. } => none::prepare(),
    }
}
