//! From the command line to a server: the log, the Runner, the transport, and the end of what this process owns.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::escape::escape;
use codespace_domain::{RunnerError, StopRequest};
use codespace_runner::registry::{HostDisk, Registry, RegistryError};
use codespace_runner::{InProcessRunner, Runner as _, RunnerConfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::backend::Backend;
use crate::cli::{Cli, LogFormat, RunnerChoice};
use crate::gateway::Gateway;
use crate::http::token::{TOKEN_VARIABLE, Token, TokenError};
use crate::http::{self, HttpConfig};
use crate::stdio;
use crate::worker::{Worker, WorkerError};

/// How long the ends of everything may take, where nobody is there any more who could hurry them.
const END_DEADLINE: Duration = Duration::from_secs(15);

/// Why there is no server. The words finish "failed to ...".
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the meaning")]
pub enum RunError {
    #[error("{what}: {source}")]
    Host { what: String, source: io::Error },
    #[error("listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("load the registry{}: {error}", of_file(.file.as_deref()))]
    Registry { file: Option<PathBuf>, error: RegistryError },
    #[error("{}", .0.message)]
    Runner(#[from] RunnerError),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("serve HTTP without a token")]
    NoToken,
    #[error("serve HTTP without a token on {0}, which others reach too")]
    NoTokenBeyondLoopback(SocketAddr),
    #[error("run commands {0}")]
    Contradiction(&'static str),
}

impl RunError {
    /// The operating system said no.
    pub fn host(what: impl Into<String>, source: io::Error) -> Self {
        Self::Host { what: what.into(), source }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry { error, .. } => error.hint.clone(),
            Self::Runner(error) => error.hint.clone(),
            Self::NoToken => Some(format!(
                "write one to a file of mode 0600 and name it with --token-file (or in {TOKEN_VARIABLE}), or say --no-token"
            )),
            Self::NoTokenBeyondLoopback(_) => Some("listen on 127.0.0.1, or give a token with --token-file".to_owned()),
            Self::Token(TokenError::Open { path }) => Some(format!("chmod 600 {}", path.display())),
            Self::Token(_) => Some("for example: (umask 077; head -c 32 /dev/urandom | base64 > token)".to_owned()),
            Self::Contradiction(_) => Some("see codespace-mcp --help".to_owned()),
            Self::Listen { address, source } => Some(
                match source.kind() {
                    io::ErrorKind::AddrInUse => {
                        "end what listens there, or listen on another port; port 0 takes a free one"
                    }
                    io::ErrorKind::AddrNotAvailable => "give an address of this machine, for example 127.0.0.1",
                    io::ErrorKind::PermissionDenied if address.port() < 1024 => "listen on a port from 1024 on",
                    _ => return None,
                }
                .to_owned(),
            ),
            Self::Worker(error) => error.hint(),
            Self::Host { .. } => None,
        }
    }

    /// On stderr, once.
    pub fn complain(&self) {
        let hint = self.hint().map(|hint| format!("hint: {}\n", escape(&hint))).unwrap_or_default();
        // What cannot be said there can be said nowhere.
        drop(write!(io::stderr(), "codespace-mcp: failed to {}\n{hint}", escape(&self.to_string())));
    }
}

/// Serves until the client has left (stdio) or a signal came, and then ends everything that this process owns.
///
/// # Errors
/// What kept it from serving.
pub async fn run(cli: Cli) -> Result<(), RunError> {
    start_log(cli.log_format);
    let mut signals = Signals::catch()?;
    // Its file may be a pipe, into which nobody writes for a long time, or ever.
    let reading = tokio::task::spawn_blocking({
        let cli = cli.clone();
        move || token(&cli)
    });
    let token = tokio::select! {
        token = reading => token.map_err(|error| RunError::host("read the token", io::Error::other(error)))??,
        () = signals.any() => return Ok(()),
    };
    let owned = Owned::start(&cli).await?;
    let served = match cli.http {
        Some(address) => {
            let failed = |source| RunError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            tracing::info!(%address, "listening");
            if cli.page {
                tracing::info!(page = %page_at(address), "the live page is there; it asks for the token, if there is one");
            }
            let config = HttpConfig { allowed_hosts: cli.allow_host, token, page: cli.page };
            http::serve(listener, owned.backend(), config, signals.any()).await.map_err(failed)
        }
        None => {
            let gateway = Gateway::new(owned.backend().client(), |_| false);
            tokio::select! {
                served = stdio::serve(gateway) => served.map_err(|error| RunError::host("serve over stdio", error)),
                () = signals.any() => Ok(()),
            }
        }
    };
    let patience = async {
        tokio::select! {
            () = sleep(END_DEADLINE) => {}
            // Whoever asks twice means it.
            () = signals.any() => {}
        }
    };
    owned.end(patience).await;
    served
}

/// The Runner, and whether it is ours to end.
enum Owned {
    InProcess(InProcessRunner),
    Worker(Arc<Worker>),
    Independent(PathBuf),
}

impl Owned {
    async fn start(cli: &Cli) -> Result<Self, RunError> {
        match (cli.runner(), &cli.runner_socket) {
            (RunnerChoice::InProcess, Some(_)) => Err(RunError::Contradiction("in this process and behind a socket")),
            (RunnerChoice::InProcess, None) => Ok(Self::InProcess(in_process(cli.config.as_deref()).await?)),
            (RunnerChoice::Uds, Some(socket)) => Ok(Self::Independent(socket.clone())),
            (RunnerChoice::Uds, None) => Ok(Self::Worker(Arc::new(Worker::start(cli.config.as_deref()).await?))),
        }
    }

    fn backend(&self) -> Backend {
        match self {
            Self::InProcess(runner) => Backend::InProcess(runner.clone()),
            Self::Worker(worker) => Backend::Worker(Arc::clone(worker)),
            Self::Independent(socket) => Backend::Socket(socket.clone()),
        }
    }

    /// What goes on without us is left alone. Commands have the grace that they have asked for until `patience` is over.
    async fn end(self, patience: impl Future<Output = ()>) {
        match self {
            Self::InProcess(runner) => {
                let session = runner.session();
                let stopped = tokio::select! {
                    stopped = session.stop(StopRequest::default()) => stopped,
                    () = patience => {
                        tracing::warn!("not everything ends by itself; ending it");
                        session.stop(StopRequest { grace_ms: Some(0) }).await
                    }
                };
                if let Err(error) = stopped {
                    tracing::error!(%error, "failed to end everything");
                }
            }
            Self::Worker(worker) => worker.end(patience).await,
            Self::Independent(_) => {}
        }
    }
}

async fn in_process(config: Option<&Path>) -> Result<InProcessRunner, RunError> {
    let file = config.filter(|file| !file.as_os_str().is_empty());
    let of_file = |error| RunError::Registry { file: file.map(Path::to_owned), error };
    let registry = match file {
        Some(file) => Registry::load(file).map_err(of_file)?,
        None => {
            let here = std::env::current_dir().map_err(|error| RunError::host("find the current directory", error))?;
            Registry::current_directory(&here, false, &HostDisk).map_err(of_file)?
        }
    };
    for (_, what) in registry.unenforceable(&HostDisk) {
        tracing::warn!("{what}: commands of this workspace will be refused");
    }
    let mut config = RunnerConfig::new(registry);
    config.forbidden.extend(file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned())));
    Ok(InProcessRunner::start(config).await?)
}

