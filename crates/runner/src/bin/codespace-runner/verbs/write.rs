//! `write`: writes to a process's stdin, from the command line or from our own stdin.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codespace_domain::{CloseStdinRequest, Encoding, ProcessId, WriteStdinReply, WriteStdinRequest};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::render::Render;
use crate::{exit, own_stdin};

#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// What to write, as it is; without it, all of our own stdin.
    data: Option<OsString>,
    /// Makes a retry safe: what has the same key is written once.
    #[arg(long, requires = "data")]
    key: Option<String>,
    /// End the process's stdin afterwards.
    #[arg(long)]
    close: bool,
}

pub(crate) async fn run(args: WriteArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let process_id = args.process_id;
    let mut written = 0;
    if let Some(data) = args.data {
        written = runner.write_stdin(request(process_id, &data.into_vec(), args.key)).await?.written;
    } else {
        let failed = |e| CliError::host("read stdin", e);
        let mut pieces = own_stdin::pieces().map_err(failed)?;
        while let Some(piece) = pieces.recv().await {
            written += runner.write_stdin(request(process_id, &piece.map_err(failed)?, None)).await?.written;
        }
    }
    if args.close {
        runner.close_stdin(CloseStdinRequest { process_id }).await?;
    }
    render.result(&WriteStdinReply { written }, || format!("{written} bytes written"))?;
    Ok(exit::OK)
}

/// Any bytes, for a process's stdin.
pub(super) fn request(process_id: ProcessId, data: &[u8], write_key: Option<String>) -> WriteStdinRequest {
    WriteStdinRequest { process_id, data: STANDARD.encode(data), encoding: Encoding::Base64, write_key }
}
