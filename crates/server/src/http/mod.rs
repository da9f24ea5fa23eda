//! The gateway over HTTP: `/mcp`, `/healthz`, `/metrics`, and the live page at `/` where it was asked for. On loopback
//! unless told otherwise.
//!
//! Whoever reaches `/mcp` runs commands, so nothing gets there without passing the [`guard`]: the right Host (a name that
//! was made to point here is not ours), the right Origin (a web page in the same machine's browser is not our client) and
//! the token. Bounded in every direction: connections, sessions, bodies, and the time for a
//! request's head, for its body and for what is left unread.

mod body;
pub(crate) mod deleted;
mod guard;
mod limits;
pub mod metrics;
mod page;
mod stalled;
pub mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::deleted::Busy;
use self::guard::Guard;
use self::limits::Places;
use self::metrics::Metrics;
use self::stalled::Impatient;
use self::token::Token;
use crate::backend::Backend;
use crate::gateway::Gateway;

/// Bytes of one request's body: a `write_stdin` of some MiB fits.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// How long a peer may take for it.
const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// Sessions at a time; one more is refused.
const MAX_SESSIONS: usize = 256;
/// Connections at a time; one more waits.
const MAX_CONNECTIONS: usize = 1024;
/// How long a peer may take for the head of a request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// How long a peer may leave what is sent to it unread.
const UNREAD_DEADLINE: Duration = Duration::from_secs(30);
/// How long an idle session is kept for a client that may come back. What it started with `lifetime: "connection"` ends
/// with it.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// When a client whose stream broke should come back. An answer that comes meanwhile reaches nobody: the process goes on, or
/// has ended, and is found by its id or its key.
const COME_BACK: Duration = Duration::from_secs(1);
/// How long a shutdown waits for calls that are under way.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);
/// How long an answer that was made may take until it is sent.
const LAST_ANSWER: Duration = Duration::from_millis(300);
/// How long to leave a host alone that has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What may be set.
pub struct HttpConfig {
    /// Names beside loopback's that a Host and an Origin may have.
    pub allowed_hosts: Vec<String>,
    /// What a client has to present; `None`: whoever reaches the port is trusted.
    pub token: Option<Token>,
    /// Whether there is the live page.
    pub page: bool,
}

/// Serves until `shutdown` is done, then lets the calls that are under way finish for some seconds.
pub async fn serve(
    listener: TcpListener,
    backend: Backend,
    config: HttpConfig,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let sessions = CancellationToken::new();
    let metrics = Arc::new(Metrics::new(&backend));
    let app = router(backend, config, address, Arc::clone(&metrics), sessions.clone());
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::pin!(shutdown);
    loop {
        let (stream, place) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &connections) => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE);
        let stream = TokioIo::new(Impatient::new(stream, UNREAD_DEADLINE));
        let connection = builder.serve_connection(stream, TowerToHyperService::new(app.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    // 1. No connection takes another request, and the calls that are under way have their time.
    let closed = graceful.shutdown();
    tokio::pin!(closed);
    let quiet = async {
        if timeout(SHUTDOWN_DEADLINE, metrics.no_calls()).await.is_err() {
            tracing::warn!("gave up calls that were under way");
        }
        // An answer that was made a moment ago is still to be sent.
        tokio::time::sleep(LAST_ANSWER).await;
    };
    tokio::select! {
        () = &mut closed => return Ok(()),
        () = quiet => {}
    }
    // 2. The streams of waiting clients end with their sessions; without that they would never be done.
    sessions.cancel();
    if timeout(LAST_ANSWER, closed).await.is_err() {
        tracing::debug!("closed connections that were still open");
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(connections).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // An answer is small and wanted now. Without this it waits for the peer's acknowledgement of what went before.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

fn router(
    backend: Backend,
    config: HttpConfig,
    address: SocketAddr,
    metrics: Arc<Metrics>,
    sessions: CancellationToken,
) -> Router {
    let guard = Arc::new(Guard::new(config.allowed_hosts, config.token, address));
    let busy = Arc::new(Busy::default());
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_IDLE);
    manager.session_config.sse_retry = Some(COME_BACK);
    let manager = Arc::new(manager);
    let places = Arc::new(Places::new(Arc::clone(&manager), MAX_SESSIONS));
    let mcp = {
        let (backend, metrics, busy) = (backend, Arc::clone(&metrics), Arc::clone(&busy));
        StreamableHttpService::new(
            move || {
                Ok(Gateway::new(backend.client(), limits::has_no_session)
                    .counted_by(Arc::clone(&metrics))
                    .closed_by(Arc::clone(&busy)))
            },
            manager,
            StreamableHttpServerConfig::default()
                // The guard has looked at both; here they would be looked at with other rules.
                .disable_allowed_hosts()
                .disable_allowed_origins()
                .with_max_request_body_bytes(MAX_BODY)
                .with_sse_retry(Some(COME_BACK))
                .with_cancellation_token(sessions),
        )
    };
    let guarded = Router::new()
        .nest_service("/mcp", mcp)
        .layer(axum::middleware::from_fn_with_state(places, limits::sessions))
        .layer(axum::middleware::from_fn_with_state(BODY_DEADLINE, body::whole))
        .layer(axum::middleware::from_fn_with_state(busy, deleted::answer))
        .route("/metrics", get(metrics::show).with_state(metrics))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&guard), guard::token));
    Router::new()
        .merge(guarded)
        .merge(if config.page { page::routes() } else { Router::new() })
        .route("/healthz", get(async || "ok\n"))
        .layer(axum::middleware::from_fn_with_state(guard, guard::host_and_origin))
}
