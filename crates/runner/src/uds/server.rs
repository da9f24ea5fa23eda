//! Accepts connections, gives each a Runner of its own, and closes all of them at the Runner's end.
//!
//! Owns the set of connections; what happens on one is `session`'s.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::listener::Listener;
use super::session::{HELLO_DEADLINE, converse};
use crate::api::Runner;

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
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
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

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a fault of the Runner");
    }
}
