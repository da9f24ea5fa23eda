//! The Runner behind the gateway: one inside this process, or an independent one behind its socket.
//!
//! Each MCP session has a [`Client`] of its own, so that a process whose lifetime is the connection ends with the session
//! that started it. A connection that was lost is made anew at the next call: the Runner may have been restarted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use codespace_domain::{ClientInfo, ErrorCode, Request, RunnerError, SubscribeRequest};
use codespace_runner::uds::{ConnectError, UdsClient};
use codespace_runner::{InProcessRunner, Pending, Runner, Session, Subscribing};

use crate::worker::Worker;

/// Where the Runner is.
#[derive(Clone)]
pub enum Backend {
    /// In this process.
    InProcess(InProcessRunner),
    /// Behind this socket.
    Socket(PathBuf),
    /// A private one behind a socket.
    Worker(Arc<Worker>),
}

/// One session's way to the Runner. Dropping it ends the processes whose lifetime it is.
pub enum Client {
    /// In this process.
    InProcess(Session),
    /// Behind a socket.
    Socket(Arc<Connection>),
}

/// A connection that is made when it is needed, and again when it was lost.
pub struct Connection {
    way: Way,
    open: Mutex<Option<Arc<UdsClient>>>,
    /// One at a time connects; the others use what it got.
    connecting: tokio::sync::Mutex<()>,
}

/// Whom to connect to.
enum Way {
    Socket(PathBuf),
    Worker(Arc<Worker>),
}

impl Backend {
    /// A way to the Runner for one session.
    pub fn client(&self) -> Client {
        match self {
            Self::InProcess(runner) => Client::InProcess(runner.session()),
            Self::Socket(path) => Client::over(Way::Socket(path.clone())),
            Self::Worker(worker) => Client::over(Way::Worker(Arc::clone(worker))),
        }
    }
}

impl Client {
    fn over(way: Way) -> Self {
        let connecting = tokio::sync::Mutex::new(());
        Self::Socket(Arc::new(Connection { way, open: Mutex::new(None), connecting }))
    }
}

impl Runner for Client {
    fn call(&self, request: Request) -> Pending {
        match self {
            Self::InProcess(session) => session.call(request),
            Self::Socket(connection) => match connection.now() {
                Some(client) => client.call(request),
                None => {
                    let connection = Arc::clone(connection);
                    let asked = through_a_task(async move { Ok(connection.get().await?.call(request)) });
                    Box::pin(async move { asked.await?.await })
                }
            },
        }
    }

    fn subscribe(&self, request: SubscribeRequest) -> Subscribing {
        match self {
            Self::InProcess(session) => session.subscribe(request),
            Self::Socket(connection) => {
                let connection = Arc::clone(connection);
                Box::pin(async move { connection.get().await?.subscribe(request).await })
            }
        }
    }
}

impl Connection {
    /// The connection, where there is one.
    fn now(&self) -> Option<Arc<UdsClient>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().filter(|client| client.is_open()).cloned()
    }

    async fn get(&self) -> Result<Arc<UdsClient>, RunnerError> {
        let _alone = self.connecting.lock().await;
        if let Some(client) = self.now() {
            return Ok(client);
        }
        let name = "codespace-mcp".to_owned();
        let client = ClientInfo { name, version: env!("CARGO_PKG_VERSION").to_owned() };
        let client = Arc::new(match &self.way {
            Way::Socket(path) => UdsClient::connect(path, client).await.map_err(of_connect)?,
            Way::Worker(worker) => worker.connect(client).await?,
        });
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&client));
        Ok(client)
    }
}

/// As it is, with this program's own flag in the advice.
fn of_connect(error: ConnectError) -> RunnerError {
    let nobody_listens = matches!(error, ConnectError::NobodyListens { .. });
    let error = RunnerError::from(error);
    if nobody_listens {
        return error
            .with_hint("start one with codespace-runner serve; --runner-socket of codespace-mcp names its socket");
    }
    error
}

/// The effect comes also when the caller gives the waiting up. Only for what is done soon: a task that waited for an answer
/// would keep the connection open, and alive what ends with it, after its session has ended.
fn through_a_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, RunnerError>> + Send + 'static,
) -> impl Future<Output = Result<T, RunnerError>> + Send {
    let task = tokio::spawn(work);
    async move {
        task.await
            .unwrap_or_else(|error| Err(RunnerError::new(ErrorCode::Internal, format!("ask the Runner: {error}"))))
    }
}
