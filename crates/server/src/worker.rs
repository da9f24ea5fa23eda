//! A private Runner in a process of its own: started here, reached by a socket that nobody else knows, and ended with us.
//!
//! What ties it to us is the pipe that is its stdin (`serve --until-stdin-closes`): the kernel closes our end of it however
//! we die, and the worker then ends everything that it started, and itself. One that dies takes what it started with it;
//! the next call gets a new one.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use codespace_domain::{ClientInfo, ErrorCode, RunnerError};
use codespace_runner::uds::{ConnectError, UdsClient};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::http::token::TOKEN_VARIABLE;

/// How long it may take until it listens; its sandbox is tried first.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long a worker whose socket is dead may take to be dead itself.
const DEATH_DEADLINE: Duration = Duration::from_secs(2);

/// A worker. It ends when this is dropped; [`Worker::end`] also waits for that.
pub struct Worker {
    program: PathBuf,
    config: Option<PathBuf>,
    socket: PathBuf,
    /// None once it was ended. Locked while one is started, so that there is never a second.
    running: Mutex<Option<Child>>,
    /// Lets go whoever holds the lock while a worker does not answer.
    ending: CancellationToken,
    /// Goes with us, and with it the socket's place.
    directory: tempfile::TempDir,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("make a directory for the private Runner's socket: {0}")]
    Directory(io::Error),
    #[error("start the private Runner {}: {source}", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("start the private Runner: {0}")]
    Ended(String),
    #[error("reach the private Runner: {0}")]
    Unreachable(ConnectError),
}

impl WorkerError {
    /// What to do about it, where there is something.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Directory(_) => Some("let TMPDIR name a directory in which files can be made".to_owned()),
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("install codespace-runner beside codespace-mcp, or leave --runner uds out".to_owned())
            }
            Self::Spawn { .. } => None,
            Self::Ended(_) | Self::Unreachable(_) => Some("its own words on stderr say why".to_owned()),
        }
    }
}

impl Worker {
    /// Starts one, with this registry, and waits until it listens.
    ///
    /// # Errors
    /// What kept it from listening; its own words are on stderr.
    pub(crate) async fn start(config: Option<&Path>) -> Result<Self, WorkerError> {
        let program = std::env::current_exe().unwrap_or_default().with_file_name("codespace-runner");
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("codespace-mcp-").permissions(private).tempdir();
        let directory = directory.map_err(WorkerError::Directory)?;
        let socket = directory.path().join("runner.sock");
        let config = config.map(Path::to_owned);
        let worker =
            Self { program, config, socket, running: Mutex::default(), ending: CancellationToken::new(), directory };
        let mut child = worker.spawn()?;
        worker.until_it_listens(&mut child).await?;
        *worker.running.lock().await = Some(child);
        Ok(worker)
    }

    /// A connection to the worker, which is started anew where it has died.
    ///
    /// # Errors
    /// `RUNNER_STOPPING` after [`Worker::end`]; else what kept it from starting or answering.
    pub(crate) async fn connect(&self, client: ClientInfo) -> Result<UdsClient, RunnerError> {
        let mut running = self.running.lock().await;
        let Some(child) = running.as_mut() else {
            return Err(being_ended());
        };
        // A worker that stands still takes a connection and never answers: whoever ends it does not wait for that.
        let connected = tokio::select! {
            connected = UdsClient::connect(&self.socket, client.clone()) => connected,
            () = self.ending.cancelled() => return Err(being_ended()),
        };
        let error = match connected {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        // The kernel closes the sockets of one that dies a moment before it tells its parent.
        let Ok(Ok(status)) = timeout(DEATH_DEADLINE, child.wait()).await else { return Err(error.into()) };
        tracing::warn!(%status, "the private Runner has died, and what it ran with it; starting another one");
        let failed = |error: WorkerError| {
            RunnerError::new(ErrorCode::ResourceUnavailable, error.to_string())
                .with_hint("its log on stderr says why; restart codespace-mcp if it does not come back")
        };
        // In its place at once, so that an end that comes meanwhile ends this one.
        *child = self.spawn().map_err(failed)?;
        tokio::select! {
            listens = self.until_it_listens(child) => listens.map_err(failed)?,
            () = self.ending.cancelled() => return Err(being_ended()),
        }
        Ok(UdsClient::connect(&self.socket, client).await?)
    }

    /// Ends it with everything that it started, and waits for that: until `patience` is over, and then it is killed, which
    /// ends the same. Commands may have asked for a grace of any length, and a worker may be stuck.
    pub(crate) async fn end(&self, patience: impl Future<Output = ()>) {
        self.ending.cancel();
        if let Some(mut child) = self.running.lock().await.take() {
            drop(child.stdin.take());
            let ended = tokio::select! {
                ended = child.wait() => ended,
                () = patience => {
                    tracing::warn!("the private Runner takes its time to end everything; killing it, which ends it all");
                    match child.kill().await {
                        Ok(()) => child.wait().await,
                        Err(error) => Err(error),
                    }
                }
            };
            match ended {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!(%status, "the private Runner failed"),
                Err(error) => tracing::warn!(%error, "failed to wait for the private Runner"),
            }
        }
        // One that was killed could not do it; and we do not drop what a call that is still under way holds.
        if let Err(error) = std::fs::remove_dir_all(self.directory.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "failed to remove the directory of the private Runner's socket");
        }
    }

    /// Starts the process.
    fn spawn(&self) -> Result<Child, WorkerError> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--until-stdin-closes", "--socket"]).arg(&self.socket);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        // A stop of our own is not the worker's to see: a Ctrl-C goes to the whole process group.
        // What lets others in here is nothing for a process that starts commands.
        command.env_remove(TOKEN_VARIABLE);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // It starts no command by itself, and is tied to us by its stdin.
        command.spawn().map_err(|source| WorkerError::Spawn { program: self.program.clone(), source })
    }

    async fn until_it_listens(&self, child: &mut Child) -> Result<(), WorkerError> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let client = ClientInfo { name: "codespace-mcp".into(), version: env!("CARGO_PKG_VERSION").into() };
            let error = match UdsClient::connect(&self.socket, client).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Ok(Some(status)) = child.try_wait() {
                return Err(WorkerError::Ended(format!("it has ended ({status})")));
            }
            if Instant::now() > deadline {
                return Err(WorkerError::Unreachable(error));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn being_ended() -> RunnerError {
    RunnerError::new(ErrorCode::RunnerStopping, "reach the private Runner: it is being ended")
}
