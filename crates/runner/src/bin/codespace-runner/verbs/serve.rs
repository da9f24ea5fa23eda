//! `serve`: the independent Runner. Binds its socket, serves it, and ends by a `stop`, however that comes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use codespace_domain::{SignalName, StopRequest};
use codespace_policy::{HostDisk, Registry};
use codespace_runner::uds;
use codespace_runner::{InProcessRunner, Runner as _, RunnerConfig};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::own_signals::OwnSignals;
use crate::render::Render;
use crate::service::{self, Given, Word};

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    socket: SocketFlag,
    /// The registry of workspaces; without one, the current directory is the workspace `default`.
    #[arg(long, value_name = "FILE", env = "CODESPACE_CONFIG")]
    config: Option<PathBuf>,
    /// Allow the home directory, its parents and system directories as the workspace `default`.
    #[arg(long, conflicts_with = "config")]
    allow_broad_root: bool,
    /// Stop when our stdin comes to its end: for a parent that holds its other side, and dies in whatever way.
    #[arg(long)]
    until_stdin_closes: bool,
    /// The form of the log lines on stderr; RUST_LOG says which.
    #[arg(long, default_value = "text")]
    log_format: LogFormat,
    /// What the service manager gives.
    #[arg(skip)]
    pub(crate) given: Given,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

const END_OF_STDIN: &str = "the end of stdin";

/// How long the commands of a parent that is gone may take to end by themselves: nobody is there any more who could hurry
/// them, and they may have been promised a grace of any length.
const PATIENCE: Duration = Duration::from_secs(15);

/// With `--json`, what is said once the socket is there.
#[derive(Serialize)]
struct Listening<'a> {
    socket: &'a Path,
    pid: u32,
    protocol: u32,
}

pub(crate) async fn run(args: ServeArgs, render: Render) -> Result<u8, CliError> {
    start_log(args.log_format);
    // 1. Signals, so that none that comes during the start is lost, or ends us half-way.
    let mut signals = OwnSignals::catch(&[SignalName::Term, SignalName::Int, SignalName::Hup])
        .map_err(|e| CliError::host("catch signals", e))?;

    // 2. What can be wrong with the configuration, before anything is there.
    let config_file = args.config.filter(|file| !file.as_os_str().is_empty());
    let registry = load(config_file.as_deref(), args.allow_broad_root)?;
    for (_, what) in registry.unenforceable(&HostDisk) {
        tracing::warn!("{what}: commands of this workspace will be refused");
    }

    // Connections and processes need descriptors; with few of them it still works, for fewer.
    if let Err(error) = codespace_runner::raise_descriptor_limit() {
        tracing::warn!(%error, "failed to raise the limit of open files");
    }

    // 3. The socket, before the Runner: where another one holds it, nothing has been started. A client that comes early
    //    waits in the socket's queue.
    let mut listener = args.given.listen(&args.socket)?;
    if args.until_stdin_closes {
        // Whoever has started us is the only one who knows the path.
        listener.for_once();
    }

    // 4. The Runner, which keeps all of this out of every sandbox: whoever reached the socket could start anything.
    let mut config = RunnerConfig::new(registry);
    config.forbidden.extend(listener.path().parent().map(Path::to_owned));
    config.forbidden.push(listener.lock_path().to_owned());
    config.forbidden.extend(config_file.map(|file| std::path::absolute(&file).unwrap_or(file)));
    let runner = tokio::select! {
        runner = InProcessRunner::start(config) => runner?,
        _ = signals.next() => return Ok(exit::OK),
    };

    tracing::info!(socket = %listener.path().display(), pid = std::process::id(), "listening");
    if render.is_json() {
        let socket = listener.path();
        render.object(&Listening { socket, pid: std::process::id(), protocol: codespace_domain::PROTOCOL })?;
    }

    service::tell(Word::Ready(listener.path()));
    service::keep_telling_that_we_live();

    // 5. Until it has stopped: by a client, or by a signal, of which only the first counts.
    let mut code = exit::OK;
    let ended = async {
        tokio::select! {
            () = runner.stopped() => {}
            why = asked_to_stop(&mut signals, args.until_stdin_closes) => {
                tracing::info!(why, "stopping");
                let session = runner.session();
                let stop = session.stop(StopRequest::default());
                tokio::pin!(stop);
                let patience = tokio::time::sleep(PATIENCE);
                tokio::pin!(patience);
                let mut is_patient = why == END_OF_STDIN;
                loop {
                    tokio::select! {
                        () = &mut patience, if is_patient => {
                            is_patient = false;
                            tracing::warn!("not everything ends by itself; ending it");
                            // What it is answered with, the first one is too.
                            drop(session.stop(StopRequest { grace_ms: Some(0) }).await);
                        }
                        stopped = &mut stop => match stopped {
                            Ok(stopped) => break tracing::info!(ended = stopped.ended, "everything has ended"),
                            Err(error) => {
                                tracing::error!(%error, "failed to end everything");
                                code = exit::FAILED;
                                break;
                            }
                        },
                        signal = signals.next() => tracing::info!(signal = signal.as_str(), "already stopping"),
                    }
                }
            }
        }
    };
    // However it is asked for, it begins before it is over.
    let told = async {
        runner.stopping().await;
        service::tell(Word::Stopping);
    };
    let shutdown = async {
        tokio::join!(ended, told);
    };
    uds::serve(listener, || runner.session(), shutdown).await;
    tracing::info!("stopped");
    Ok(code)
}

/// Waits for the first thing that ends this Runner from outside, and says what it is.
async fn asked_to_stop(signals: &mut OwnSignals, until_stdin_closes: bool) -> &'static str {
    let stdin_closed = async {
        // A stdin that cannot be read has nobody on its other side either.
        drop(tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await);
    };
    tokio::select! {
        signal = signals.next() => signal.as_str(),
        () = stdin_closed, if until_stdin_closes => END_OF_STDIN,
    }
}

pub(super) fn load(file: Option<&Path>, allow_broad_root: bool) -> Result<Registry, CliError> {
    let Some(file) = file else {
        let here = std::env::current_dir().map_err(|e| CliError::host("find the current directory", e))?;
        return Registry::current_directory(&here, allow_broad_root, &HostDisk)
            .map_err(|error| CliError::Registry { file: None, error });
    };
    Registry::load(file).map_err(|error| CliError::Registry { file: Some(file.to_owned()), error })
}

/// Log lines go to stderr: stdout is for the answer. A stderr that is gone is no reason to fail.
fn start_log(format: LogFormat) {
    let level = if std::env::var_os("RUST_LOG").is_some_and(|v| !v.is_empty()) {
        EnvFilter::from_default_env()
    } else {
        EnvFilter::new("warn,codespace_runner=info")
    };
    let log = tracing_subscriber::fmt().with_env_filter(level).log_internal_errors(false).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(error, "somebody else logs already");
    }
}
