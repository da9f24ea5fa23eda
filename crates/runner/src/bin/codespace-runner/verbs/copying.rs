//! A process's output to our own, byte by byte, to its end. Blocking writes happen on threads for that, so that a reader of
//! ours who pauses holds up nothing else; and no more is read before it has taken what was.

use codespace_domain::{Encoding, ProcessId, ReadRequest, Stream, StreamSelection};
use codespace_runner::Runner;

use super::logs;
use crate::error::CliError;
use crate::render::Render;

/// The most bytes of one read.
const PIECE: u64 = 256 * 1024;
/// How long one read waits for the next byte.
const WAIT_MS: u64 = 60_000;

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    /// With the oldest byte that is kept.
    Start,
    /// With the first line that begins in the latest so many bytes.
    Tail(u64),
}

/// Copies one of the process's streams to ours. `lost` is told each time that bytes were no longer kept.
pub(super) async fn copy(
    runner: &impl Runner,
    process_id: ProcessId,
    stream: Stream,
    from: From,
    render: Render,
    mut lost: impl FnMut() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut request = ReadRequest {
        wait_ms: WAIT_MS,
        max_bytes: PIECE,
        stream: match stream {
            Stream::Stdout => StreamSelection::Stdout,
            Stream::Stderr => StreamSelection::Stderr,
        },
        encoding: Encoding::Base64,
        ..ReadRequest::new(process_id)
    };
    if let From::Tail(bytes) = from {
        // What is there already, without waiting.
        request.wait_ms = 0;
        request.tail_bytes = Some(bytes);
    }
    loop {
        let read = runner.read_process(request.clone()).await?;
        if read.output_lost {
            lost()?;
        }
        let mut bytes = logs::decode(&read)?;
        if request.tail_bytes.take().is_some() && read.cursor > bytes.len() as u64 {
            let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            bytes.drain(..line);
        }
        request.cursor = read.cursor;
        request.wait_ms = WAIT_MS;
        if !bytes.is_empty() {
            let written = tokio::task::spawn_blocking(move || render.bytes(stream, &bytes)).await;
            written.map_err(|e| CliError::host("write the output", e.into()))??;
        }
        if read.eof {
            return Ok(());
        }
    }
}
