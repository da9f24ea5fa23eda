//! `signal`: sends a signal to a command's process group.

use codespace_domain::{ProcessId, SignalName, SignalRequest};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// INT, TERM, HUP, QUIT, USR1, USR2, WINCH, CONT, STOP or KILL.
    signal: SignalName,
}

pub(crate) async fn run(args: SignalArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let request = SignalRequest { process_id: args.process_id, signal: args.signal };
    let done = runner.signal_process(request).await?;
    render.result(&done, String::new)?;
    Ok(exit::OK)
}