/// Where a browser on this machine finds the page: of all addresses it can use loopback's.
fn page_at(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}/", SocketAddr::new(ip, address.port()))
}

fn token(cli: &Cli) -> Result<Option<Token>, RunError> {
    let Some(address) = cli.http else { return Ok(None) };
    let named = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    match (&cli.token_file, named) {
        (Some(file), _) => Ok(Some(Token::from_file(file)?)),
        (None, Some(text)) if !cli.no_token => Ok(Some(Token::from_text(&text.to_string_lossy())?)),
        (None, _) if !cli.no_token => Err(RunError::NoToken),
        (None, _) if !address.ip().is_loopback() => Err(RunError::NoTokenBeyondLoopback(address)),
        (None, _) => Ok(None),
    }
}

/// The signals that end us.
struct Signals([Signal; 3]);

impl Signals {
    fn catch() -> Result<Self, RunError> {
        let one = |kind| signal(kind).map_err(|error| RunError::host("catch signals", error));
        Ok(Self([one(SignalKind::terminate())?, one(SignalKind::interrupt())?, one(SignalKind::hangup())?]))
    }

    async fn any(&mut self) {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
        }
    }
}

fn start_log(format: LogFormat) {
    let level = if std::env::var_os("RUST_LOG").is_some_and(|value| !value.is_empty()) {
        EnvFilter::from_default_env()
    } else {
        // A client's mistakes are told to the client.
        EnvFilter::new("warn,rmcp=error,codespace_server=info")
    };
    let log = tracing_subscriber::fmt().with_env_filter(level).log_internal_errors(false).with_writer(io::stderr);
    // Others log whole messages, with the environments, inputs and outputs of commands in them: of them only what is wrong.
    let without_secrets = filter_fn(|line| line.target().starts_with("codespace_") || *line.level() <= Level::WARN);
    let started = match format {
        LogFormat::Text => log.with_ansi(false).finish().with(without_secrets).try_init(),
        LogFormat::Json => log.json().finish().with(without_secrets).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "somebody else logs already");
    }
}

fn of_file(file: Option<&Path>) -> String {
    file.map(|file| format!(" {}", file.display())).unwrap_or_default()
}
