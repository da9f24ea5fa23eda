//! `wait`: waits for a process's end and mirrors its exit code.

use codespace_domain::{ProcessId, ProcessStatus, RunnerError, State, StatusRequest};
use codespace_runner::Runner;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::render::Render;

/// How long one request waits. A waiting request costs nothing; asked again, it notices a lost connection at the latest.
const WAIT_MS: u64 = 60_000;

#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
}

pub(crate) async fn run(args: WaitArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let status = until_exited(&runner, args.process_id).await?;
    render.result(&status, String::new)?;
    Ok(exit::of_status(&status))
}

/// The final status.
pub(super) async fn until_exited(
    runner: &impl Runner,
    process_id: ProcessId,
) -> Result<Box<ProcessStatus>, RunnerError> {
    loop {
        let status = runner.process_status(StatusRequest { process_id, wait_ms: WAIT_MS }).await?;
        if status.state == State::Exited {
            return Ok(status);
        }
    }
}
