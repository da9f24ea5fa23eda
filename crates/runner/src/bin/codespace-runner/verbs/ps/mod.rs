//! `ps`: the processes that the Runner keeps, as a table; with `--watch` again and again.
//!
//! - `rows`: a process as a row; pure.
//! - `watch`: looks again, and draws or prints what is new.

mod rows;
mod watch;

use std::time::SystemTime;

use codespace_domain::{ListRequest, State, WorkspaceId};
use codespace_runner::Runner as _;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::render::Render;
use crate::{exit, own_streams};

#[derive(Debug, clap::Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    socket: SocketFlag,
    /// Only of this workspace.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// Only in this state.
    #[arg(long)]
    state: Option<StateArg>,
    /// Show it every second until Ctrl-C. Without a terminal a table comes only when something has changed, with --json
    /// an object.
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StateArg {
    Running,
    Exited,
}

pub(crate) async fn run(args: PsArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let state = args.state.map(|state| match state {
        StateArg::Running => State::Running,
        StateArg::Exited => State::Exited,
    });
    let request = ListRequest { workspace_id: args.workspace, state };
    if args.watch {
        return watch::run(&runner, request, render).await;
    }
    let list = runner.list_processes(request).await?;
    let width = own_streams::terminal_size().map(|(_, columns)| columns);
    render.result(&list, || rows::table(&list.processes, SystemTime::now(), width, render.paint()).concat())?;
    Ok(exit::OK)
}
