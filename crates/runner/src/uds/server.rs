//! Accepts connections, gives each a Runner of its own, and closes all of them at the Runner's end.
//!
//! Owns the set of connections; what happens on one is `session`'s.

use std::time::Duration;

use codespace_domain::{ErrorCode, RunnerError};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::listener::Listener;
use super::session::{HELLO_DEADLINE, converse};
use super::turned_away::TurnedAway;
use crate::api::Runner;

/// How many connections may be open at once. Beyond that a new one is told so and closed; an operator who can connect no
/// more still has the signals.
pub const MAX_CONNECTIONS: usize = 1024;

/// How long to leave a host alone that has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `shutdown` is done, then closes them: what is pending is answered, what is queued is sent,
/// each at most for some seconds. `make_session` is asked once per connection, and what it gives is dropped when that
/// connection is gone. The socket is removed first: its path is free for another Runner before the connections close.
pub async fn serve<S: Runner + 'static>(
    listener: Listener,
    make_session: impl Fn() -> S,
    shutdown: impl Future<Output = ()>,
) {
    let closing = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    let full = TurnedAway::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok(stream) if connections.len() >= MAX_CONNECTIONS => {
                    tracing::warn!(most = MAX_CONNECTIONS, "refused a connection: too many are open");
                    full.tell(stream, &too_many());
                }
                Ok(stream) => {
                    connections.spawn(converse(stream, make_session(), closing.subscribe(), HELLO_DEADLINE));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => report(ended),
        }
    }
    // The path is given up before the connections are closed: everything has ended by now, and a client that has seen
    // its connection close can start another Runner on the same path at once.
    drop(listener);
    closing.send_replace(true);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

fn too_many() -> RunnerError {
    let text = format!("accept the connection: {MAX_CONNECTIONS} are open, which is the most");
    RunnerError::new(ErrorCode::ResourceUnavailable, text).with_hint("close connections that are no longer used")
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a fault of the Runner");
    }
}
