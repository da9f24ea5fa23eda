//! `logs`: prints a process's output, byte by byte as it came; with `-f` until its end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codespace_domain::{Encoding, ErrorCode, ProcessId, ReadReply, ReadRequest, RunnerError, Stream, StreamSelection};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::render::Render;
use crate::{exit, values};

/// The most bytes of one read.
const PIECE: u64 = 256 * 1024;
/// How long one read waits.
const WAIT_MS: u64 = 60_000;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// Go on until no more output can come. With --json, one object for each read.
    #[arg(long, short)]
    follow: bool,
    /// Only the last so many bytes of what there is.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    tail: Option<u64>,
    /// Only one of the streams.
    #[arg(long, default_value = "combined")]
    stream: StreamArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StreamArg {
    Combined,
    Stdout,
    Stderr,
}

pub(crate) async fn run(args: LogsArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let mut request = ReadRequest {
        max_bytes: PIECE,
        tail_bytes: args.tail,
        stream: match args.stream {
            StreamArg::Combined => StreamSelection::Combined,
            StreamArg::Stdout => StreamSelection::Stdout,
            StreamArg::Stderr => StreamSelection::Stderr,
        },
        encoding: if render.is_json() { Encoding::Utf8 } else { Encoding::Base64 },
        ..ReadRequest::new(args.process_id)
    };
    let mut whole: Option<ReadReply> = None;
    loop {
        let mut read = runner.read_process(request.clone()).await?;
        let at_end = read.eof || (!args.follow && (read.chunk.is_empty() || read.cursor >= read.total));
        request.cursor = read.cursor;
        request.tail_bytes = None;
        request.wait_ms = if args.follow { WAIT_MS } else { 0 };
        if !render.is_json() {
            if read.output_lost {
                render.note("some output is no longer kept");
            }
            render.bytes(Stream::Stdout, &decode(&read)?)?;
        } else if args.follow {
            render.object(&read)?;
        } else {
            if let Some(before) = whole.take() {
                read.chunk.insert_str(0, &before.chunk);
                read.output_lost |= before.output_lost;
            }
            whole = Some(read);
        }
        if at_end {
            break;
        }
    }
    if let Some(whole) = whole {
        render.object(&whole)?;
    }
    Ok(exit::OK)
}

/// The bytes of a read that asked for base64.
pub(super) fn decode(read: &ReadReply) -> Result<Vec<u8>, RunnerError> {
    STANDARD
        .decode(&read.chunk)
        .map_err(|e| RunnerError::new(ErrorCode::Internal, format!("read the output's base64: {e}")))
}
