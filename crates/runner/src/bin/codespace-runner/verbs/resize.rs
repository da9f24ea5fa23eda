//! `resize`: sets the size of a process's terminal.

use codespace_domain::{ProcessId, ResizeRequest};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    rows: u16,
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    cols: u16,
}

pub(crate) async fn run(args: ResizeArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let request = ResizeRequest { process_id: args.process_id, rows: args.rows, cols: args.cols };
    let size = runner.process_resize(request).await?;
    render.result(&size, String::new)?;
    Ok(exit::OK)
}
