//! Our stdin to a process's: in order, bounded, and without ever standing in the way of anything else.
//!
//! Where keys can leave the process, they are looked for also while the process reads nothing; what it then does not take
//! is dropped beyond a bound, as a terminal does it. Elsewhere nothing is dropped: our own input waits.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{CloseStdinRequest, ErrorCode, ProcessId, Reply, Request, RunnerError, StatusRequest};
use codespace_runner::{Pending, Runner};
use tokio::time::timeout;

use super::write;
use crate::detach_keys::DetachKeys;
use crate::own_stdin;

/// So many bytes wait for a process that does not read, beside those that the Runner has been given.
const WAITING: usize = 256 * 1024;
/// How long the Runner may take to tell that it has what was typed before a detach.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Why no more is passed on.
#[derive(Debug)]
pub(super) enum Typed {
    /// The keys for it were typed.
    Detached,
    /// Our input, or the process's, is at its end.
    Ended,
    /// Ours could not be read.
    Failed(io::Error),
}

/// The typing at one process.
pub(super) struct Typing<R> {
    runner: Arc<R>,
    process_id: ProcessId,
    tty: bool,
    keys: DetachKeys,
    /// What the process was not asked to take yet.
    waiting: Vec<u8>,
    /// What it was asked to take.
    write: Option<Pending>,
    /// The process takes input, as far as is known.
    wanted: bool,
    /// Its terminal, if it has one, is at the beginning of a line.
    at_line_start: bool,
}

impl<R: Runner> Typing<R> {
    pub(super) fn new(runner: Arc<R>, process_id: ProcessId, tty: bool, keys: DetachKeys) -> Self {
        let waiting = Vec::new();
        Self { runner, process_id, tty, keys, waiting, write: None, wanted: true, at_line_start: true }
    }

    /// Passes on what comes, and ends the process's stdin where ours ends. `dropped` counts the bytes that it did not take.
    pub(super) async fn pass_on(mut self, dropped: &mut u64) -> Typed {
        let mut pieces = match own_stdin::pieces() {
            Ok(pieces) => Some(pieces),
            Err(error) => return Typed::Failed(error),
        };
        let mut outcome = Typed::Ended;
        while pieces.is_some() || self.write.is_some() {
            let room = !self.keys.is_none() || self.waiting.len() < WAITING;
            tokio::select! {
                piece = next(&mut pieces), if room && pieces.is_some() => match piece {
                    Some(Ok(piece)) => {
                        let passed = self.keys.feed(piece);
                        *dropped += self.take(passed.bytes);
                        if passed.detach {
                            self.say_the_last().await;
                            return Typed::Detached;
                        }
                    }
                    end => {
                        if let Some(Err(error)) = end {
                            outcome = Typed::Failed(error);
                        }
                        pieces = None;
                        let held = self.keys.release();
                        *dropped += self.take(held);
                    }
                },
                written = answered(&mut self.write) => {
                    self.write = None;
                    if let Err(error) = written {
                        tracing::debug!(%error, "the process did not take its input");
                        self.wanted &= !matches!(error.code, ErrorCode::StdinClosed | ErrorCode::ProcessNotRunning);
                        // The keys to leave are looked for all the same.
                        if !self.wanted && self.keys.is_none() {
                            return outcome;
                        }
                    }
                    self.ask();
                }
            }
        }
        self.end_stdin().await;
        outcome
    }

    /// Puts bytes into the order; how many there was no room for.
    fn take(&mut self, bytes: Vec<u8>) -> u64 {
        let Some(last) = bytes.last() else { return 0 };
        if !self.wanted {
            return 0;
        }
        if !self.keys.is_none() && self.waiting.len() + bytes.len() > WAITING {
            return bytes.len() as u64;
        }
        self.at_line_start = matches!(last, b'\n' | b'\r');
        self.waiting.extend(bytes);
        self.ask();
        0
    }

    /// Asks the process to take what waits. One request at a time, so that no more than that is under way.
    fn ask(&mut self) {
        if self.write.is_none() && self.wanted && !self.waiting.is_empty() {
            let bytes = std::mem::take(&mut self.waiting);
            self.write = Some(self.runner.call(Request::WriteStdin(write::request(self.process_id, &bytes, None))));
        }
    }

    /// Makes sure that the Runner has all that was typed, whether or not the process ever reads it.
    async fn say_the_last(&mut self) {
        self.write = None;
        self.ask();
        // Requests of one connection take effect in their order: when this one is answered, the write has its place.
        let here = self.runner.process_status(StatusRequest { process_id: self.process_id, wait_ms: 0 });
        drop(timeout(LAST_WORD, here).await);
    }

    async fn end_stdin(&mut self) {
        // In the middle of a line a terminal's end-of-file character only sends off what there is of the line.
        let times = if self.tty && !self.at_line_start { 2 } else { 1 };
        for _ in 0..times {
            if let Err(error) = self.runner.close_stdin(CloseStdinRequest { process_id: self.process_id }).await {
                tracing::debug!(%error, "the process wants no more input");
            }
        }
    }
}

async fn next<T>(pieces: &mut Option<tokio::sync::mpsc::Receiver<T>>) -> Option<T> {
    match pieces {
        Some(pieces) => pieces.recv().await,
        None => pending().await,
    }
}

async fn answered(write: &mut Option<Pending>) -> Result<Reply, RunnerError> {
    match write {
        Some(write) => write.await,
        None => pending().await,
    }
}
