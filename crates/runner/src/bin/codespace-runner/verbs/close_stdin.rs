//! `close-stdin`: ends a process's stdin; a terminal gets its end-of-file character.

use codespace_domain::{CloseStdinRequest, ProcessId};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct CloseStdinArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
}

pub(crate) async fn run(args: CloseStdinArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let done = runner.close_stdin(CloseStdinRequest { process_id: args.process_id }).await?;
    render.result(&done, String::new)?;
    Ok(exit::OK)
}
