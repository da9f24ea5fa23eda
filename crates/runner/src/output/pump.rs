//! A pump: reads one descriptor, a pipe or a pseudo-terminal's master, into the journal.
//!
//! Pauses while the journal has no room, until [`Pump::drain`] says that the tree is gone. Does not close the journal
//! ([`super::Pumps`] does, when no pump is left) and does not know why it is drained.
//!
//! ```text
//! reading --end of file, EIO of a terminal--> Eof
//!    |    --any other failure---------------> Error
//!  drain
//!    v
//! draining, room ignored --end--> Eof
//!    |
//! deadline: one last pass over what is there --end--> Eof, else --> GaveUp
//! ```

use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use codespace_domain::Stream;
use nix::errno::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until};

use super::journal::{Journal, Room};
use super::text::{self, LONGEST_BEGINNING};
use crate::sys::async_fd::{async_fd, set_nonblocking};

/// The most bytes of one read; a pipe's usual size.
const READ_BYTES: usize = 64 * 1024;
/// The most bytes of the last pass after a drain's deadline: what a pipe can hold that no privilege enlarged.
const LAST_PASS_BYTES: usize = 1024 * 1024;
/// How long the beginning of a character is held back for its rest.
const HOLD: Duration = Duration::from_secs(1);

/// Reads one descriptor until its end. Dropping it stops that and closes the descriptor.
#[derive(Debug)]
pub(super) struct Pump {
    drain: watch::Sender<Option<Instant>>,
    task: JoinHandle<PumpEnd>,
    end: Option<PumpEnd>,
}

/// How a pump ended.
#[derive(Debug)]
pub(crate) enum PumpEnd {
    /// Everything was read, to the end.
    Eof,
    /// The drain's deadline passed before the end: somebody outside of the tree still holds the other side. What
    /// was there has been read.
    GaveUp,
    /// Reading failed. What came before has been read.
    Error(io::Error),
}

impl Pump {
    /// Starts to read `fd` (which is made non-blocking) as `stream`'s bytes. `until_end` is dropped when the pump has
    /// ended, however it does. Needs a runtime with time and I/O.
    pub(super) fn start(
        fd: OwnedFd,
        stream: Stream,
        journal: Journal,
        until_end: impl Send + 'static,
    ) -> io::Result<Pump> {
        set_nonblocking(fd.as_fd())?;
        let sink = Sink::new(stream, journal, fd.is_terminal());
        let fd = async_fd(fd, Interest::READABLE)?;
        let (drain, drain_asked) = watch::channel(None);
        let task = tokio::spawn(async move {
            let end = run(fd, sink, drain_asked).await;
            drop(until_end);
            end
        });
        Ok(Pump { drain, task, end: None })
    }

    /// The tree is gone: read what is there to the end, whatever room there is, and give up after `deadline` (then
    /// somebody else holds the other side). The first call counts.
    pub(super) fn drain(&self, deadline: Duration) {
        let now = Instant::now();
        self.drain.send_if_modified(|asked| {
            let first = asked.is_none();
            // A deadline too far away to be told is a year.
            asked.get_or_insert_with(|| now.checked_add(deadline).unwrap_or(now + Duration::from_secs(365 * 86_400)));
            first
        });
    }

