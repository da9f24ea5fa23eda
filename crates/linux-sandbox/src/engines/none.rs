//! No sandbox, asked for by name: the host's file system, network and privileges. The command still gets a PID namespace
//! with a `/proc` of its own, for the sake of its end alone: the inner stage is that namespace's first process.
//!
//! For root the namespace needs no user namespace, so that root stays root inside. For anybody else it does, and inside
//! it set-user-ID programs (sudo) do not work.

use super::Prepared;
use super::exec::{self, Exec, Program, own_program};
use codespace_linux_sandbox_protocol::StageFailure;

pub(super) fn prepare() -> Result<Prepared, StageFailure> {
    let mut namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    if !nix::unistd::geteuid().is_root() {
        namespaces |= libc::CLONE_NEWUSER;
    }
    Ok(Prepared {
        exec: Exec {
            before: Some(Box::new(exec::own_proc)),
            program: Program::Open(own_program()?),
            argv: vec![c"codespace-linux-sandbox".into(), c"inner".into()],
            keep: Vec::new(),
            stderr: None,
        },
        namespaces,
        said: None,
    })
}
