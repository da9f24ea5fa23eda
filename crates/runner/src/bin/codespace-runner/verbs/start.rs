//! `start`: starts a command on the Runner and prints its process id.

use codespace_domain::{Background, ExecRequest, IdError, OnFull, ProcessKey, StdinMode, WorkspaceId};
use codespace_policy::DEFAULT_WORKSPACE;
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exec_flags::ExecFlags;
use crate::render::Render;
use crate::{exit, values};

#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    socket: SocketFlag,
    /// The workspace that it runs in.
    #[arg(long, value_name = "ID", default_value = DEFAULT_WORKSPACE)]
    workspace: WorkspaceId,
    /// Makes a retry safe: a start with the same key finds the same process.
    #[arg(long, value_parser = key)]
    key: Option<ProcessKey>,
    /// Keep its stdin open, for `write`.
    #[arg(long)]
    stdin: bool,
    /// Give it a terminal.
    #[arg(long)]
    tty: bool,
    /// The terminal's rows.
    #[arg(long, requires = "tty", value_parser = clap::value_parser!(u16).range(1..))]
    rows: Option<u16>,
    /// The terminal's columns.
    #[arg(long, requires = "tty", value_parser = clap::value_parser!(u16).range(1..))]
    cols: Option<u16>,
    /// Keep what the command leaves running, until its whole tree has ended.
    #[arg(long)]
    background: bool,
    /// Let the command wait when nobody reads its output, instead of dropping the oldest.
    #[arg(long)]
    wait_when_full: bool,
    /// Answer at its end, at the latest after so long.
    #[arg(long, value_name = "DURATION", value_parser = values::millis, default_value = "0")]
    wait: u64,
    #[command(flatten)]
    exec: ExecFlags,
}

pub(crate) async fn run(args: StartArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let request = ExecRequest {
        process_key: args.key,
        stdin: if args.stdin { StdinMode::Pipe } else { StdinMode::None },
        tty: args.tty,
        rows: args.rows,
        cols: args.cols,
        background: if args.background { Background::Keep } else { Background::End },
        on_full: if args.wait_when_full { OnFull::Wait } else { OnFull::Drop },
        wait_ms: args.wait,
        ..args.exec.request(args.workspace)
    };
    let started = runner.exec(request).await?;
    render.result(&started, || started.process_id.to_string())?;
    Ok(exit::OK)
}

fn key(text: &str) -> Result<ProcessKey, IdError> {
    text.to_owned().try_into()
}
