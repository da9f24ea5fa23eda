//! The Runner inside this process.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codespace_domain::{Enforcement, ErrorCode, RunnerError, SandboxInfo};
use codespace_linux_sandbox_protocol::Engine;
use codespace_policy::{HostFacts, Registry};
use tokio::sync::watch;

use crate::linux_sandbox::{self, DoctorReport, HelperLocation};
use crate::process::{Launcher, Retention, Table};
use crate::session::Session;

/// What a Runner is made from.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// The workspaces.
    pub registry: Registry,
    /// Where the sandbox helper is.
    pub helper: HelperLocation,
    /// Shown in no view: the socket's directory, the configuration, state.
    pub forbidden: Vec<PathBuf>,
    /// How long ended processes are kept.
    pub retention: Retention,
}

impl RunnerConfig {
    /// Defaults for everything else.
    pub fn new(registry: Registry) -> Self {
        Self { registry, helper: HelperLocation::Default, forbidden: Vec::new(), retention: Retention::default() }
    }

    /// What a Runner of this configuration makes its decisions from, besides the registry and the disk. Tries the sandbox
    /// for that, as [`InProcessRunner::start`] does, and starts nothing.
    pub async fn host_facts(&self) -> HostFacts {
        let report = linux_sandbox::probe(&self.helper).await;
        host_facts(&report, self.forbidden.clone())
    }
}

/// A Runner. Clones are the same one.
///
/// When the last clone and the last [`Session`] are dropped, everything that it started is ended; so it is when this
/// process dies, however that happens.
#[derive(Clone)]
pub struct InProcessRunner {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) sandbox: SandboxInfo,
    pub(crate) table: Arc<Table>,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) stopped: watch::Sender<bool>,
    sessions: AtomicU64,
}

impl InProcessRunner {
    /// Tries the sandbox, and is ready.
    ///
    /// A host without a sandbox is no error here: starts that ask for one are refused. Needs a Tokio runtime, and keeps
    /// using the one that it was started on.
    ///
    /// # Errors
    /// `RESOURCE_UNAVAILABLE`: the operating system gave no thread.
    pub async fn start(config: RunnerConfig) -> Result<Self, RunnerError> {
        let report = linux_sandbox::probe(&config.helper).await;
        let host = host_facts(&report, config.forbidden);
        let helper = report.helper.clone().unwrap_or_default();
        let launcher = Launcher::start(helper, config.registry, host).map_err(|error: io::Error| RunnerError {
            errno: error.raw_os_error(),
            ..RunnerError::new(ErrorCode::ResourceUnavailable, format!("start the spawner thread: {error}"))
        })?;
        let shared = Shared {
            sandbox: SandboxInfo {
                engine: report.engine,
                network_enforced: report.network_enforced,
                reasons: report.findings.iter().map(|finding| finding.what.clone()).collect(),
            },
            table: Arc::new(Table::new(config.retention)),
            launcher: Arc::new(launcher),
            stopping: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            sessions: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Someone who asks: a connection, or an embedding program. Dropping it ends its `lifetime: "connection"` processes.
    pub fn session(&self) -> Session {
        let number = self.shared.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(Arc::clone(&self.shared), number)
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Resolves when a `stop` has been asked for.
    pub async fn stopping(&self) {
        // As in `stopped`.
        self.shared.stopping.subscribe().wait_for(|stopping| *stopping).await.ok();
    }

    /// Resolves when a `stop` has ended everything.
    pub async fn stopped(&self) {
        // The sender lives in `shared`, so this cannot fail while `self` is there.
        self.shared.stopped.subscribe().wait_for(|stopped| *stopped).await.ok();
    }
}

fn host_facts(report: &DoctorReport, forbidden: Vec<PathBuf>) -> HostFacts {
    let engine = match (report.engine, &report.engine_program) {
        (Enforcement::Bubblewrap, Some(program)) => Some(Engine::Bubblewrap { program: program.clone() }),
        _ => None,
    };
    HostFacts {
        engine,
        network_enforced: report.network_enforced,
        reasons: report.findings.iter().map(|finding| format!("{} ({})", finding.what, finding.remedy)).collect(),
        runner_env: std::env::vars_os().filter(|(name, _)| !is_the_service_managers(name)).collect(),
        runner_home: std::env::home_dir(),
        forbidden: forbidden.into_iter().chain(own_binaries(report)).collect(),
    }
}

/// What a service manager says to the Runner alone. A command never has it, also where the registry passes the name on: with
/// it a command could speak to the service manager, or take a descriptor for what it is not.
fn is_the_service_managers(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"LISTEN_") || name.starts_with(b"WATCHDOG_") || name == b"NOTIFY_SOCKET"
}

/// The Runner's own programs: a command that could change one would be run by the next start. A program in a system
/// directory is read-only in every view, and masking it would only be seen as damage.
fn own_binaries(report: &DoctorReport) -> impl Iterator<Item = PathBuf> + use<> {
    let system = ["/usr", "/bin", "/sbin", "/lib", "/nix"];
    let own = [std::env::current_exe().ok(), report.helper.clone()];
    own.into_iter().flatten().filter(move |path| !system.iter().any(|dir| path.starts_with(dir)))
}
