//! Waits for a process, in steps. A Runner behind a socket goes on with a wait that was given up here until its time is
//! over, and takes nothing more of a connection on which very many are pending: also no `terminate_process`. So it is never
//! asked to wait for long.

use std::time::Duration;

use codespace_domain::{ProcessStatus, ReadReply, ReadRequest, RunnerError, State, StatusRequest};
use codespace_runner::Runner as _;
use tokio::time::Instant;

use crate::backend::Client;

/// The longest wait of one request.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// Longer than any client waits.
const MOST_WAIT_MS: u64 = 24 * 60 * 60 * 1000;

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// So many milliseconds from now.
    pub(super) fn after(wait_ms: u64) -> Self {
        Self(Instant::now() + Duration::from_millis(wait_ms.min(MOST_WAIT_MS)))
    }

    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it is not worth another request.
    pub(super) fn is_over(self) -> bool {
        self.left() < Duration::from_millis(1)
    }

    /// What one request may wait, in milliseconds.
    fn step(self) -> u64 {
        ms(self.left().min(LONGEST))
    }
}

/// `process_status`.
pub(super) async fn for_the_end(
    runner: &Client,
    mut request: StatusRequest,
) -> Result<Box<ProcessStatus>, RunnerError> {
    let deadline = Deadline::after(request.wait_ms);
    loop {
        request.wait_ms = deadline.step();
        let status = runner.process_status(request.clone()).await?;
        if status.state == State::Exited || deadline.is_over() {
            return Ok(status);
        }
    }
}

/// `read_process`.
pub(super) async fn for_output(runner: &Client, mut request: ReadRequest) -> Result<ReadReply, RunnerError> {
    let deadline = Deadline::after(request.wait_ms);
    loop {
        request.wait_ms = deadline.step();
        let reply = runner.read_process(request.clone()).await?;
        if !reply.chunk.is_empty() || reply.eof || reply.output_lost || deadline.is_over() {
            return Ok(reply);
        }
        // Where a tail begins was decided at the first look.
        request.cursor = reply.cursor;
        request.tail_bytes = None;
    }
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
