//! A private Runner in a process of its own: started here, reached by a socket that nobody else knows, and ended with us.
//!
//! What ties it to us is the pipe that is its stdin (`serve --until-stdin-closes`): the kernel closes our end of it however
//! we die, and the worker then ends everything that it started, and itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use codespace_domain::ClientInfo;
use codespace_runner::uds::{ConnectError, UdsClient};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long it may take until it listens; its sandbox is tried first.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long it may take for the ends of everything.
const END_DEADLINE: Duration = Duration::from_secs(15);

/// A worker. It ends when this is dropped; [`Worker::end`] also waits for that.
pub(crate) struct Worker {
    child: Child,
    socket: PathBuf,
    /// Goes with us, and with it the socket's place.
    _directory: tempfile::TempDir,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("start the private Runner {}: {source}", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("start the private Runner: {0}")]
    Ended(String),
    #[error("reach the private Runner: {0}")]
    Unreachable(ConnectError),
}

impl Worker {
    /// Starts one, with this registry, and waits until it listens.
    ///
    /// # Errors
    /// What kept it from listening; its own words are on stderr.
    pub(crate) async fn start(config: Option<&Path>) -> Result<Self, WorkerError> {
        let program = std::env::current_exe().unwrap_or_default().with_file_name("codespace-runner");
        let failed = |source| WorkerError::Spawn { program: program.clone(), source };
        let directory = tempfile::Builder::new().prefix("codespace-mcp-").tempdir().map_err(failed)?;
        // The Runner makes the directory of its socket itself, and private.
        let socket = directory.path().join("private/runner.sock");
        let mut command = Command::new(&program);
        command.args(["serve", "--until-stdin-closes", "--socket"]).arg(&socket);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        // A stop of our own is not the worker's to see: a Ctrl-C goes to the whole process group.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // It starts no command by itself, and is tied to us by its stdin.
        let child = command.spawn().map_err(failed)?;
        let mut worker = Self { child, socket, _directory: directory };
        worker.until_it_listens().await?;
        Ok(worker)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it with everything that it started, and waits for that.
    pub(crate) async fn end(mut self: Box<Self>) {
        drop(self.child.stdin.take());
        match timeout(END_DEADLINE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => tracing::warn!(%status, "the private Runner failed"),
            Ok(Err(error)) => tracing::warn!(%error, "failed to wait for the private Runner"),
            Err(_) => tracing::warn!("the private Runner takes its time; it goes on ending without us"),
        }
    }

    async fn until_it_listens(&mut self) -> Result<(), WorkerError> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let client = ClientInfo { name: "codespace-mcp".into(), version: env!("CARGO_PKG_VERSION").into() };
            let error = match UdsClient::connect(&self.socket, client).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(WorkerError::Ended(format!("it has ended ({status})")));
            }
            if Instant::now() > deadline {
                return Err(WorkerError::Unreachable(error));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
