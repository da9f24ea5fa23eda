//! The journal: sole owner of a process's output bytes.
//!
//! Pumps append, readers read by cursor and wait if they like. An append never waits for a reader, a reader never for
//! another one: the lock is held for no longer than one copy. What is kept is decided in [`super::kept`]; when a pump
//! should pause is asked here, with [`Journal::room`], and obeyed by the pump.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codespace_domain::{Encoding, OnFull, ReadRequest, Stream, StreamSelection};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::chunk::{self, Chunk, LEAST_MAX_BYTES, ReadError};
use super::kept::{Kept, Sizes, Wanted};

/// The most bytes of one read, whatever was asked for: as JSON text a byte becomes up to six, and a reply has to fit
/// into one 16 MiB frame of the wire.
const MOST_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// A handle on a process's output; clones are the same journal.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Shared>);

/// How much output there is, both labels together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Bytes so far.
    pub(crate) total: u64,
    /// Where the latest kept bytes begin.
    pub(crate) retained_from: u64,
    /// No more can come.
    pub(crate) eof: bool,
}

/// Which bytes one read may bring together.
#[derive(Debug, Clone, Copy)]
enum Labels {
    /// Those of the streams that were asked for.
    AsAsked,
    /// Only those that have the first one's label.
    OneAtATime,
}

/// Leave to append so many bytes. Until it is dropped nobody else gets leave for the same room.
#[derive(Debug)]
pub(crate) struct Room {
    journal: Journal,
    bytes: u64,
}

struct Shared {
    state: Mutex<State>,
    /// Bytes came, or the end.
    arrived: Notify,
    /// Unread bytes became fewer.
    freed: Notify,
}

struct State {
    kept: Kept,
    closed: bool,
    /// What pumps have leave for and have not appended yet.
    reserved: u64,
}

impl Journal {
    /// An empty journal that keeps the first 64 KiB (at most `output_bytes`) and the latest `output_bytes`.
    pub(crate) fn new(output_bytes: u64, on_full: OnFull) -> Journal {
        let kept = Kept::new(output_bytes, on_full, Sizes::DEFAULT);
        Journal(Arc::new(Shared {
            state: Mutex::new(State { kept, closed: false, reserved: 0 }),
            arrived: Notify::new(),
            freed: Notify::new(),
        }))
    }

    /// Adds output. Never waits; after [`Journal::close`] it does nothing, since readers have seen the end.
    pub(crate) fn append(&self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.kept.append(stream, bytes);
        drop(state);
        self.0.arrived.notify_waiters();
    }

    /// Waits until a byte may come, and gives leave for up to `most` (at least 1). Under [`OnFull::Drop`] that is at
    /// once; under [`OnFull::Wait`] when less than the budget is unread: beyond what any reader was given.
    pub(crate) async fn room(&self, most: u64) -> Room {
        loop {
            // Before the look at the state, so that no change after the look is missed.
            let freed = self.0.freed.notified();
            if let Some(room) = self.try_room(most) {
                return room;
            }
            freed.await;
        }
    }

