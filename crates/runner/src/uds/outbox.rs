//! What one connection has still to send: one queue, one writer.
//!
//! Owns the bound on it. A peer that does not read fills its own queue only: from [`FULL`] on, no request of it is taken
//! and none of its waiting answers is fetched, so what it costs is the queue and the answers that were just being made.

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Bytes in the queue from which on it is full: 4 MiB.
const FULL: usize = 4 * 1024 * 1024;

/// Bytes in the queue from which on nothing is told unasked. Less, so that who is flooded by what it has subscribed to can
/// still ask for the flood's end.
const ENOUGH: usize = 1024 * 1024;

/// Puts frames into the queue. The writer ends, and closes its direction, when the last of these is dropped.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    level: watch::Sender<Level>,
}

/// How full the queue is. Watchers are woken only when one of the two changes, not by every frame.
#[derive(Debug, Default)]
struct Level {
    bytes: usize,
    full: bool,
    enough: bool,
}

impl Level {
    fn set(&mut self, bytes: usize) -> bool {
        let was = (self.full, self.enough);
        *self = Self { bytes, full: bytes >= FULL, enough: bytes >= ENOUGH };
        was != (self.full, self.enough)
    }
}

/// The queue of a connection, and the one task that empties it; dropping that gives up what is still queued.
pub(super) fn open(stream: OwnedWriteHalf) -> (Outbox, JoinSet<io::Result<()>>) {
    let (frames, queue) = mpsc::unbounded_channel();
    let level = watch::Sender::default();
    let mut writer = JoinSet::new();
    writer.spawn(write_all(stream, queue, level.clone()));
    (Outbox { frames, level }, writer)
}

impl Outbox {
    /// Queues a frame. Lost when the writer has ended, for then there is nobody to send it to.
    pub(super) fn send(&self, frame: Vec<u8>) {
        self.level.send_if_modified(|level| level.set(level.bytes + frame.len()));
        if self.frames.send(frame).is_err() {
            tracing::trace!("an answer came after its connection's end");
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.level.borrow().full
    }

    /// Waits until the queue is, or is no longer, full.
    pub(super) async fn until_full(&self, full: bool) {
        drop(self.level.subscribe().wait_for(|level| level.full == full).await);
    }

    /// Waits until something may be told unasked.
    pub(super) async fn until_wanting(&self) {
        drop(self.level.subscribe().wait_for(|level| !level.enough).await);
    }

    /// The output of `answer`, which is only asked for it while there is room in the queue.
    pub(super) async fn when_room<F: Future + Unpin>(&self, mut answer: F) -> F::Output {
        loop {
            self.until_full(false).await;
            tokio::select! {
                biased;
                () = self.until_full(true) => {}
                output = &mut answer => return output,
            }
        }
    }
}

async fn write_all(
    mut stream: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    level: watch::Sender<Level>,
) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        stream.write_all(&frame).await?;
        level.send_if_modified(|level| level.set(level.bytes.saturating_sub(frame.len())));
    }
    stream.shutdown().await
}
