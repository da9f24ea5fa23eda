//! The owner of a process on systems other than Linux, where this version runs no command: the start fails, and nothing
//! is left of it.
//!
//! It has the names of `owner.rs`, so that whoever uses them need not know where it is. Creates nothing, and never looks
//! at the disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use codespace_domain::{ErrorCode, RunnerError};
use codespace_policy::{HostFacts, Registry};

use super::{End, Seat, Slot, Table};

const LINUX_ONLY: &str = "commands run on Linux only in this version";

/// What starts are decided from.
pub(crate) struct Launcher {
    pub(crate) registry: Registry,
    pub(crate) host: HostFacts,
}

impl Launcher {
    /// The helper is not used. A start that asks for a sandbox is refused before it has an owner, with the reason that
    /// those have that ask for none.
    ///
    /// # Errors
    /// None.
    pub(crate) fn start(_helper: PathBuf, registry: Registry, host: HostFacts) -> io::Result<Self> {
        let host = HostFacts { engine: None, network_enforced: false, reasons: vec![LINUX_ONLY.to_owned()], ..host };
        Ok(Self { registry, host })
    }
}

/// Publishes the failed start and takes the slot out of the table. Whoever still waits for the process is told.
pub(crate) async fn own(slot: Arc<Slot>, seat: Seat, _launcher: Arc<Launcher>, table: Arc<Table>) {
    let error = RunnerError::new(ErrorCode::SandboxUnavailable, format!("start a command: {LINUX_ONLY}"))
        .with_hint("run codespace-runner on a Linux machine, or in a Linux virtual machine on this one");
    slot.journal.close();
    table.forget(slot.id);
    seat.visible.send_modify(|visible| {
        visible.phase = None;
        visible.end = Some(End::StartFailed(error));
    });
}

#[cfg(test)]
mod tests {
    use codespace_domain::{ExecRequest, ListRequest, StopRequest};
    use codespace_policy::{HostDisk, SandboxChoice, Workspace};

    use super::*;
    use crate::{InProcessRunner, Runner, RunnerConfig};

    #[tokio::test]
    async fn every_start_is_refused_with_one_reason_and_leaves_nothing() {
        for sandbox in [SandboxChoice::Auto, SandboxChoice::Bubblewrap, SandboxChoice::None] {
            let directory = tempfile::tempdir().unwrap();
            let workspace = Workspace { sandbox, ..Workspace::new(directory.path()) };
            let registry = Registry::single("w".parse().unwrap(), workspace, &HostDisk).unwrap();
            let runner = InProcessRunner::start(RunnerConfig::new(registry)).await.unwrap();
            let session = runner.session();
            let request = ExecRequest::new("w".parse().unwrap(), ["/usr/bin/touch", "ran"]);
            let error = session.exec(request).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::SandboxUnavailable, "{error:?}");
            assert!(error.message.contains(LINUX_ONLY) && error.hint.is_some(), "{error:?}");
            let list = session.list_processes(ListRequest { workspace_id: None, state: None }).await.unwrap();
            assert!(list.processes.is_empty(), "{list:?}");
            assert!(!directory.path().join("ran").exists());
            assert_eq!(session.stop(StopRequest { grace_ms: None }).await.unwrap().ended, 0);
            runner.stopped().await;
        }
    }
}
