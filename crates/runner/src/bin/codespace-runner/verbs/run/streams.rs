//! The command's output to our own, of which no byte may be lost; or what is kept of it, at its end.

use std::sync::Arc;

use codespace_domain::{ErrorCode, ProcessId, ReadReply, ReadRequest, RunnerError, Stream};
use codespace_runner::Runner;

use super::super::copying::{self, From};
use crate::error::CliError;
use crate::render::Render;

/// The most bytes of one read.
const PIECE: u64 = 256 * 1024;
/// How long one read waits for the next byte.
const WAIT_MS: u64 = 60_000;

/// Copies one of the command's streams to ours, to its end.
pub(super) async fn copy(
    runner: Arc<impl Runner>,
    process_id: ProcessId,
    stream: Stream,
    render: Render,
) -> Result<(), CliError> {
    let lost = || Err(RunnerError::new(ErrorCode::Internal, "keep the command's output until it was read").into());
    copying::copy(&*runner, process_id, stream, From::Start, render, lost).await
}

/// All that is kept of the output, from its beginning, as one read.
pub(super) async fn kept(runner: &impl Runner, process_id: ProcessId) -> Result<ReadReply, RunnerError> {
    let mut request = ReadRequest { wait_ms: WAIT_MS, max_bytes: PIECE, ..ReadRequest::new(process_id) };
    let mut whole = runner.read_process(request.clone()).await?;
    while !whole.eof {
        request.cursor = whole.cursor;
        let next = runner.read_process(request.clone()).await?;
        let chunk = std::mem::take(&mut whole.chunk) + &next.chunk;
        whole = ReadReply { chunk, output_lost: whole.output_lost || next.output_lost, ..next };
    }
    Ok(whole)
}