    /// No more output can come. Doing it again changes nothing.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.0.arrived.notify_waiters();
    }

    /// How much there is.
    pub(crate) fn totals(&self) -> Totals {
        let state = self.lock();
        let extent = state.kept.extent(StreamSelection::Combined);
        Totals { total: extent.total, retained_from: extent.retained_from, eof: state.closed }
    }

    /// Answers a read: at once if there is a byte for it or the end, else when there is, or after `wait_ms`.
    ///
    /// The chunk has at most `max_bytes` bytes before encoding, and never more than 2 MiB. Giving the future up loses
    /// nothing.
    pub(crate) async fn read(&self, request: &ReadRequest) -> Result<Chunk, ReadError> {
        self.read_as(request, Labels::AsAsked).await
    }

    /// Answers a read of both labels with the bytes of one of them that follow each other, and says which it is.
    pub(crate) async fn read_one_label(&self, request: &ReadRequest) -> Result<Chunk, ReadError> {
        self.read_as(request, Labels::OneAtATime).await
    }

    async fn read_as(&self, request: &ReadRequest, labels: Labels) -> Result<Chunk, ReadError> {
        if request.max_bytes < LEAST_MAX_BYTES {
            return Err(ReadError::MaxBytesTooSmall { max_bytes: request.max_bytes });
        }
        // A time too far away to be told is no limit.
        let deadline = Instant::now().checked_add(Duration::from_millis(request.wait_ms));
        let mut may_wait = request.wait_ms > 0;
        let mut tail_from = None;
        loop {
            let arrived = self.0.arrived.notified();
            let (chunk, worth_it) = self.read_now(request, labels, &mut tail_from)?;
            if worth_it || !may_wait {
                return Ok(chunk);
            }
            match deadline {
                Some(deadline) => may_wait = timeout_at(deadline, arrived).await.is_ok(),
                None => arrived.await,
            }
        }
    }

    /// What there is now, and whether a reader that can wait wants to have it. Where a tail begins is decided at the first
    /// look: what comes while its reader waits is what it waits for.
    fn read_now(
        &self,
        request: &ReadRequest,
        labels: Labels,
        tail_from: &mut Option<u64>,
    ) -> Result<(Chunk, bool), ReadError> {
        let mut state = self.lock();
        let extent = state.kept.extent(request.stream);
        let total = extent.total;
        let text = request.encoding == Encoding::Utf8;
        let (cursor, cut) = match (request.tail_bytes, *tail_from) {
            (Some(_), Some(from)) => (from, false),
            // The latest bytes: what lies before a gap is no part of them.
            (Some(tail_bytes), None) => {
                let asked = total.saturating_sub(tail_bytes);
                let mut first = extent.latest_from(asked);
                if text && first == asked {
                    first = state.kept.character_end(request.stream, first);
                }
                *tail_from = Some(first);
                (first, extent.latest_from(asked) > asked)
            }
            (None, _) if request.cursor > total => return Err(ReadError::PastEnd { cursor: request.cursor, total }),
            (None, _) => (request.cursor, false),
        };
        let closed = state.closed;
        let wanted = Wanted {
            selection: request.stream,
            cursor,
            max_bytes: request.max_bytes.min(MOST_MAX_BYTES),
            whole_characters: text,
            closed,
        };
        let (slice, label) = match labels {
            Labels::AsAsked if request.peek => (state.kept.peek(&wanted), None),
            Labels::AsAsked if request.tail_bytes.is_some() => (state.kept.read_tail(&wanted), None),
            Labels::AsAsked => (state.kept.read(&wanted), None),
            Labels::OneAtATime => state.kept.read_one_label(&wanted),
        };
        let freed = state.room() > 0;
        drop(state);
        if freed {
            self.0.freed.notify_waiters();
        }

        let output_lost = slice.lost || cut;
        let worth_it = !slice.bytes.is_empty() || output_lost || closed;
        let chunk = Chunk {
            cursor: slice.cursor,
            chunk: chunk::encode(slice.bytes, request.encoding),
            encoding: request.encoding,
            eof: closed && slice.cursor == total,
            output_lost,
            retained_from: extent.retained_from,
            total,
            label,
        };
        Ok((chunk, worth_it))
    }

    fn try_room(&self, most: u64) -> Option<Room> {
        let mut state = self.lock();
        let bytes = state.room().min(most);
        if bytes == 0 {
            return None;
        }
        state.reserved += bytes;
        drop(state);
        Some(Room { journal: self.clone(), bytes })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change, so the state is whole in any case.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    fn allocated(&self) -> usize {
        self.lock().kept.allocated()
    }
}

impl fmt::Debug for Journal {
    /// How much there is, never what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Journal").field(&self.totals()).finish()
    }
}

impl State {
    fn room(&self) -> u64 {
        self.kept.room().saturating_sub(self.reserved)
    }
}

impl Room {
    /// How many bytes there is leave for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.journal.lock().reserved -= self.bytes;
        self.journal.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
