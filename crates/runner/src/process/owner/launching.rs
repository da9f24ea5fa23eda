//! From the slot to the root: the plan, the start, and what is told when one of them fails.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use codespace_domain::{ErrorCode, ExecRequest, RunnerError, Stage};
use codespace_linux_sandbox_protocol::{CommandEnd, Plan, StageFailure};
use codespace_policy::{Admitted, HostDisk, HostFacts, Registry};
use tokio::sync::oneshot;

use super::{Owner, Slot, Table};
use crate::cgroups::{Cgroups, Leaf};
use crate::launch::{LaunchError, Root, Spawner};
use crate::lifecycle::Event;
use crate::process::Ground;

/// How roots are started.
pub(crate) struct Launcher {
    pub(crate) spawner: Arc<Spawner>,
    pub(crate) helper: PathBuf,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) registry: Registry,
    pub(crate) host: HostFacts,
}

impl Launcher {
    /// Starts the thread that roots are started from, and finds the place of their cgroups.
    ///
    /// # Errors
    /// The operating system gave no thread.
    pub(crate) fn start(helper: PathBuf, registry: Registry, host: HostFacts) -> io::Result<Self> {
        let spawner = Arc::new(Spawner::start()?);
        Ok(Self { spawner, helper, cgroups: Cgroups::open(), registry, host })
    }

    /// Looks at the disk, which may block for long where that is a network's.
    pub(super) fn plan(
        &self,
        request: &ExecRequest,
        admitted: &Admitted,
        slot: &Slot,
        table: &Table,
    ) -> Result<Planned, RunnerError> {
        let plan = codespace_policy::plan(&self.registry, admitted, request, &self.host, &HostDisk)?;
        self.occupy(slot, table)?;
        let leaf = self.cgroups.as_ref().and_then(|cgroups| match cgroups.leaf(slot.id) {
            Ok(leaf) => Some(Arc::new(leaf)),
            Err(error) => {
                tracing::warn!(%error, "failed to make a cgroup; the process does without");
                None
            }
        });
        Ok(Planned { plan, leaf })
    }

    /// Takes the workspace's directory, where an exclusive one could be in the way.
    fn occupy(&self, slot: &Slot, table: &Table) -> Result<(), RunnerError> {
        if !self.registry.workspaces.values().any(|workspace| workspace.exclusive) {
            return Ok(());
        }
        let root = &self.registry.find(&slot.asked.workspace_id)?.root;
        let ground = Ground::of(root).map_err(|error| {
            let message = format!("find out who is in the workspace's root {}: {error}", root.display());
            RunnerError::spawn_failed(Stage::Prepare, error.raw_os_error(), message)
        })?;
        table.occupy(slot, ground)
    }
}

/// Ready to be started.
pub(super) struct Planned {
    plan: Plan,
    leaf: Option<Arc<Leaf>>,
}

/// How far the start of the root is.
pub(super) enum Launch {
    Planning(oneshot::Receiver<Result<Planned, RunnerError>>),
    Starting(Pin<Box<dyn Future<Output = Result<Root, LaunchError>> + Send>>),
    Over,
}

impl Owner {
    pub(super) fn planned(&mut self, planned: Result<Planned, RunnerError>) {
        self.launch = Launch::Over;
        match planned {
            Ok(Planned { plan, leaf }) => {
                let entrance = leaf.and_then(|leaf| match (leaf.entrance(), leaf.watch()) {
                    (Ok(entrance), Ok(events)) => {
                        self.cgroup = Some((leaf, Some(events)));
                        Some(entrance)
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        tracing::warn!(%error, "failed to use a cgroup; the process does without");
                        None
                    }
                });
                let launcher = Arc::clone(&self.launcher);
                let start = async move { launcher.spawner.launch(&launcher.helper, &plan, entrance).await };
                self.launch = Launch::Starting(Box::pin(start));
                if self.cgroup.is_some() {
                    self.feed(Event::InCgroup);
                }
            }
            Err(refusal) => self.launch_failed(refusal),
        }
    }

    pub(super) fn launch_failed(&mut self, refusal: RunnerError) {
        let failure = StageFailure {
            stage: refusal.stage.unwrap_or(Stage::Prepare),
            errno: refusal.errno,
            message: refusal.message.clone(),
        };
        self.refusal = Some(refusal);
        self.feed(Event::LaunchFailed(failure));
    }

    pub(super) fn launched(&mut self, root: Result<Root, LaunchError>) {
        self.launch = Launch::Over;
        match root {
            Ok(Root { pid, handle, control }) => {
                self.root = Some((pid, Arc::new(handle)));
                self.control = Some(control);
                self.visible.send_modify(|visible| visible.pid = Some(pid));
                if self.published {
                    // It took so long that its end was told already. Nothing waits for it but its own end.
                    self.kill_tree();
                }
                self.feed(Event::Launched);
            }
            Err(error) => {
                let failure = StageFailure { stage: Stage::Sandbox, errno: error.errno(), message: error.to_string() };
                self.feed(Event::LaunchFailed(failure));
            }
        }
    }
}

pub(super) fn engine_ended(end: CommandEnd, said: &str) -> String {
    match (end, said) {
        (CommandEnd::Code(code), "") => format!("the engine ended with exit code {code}"),
        (CommandEnd::Signal(number), "") => format!("the engine was ended by signal {number}"),
        (_, said) => said.to_owned(),
    }
}

pub(super) fn start_failed(failure: StageFailure) -> RunnerError {
    let hint = match failure.stage {
        Stage::Sandbox => Some("`codespace-runner doctor` tries a sandbox and names what is in the way"),
        Stage::Exec if failure.errno == Some(libc::ENOENT) => {
            Some("the program, or the interpreter that its first line names, is not in what the command can see")
        }
        Stage::Exec if failure.errno == Some(libc::ENOEXEC) => Some("a script needs a first line like #!/bin/sh"),
        Stage::Exec if failure.errno == Some(libc::E2BIG) => Some("pass large data in a file or by stdin"),
        Stage::Prepare | Stage::Cwd | Stage::Exec => None,
    };
    let mut error = RunnerError::spawn_failed(failure.stage, failure.errno, failure.message);
    if let Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC) = error.errno {
        error.code = ErrorCode::ResourceUnavailable;
        return error
            .with_hint("the host has run out of processes, memory or descriptors: end something, or raise the limit");
    }
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
