//! The command's output to our own, and our own input to the command's. Bytes stay bytes; the order within a stream is
//! the command's. Blocking writes happen on threads for that, so that a reader of ours who pauses holds up nothing else.

use std::sync::Arc;

use codespace_domain::{
    CloseStdinRequest, Encoding, ErrorCode, ProcessId, ReadReply, ReadRequest, RunnerError, Stream, StreamSelection,
};
use codespace_runner::Runner;

use super::super::{logs, write};
use crate::error::CliError;
use crate::own_stdin;
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
    let selection = match stream {
        Stream::Stdout => StreamSelection::Stdout,
        Stream::Stderr => StreamSelection::Stderr,
    };
    let mut request = ReadRequest {
        wait_ms: WAIT_MS,
        max_bytes: PIECE,
        stream: selection,
        encoding: Encoding::Base64,
        ..ReadRequest::new(process_id)
    };
    loop {
        let read = runner.read_process(request.clone()).await?;
        if read.output_lost {
            return Err(RunnerError::new(ErrorCode::Internal, "keep the command's output until it was read").into());
        }
        request.cursor = read.cursor;
        let bytes = logs::decode(&read)?;
        if !bytes.is_empty() {
            let written = tokio::task::spawn_blocking(move || render.bytes(stream, &bytes)).await;
            written.map_err(|e| CliError::host("write the output", e.into()))??;
        }
        if read.eof {
            return Ok(());
        }
    }
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

/// Passes our stdin on as it comes, and closes the command's at its end. A command that has closed its own, or has
/// ended, wants no more; that is no failure.
pub(super) async fn pass_stdin(runner: Arc<impl Runner>, process_id: ProcessId, render: Render) {
    match own_stdin::pieces() {
        Ok(mut pieces) => {
            while let Some(piece) = pieces.recv().await {
                match piece {
                    Ok(piece) => {
                        if runner.write_stdin(write::request(process_id, &piece, None)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        render.note(&format!("failed to read stdin: {error}"));
                        break;
                    }
                }
            }
        }
        Err(error) => render.note(&format!("failed to read stdin: {error}")),
    }
    if let Err(error) = runner.close_stdin(CloseStdinRequest { process_id }).await {
        tracing::debug!(%error, "the command wants no more input");
    }
}
