//! A connection that is not served: its peer is told why, and can read that whatever it is doing itself.
//!
//! To write the reason and close is not enough. A peer that then writes its first request gets a broken pipe in place of
//! the words, and a close with bytes of it unread resets the connection. So after the words our sending direction is closed
//! alone, and what the peer sends is read and thrown away, until it closes or [`PATIENCE`] is over. How many may be waited
//! for is bounded as well: beyond that, a connection is closed without a word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::RunnerError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::wire::frame;
use crate::wire::message::{ErrorObject, Response};

/// How long a peer has to read why, and to close its end.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How many of them may be there at once.
const MOST: usize = 32;

/// The door.
#[derive(Debug)]
pub(super) struct TurnedAway {
    places: Arc<Semaphore>,
}

impl TurnedAway {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST)) }
    }

    /// Tells the peer `why`, in a task of its own. Needs the runtime.
    pub(super) fn tell(&self, mut stream: UnixStream, why: &RunnerError) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return tracing::debug!("closed a connection without a word: too many are being turned away");
        };
        let Ok(frame) = frame::encode(&Response::error(None, ErrorObject::from(why))) else { return };
        tokio::spawn(async move {
            let told = async {
                stream.write_all(&frame).await?;
                stream.shutdown().await?;
                discard(&mut stream).await
            };
            match timeout(PATIENCE, told).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection that was turned away broke"),
                Err(_) => tracing::debug!("closed a connection that was turned away and did not leave"),
            }
            drop(place);
        });
    }
}

/// Reads until the peer has closed.
pub(super) async fn discard(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).await? > 0 {}
    Ok(())
}
