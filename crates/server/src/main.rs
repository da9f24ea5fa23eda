//! `codespace-mcp`: parses, chooses the Runner and the transport, serves, and ends what it owns.
//!
//! stdout is the protocol's (over stdio), so that everything else goes to stderr.

use std::process::ExitCode;

use clap::Parser as _;
use codespace_server::cli::{Cli, RunnerChoice};
use codespace_server::run::{RunError, run};
use nix::sys::signal::SigSet;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.complain();
            ExitCode::FAILURE
        }
    }
}

/// Everything that must be so before there is a second thread, then the server.
fn start(cli: Cli) -> Result<(), RunError> {
    // 1. A caller may have blocked signals; they would never come, and everything started here would inherit that.
    SigSet::all().thread_unblock().map_err(|errno| RunError::host("unblock signals", errno.into()))?;
    // 2. What loses its parent comes to the Runner, from the first process that it starts on. Where the Runner is another
    //    process, it does that itself; here nobody would reap what came.
    if cli.runner() == RunnerChoice::InProcess {
        codespace_runner::become_subreaper().map_err(|error| RunError::host("become a subreaper", error))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| RunError::host("start the runtime", error))?;
    let outcome = runtime.block_on(run(cli));
    // A thread may still be stuck in a read of our stdin.
    runtime.shutdown_background();
    outcome
}