    /// Waits for the end; all that was read is in the journal by then. May be given up and asked again, also after
    /// the end.
    pub(super) async fn ended(&mut self) -> PumpEnd {
        if let Some(end) = &self.end {
            return end.again();
        }
        let end = match (&mut self.task).await {
            Ok(end) => end,
            Err(failed) => PumpEnd::Error(io::Error::other(failed)),
        };
        self.end.insert(end).again()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PumpEnd {
    /// The same, for one more who asks.
    fn again(&self) -> PumpEnd {
        match self {
            Self::Eof => Self::Eof,
            Self::GaveUp => Self::GaveUp,
            Self::Error(error) => Self::Error(match error.raw_os_error() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
        }
    }
}

/// All that can wake a pump.
enum Wake<'a> {
    DrainAsked(Instant),
    Readable(io::Result<(AsyncFdReadyGuard<'a, OwnedFd>, Option<Room>)>),
    HeldLongEnough,
    DrainOver,
}

/// What one read brought.
enum Took {
    Bytes(usize),
    /// Nothing is there at the moment.
    Nothing,
    End(PumpEnd),
}

async fn run(fd: AsyncFd<OwnedFd>, mut sink: Sink, mut drain_asked: watch::Receiver<Option<Instant>>) -> PumpEnd {
    let mut give_up_at = None;
    let end = loop {
        let journal = sink.journal.clone();
        let wake = tokio::select! {
            biased;
            at = asked(&mut drain_asked), if give_up_at.is_none() => Wake::DrainAsked(at),
            ready = readable(&fd, &journal, give_up_at.is_some()) => Wake::Readable(ready),
            () = until(sink.held_until) => Wake::HeldLongEnough,
            () = until(give_up_at) => Wake::DrainOver,
        };
        match wake {
            Wake::DrainAsked(at) => give_up_at = Some(at),
            Wake::HeldLongEnough => sink.let_go(),
            Wake::DrainOver => break last_pass(fd.get_ref().as_fd(), &mut sink).await,
            Wake::Readable(Err(error)) => break PumpEnd::Error(error),
            Wake::Readable(Ok((mut guard, room))) => {
                let most = room.as_ref().map_or(READ_BYTES, |room| room.bytes() as usize);
                match sink.take(guard.get_inner().as_fd(), most) {
                    Took::Bytes(_) => {}
                    Took::Nothing => guard.clear_ready(),
                    Took::End(end) => break end,
                }
                drop((guard, room));
                // Somebody who writes without a pause must neither outlast the deadline nor starve other tasks.
                if give_up_at.is_some_and(|at| at <= Instant::now()) {
                    break last_pass(fd.get_ref().as_fd(), &mut sink).await;
                }
                yield_now().await;
            }
        }
    };
    sink.let_go();
    end
}

/// Reads what is there, without waiting: the deadline may have passed before the pump ever had its turn.
async fn last_pass(fd: BorrowedFd<'_>, sink: &mut Sink) -> PumpEnd {
    let mut left = LAST_PASS_BYTES;
    while left > 0 {
        match sink.take(fd, READ_BYTES.min(left)) {
            Took::Bytes(len) => left -= len,
            Took::Nothing => break,
            Took::End(end) => return end,
        }
        yield_now().await;
    }
    PumpEnd::GaveUp
}

/// There is something to read, and, unless draining, room for it. In this order, so that a quiet pump keeps no room
/// from the other one.
async fn readable<'a>(
    fd: &'a AsyncFd<OwnedFd>,
    journal: &Journal,
    draining: bool,
) -> io::Result<(AsyncFdReadyGuard<'a, OwnedFd>, Option<Room>)> {
    let guard = fd.readable().await?;
    let room = if draining { None } else { Some(journal.room(READ_BYTES as u64).await) };
    Ok((guard, room))
}

async fn asked(drain: &mut watch::Receiver<Option<Instant>>) -> Instant {
    loop {
        let at = *drain.borrow_and_update();
        if let Some(at) = at {
            return at;
        }
        if drain.changed().await.is_err() {
            return pending().await;
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Where the bytes of one descriptor go: to the journal, but for the beginning of a character that has not ended, so
/// that the other label's bytes do not come in between.
struct Sink {
    stream: Stream,
    journal: Journal,
    /// Linux tells the end of a terminal's output, when its other side is closed, with EIO.
    eio_is_end: bool,
    buffer: Box<[u8]>,
    /// How many bytes at the buffer's start are held back.
    held: usize,
    held_until: Option<Instant>,
}

impl Sink {
    fn new(stream: Stream, journal: Journal, eio_is_end: bool) -> Self {
        let buffer = vec![0; LONGEST_BEGINNING + READ_BYTES].into_boxed_slice();
        Self { stream, journal, eio_is_end, buffer, held: 0, held_until: None }
    }

    /// Reads once, at most `most` bytes.
    fn take(&mut self, fd: BorrowedFd<'_>, most: usize) -> Took {
        let into = self.held..(self.held + most).min(self.buffer.len());
        loop {
            return match nix::unistd::read(fd, &mut self.buffer[into.clone()]) {
                Ok(0) => Took::End(PumpEnd::Eof),
                Ok(len) => {
                    self.pass_on(self.held + len);
                    Took::Bytes(len)
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Took::Nothing,
                Err(Errno::EIO) if self.eio_is_end => Took::End(PumpEnd::Eof),
                Err(errno) => Took::End(PumpEnd::Error(errno.into())),
            };
        }
    }

    /// Gives the buffer's first `len` bytes to the journal, but for the beginning of a character.
    fn pass_on(&mut self, len: usize) {
        let whole = len - text::unfinished(&self.buffer[..len]);
        self.journal.append(self.stream, &self.buffer[..whole]);
        self.buffer.copy_within(whole..len, 0);
        self.held = len - whole;
        self.held_until = (self.held > 0).then(|| Instant::now() + HOLD);
    }

    /// Gives up on the rest of a character.
    fn let_go(&mut self) {
        self.journal.append(self.stream, &self.buffer[..self.held]);
        self.held = 0;
        self.held_until = None;
    }
}

#[cfg(test)]
mod tests;
