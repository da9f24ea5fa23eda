//! `run`: one command in this directory, without a daemon. Streams its output, passes stdin on, mirrors its exit code.
//!
//! - `ends`: which signal or loss leads to what, and the exit code; pure.
//! - `supervise`: the command's life, from its start to its last byte.
//! - `streams`: its output to ours.
//! - `job`: being stopped and continued by a shell, and the size of the terminal.

mod ends;
mod job;
mod streams;
mod supervise;

use std::sync::Arc;

use codespace_domain::{ErrorCode, ExecRequest, Lifetime, OnFull, ProcessKey, RunnerError, StdinMode};
use codespace_policy::DEFAULT_WORKSPACE;
use codespace_runner::{InProcessRunner, RunnerConfig};

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exec_flags::ExecFlags;
use crate::own_job::{OwnJob, Told};
use crate::own_signals::number_of;
use crate::own_terminal::{self, OwnTerminal};
use crate::policy_flags::PolicyFlags;
use crate::render::Render;
use crate::{exit, own_stop};

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    policy: PolicyFlags,
    /// Give it a terminal, with the size and the keys of ours. There is no way to detach: nobody would keep the command.
    #[arg(long)]
    tty: bool,
    /// Not connected to, only kept out of the command's reach.
    #[command(flatten)]
    socket: SocketFlag,
    #[command(flatten)]
    exec: ExecFlags,
}

pub(crate) async fn run(args: RunArgs, render: Render) -> Result<u8, CliError> {
    run_here(args, render).await.map_err(CliError::of_run)
}

async fn run_here(args: RunArgs, render: Render) -> Result<u8, CliError> {
    let mut job = OwnJob::catch().map_err(|e| CliError::host("catch signals", e))?;

    let mut config = RunnerConfig::new(args.policy.registry()?);
    // A Runner that is a daemon of the same user would do anything for whoever reaches its socket.
    config.forbidden.extend(args.socket.path().parent().filter(|dir| dir.exists()).map(Into::into));
    let starting = InProcessRunner::start(config);
    tokio::pin!(starting);
    let runner = loop {
        tokio::select! {
            runner = &mut starting => break runner?,
            // Nothing has been started yet.
            told = job.next() => match told {
                Told::End(signal) => return Ok(exit::of_signal(number_of(signal))),
                Told::Stop => own_stop::stop().map_err(|e| CliError::host("stop", e))?,
                Told::Continue | Told::Resized => {}
            },
        }
    };
    let request = request(&args, render)?;
    // Where nothing is shown it is no session at a terminal, and Ctrl-C means `run`.
    let terminal = if args.tty && !render.is_json() {
        OwnTerminal::of_stdin().map_err(|e| CliError::host("look at the terminal", e))?
    } else {
        None
    };
    let ends = ends::Ends::new(args.exec.grace);
    supervise::supervise(Arc::new(runner.session()), request, ends, job, terminal, render).await
}

fn request(args: &RunArgs, render: Render) -> Result<ExecRequest, CliError> {
    let broken = |e| RunnerError::new(ErrorCode::Internal, format!("name the command: {e}"));
    let workspace = DEFAULT_WORKSPACE.parse().map_err(broken)?;
    // By its key the start can be ended before its process id is known.
    let key = ProcessKey::try_from("run".to_owned()).map_err(broken)?;
    let size = own_terminal::size().filter(|_| args.tty);
    Ok(ExecRequest {
        process_key: Some(key),
        tty: args.tty,
        rows: size.map(|size| size.rows),
        cols: size.map(|size| size.cols),
        stdin: StdinMode::Pipe,
        lifetime: Lifetime::Connection,
        // Streamed, every byte is read, and the command waits for that. In one object at the end, the latest are shown.
        on_full: if render.is_json() { OnFull::Drop } else { OnFull::Wait },
        ..args.exec.request(workspace)
    })
}
