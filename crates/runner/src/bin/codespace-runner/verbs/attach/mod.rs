//! `attach`: a running process at this terminal: its output here, what is typed here to it, until it ends or the keys to
//! leave it are typed. The process goes on whatever becomes of us.
//!
//! - `session`: the loop, and what each event leads to.

mod session;

use std::sync::Arc;

use codespace_domain::{ProcessId, StatusRequest};
use codespace_runner::Runner as _;

use super::copying::From;
use crate::connect::SocketFlag;
use crate::detach_keys::DetachKeys;
use crate::error::CliError;
use crate::own_job::OwnJob;
use crate::own_terminal::OwnTerminal;
use crate::render::Render;
use crate::values;

#[derive(Debug, clap::Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// First show all the output that is kept.
    #[arg(long)]
    from_start: bool,
    /// First show the lines of the last so many bytes of output.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "4K", conflicts_with = "from_start")]
    tail: u64,
    /// Pass no input on.
    #[arg(long)]
    no_stdin: bool,
    /// The keys that leave a process with a terminal, with commas between them; or none.
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    detach_keys: DetachKeys,
}

pub(crate) async fn run(args: AttachArgs, render: Render) -> Result<u8, CliError> {
    let process_id = args.process_id;
    let runner = Arc::new(args.socket.connect().await?);
    let status = runner.process_status(StatusRequest { process_id, wait_ms: 0 }).await?;
    // Where its output is not shown, or nothing is typed, it is no session at a terminal.
    let at_terminal = status.tty && !args.no_stdin && !render.is_json();
    let terminal = if at_terminal {
        OwnTerminal::of_stdin().map_err(|e| CliError::host("look at the terminal", e))?
    } else {
        None
    };
    // From here on, not before: until then a signal ends us as any program.
    let job = OwnJob::catch().map_err(|e| CliError::host("catch signals", e))?;
    let session = session::Session {
        keys: if terminal.is_some() { args.detach_keys } else { DetachKeys::none() },
        from: if args.from_start { From::Start } else { From::Tail(args.tail) },
        stdin: !args.no_stdin,
        tty: status.tty,
        runner,
        process_id,
        terminal,
        render,
    };
    session.run(job).await
}
