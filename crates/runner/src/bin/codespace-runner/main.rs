//! `codespace-runner`: the Runner on the command line. Parses, calls the library, turns the result into an exit code.
//!
//! One file per verb in `verbs/`; `render` is the only file that prints, `exit` the table of exit codes.

mod cli;
mod colour;
mod connect;
mod descriptors;
mod detach_keys;
mod error;
mod exec_flags;
mod exit;
mod foreground;
mod help;
mod human;
mod own_job;
mod own_signals;
mod own_stdin;
mod own_stop;
mod own_streams;
mod own_terminal;
mod policy_flags;
mod render;
mod service;
mod table;
mod values;
mod verbs;

use std::process::ExitCode;

use clap::Parser as _;
use codespace_domain::escape;
use nix::sys::signal::SigSet;

use crate::cli::Cli;
use crate::error::CliError;
use crate::render::Render;

fn main() -> ExitCode {
    colour::settle();
    let Cli { verb, json } = Cli::parse();
    let render = Render::new(json);
    let is_run = matches!(verb, cli::Verb::Run(_));
    // `run` has exit codes of its own, also for what fails before its verb begins.
    let started = start(verb, render).map_err(|error| match error {
        error @ CliError::Run(_) => error,
        error if is_run => error.of_run(),
        error => error,
    });
    match started {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            render.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Everything that must be so before there is a second thread, then the verb.
fn start(mut verb: cli::Verb, render: Render) -> Result<u8, CliError> {
    // 0. What would be lost, or would fail half-way, is not begun.
    own_streams::need(verb.streams(render.is_json()))?;
    descriptors::need(verb.descriptors())?;
    // 1. What a service manager gives has the first free numbers, which anything that is opened here would have otherwise.
    if let cli::Verb::Serve(args) = &mut verb {
        args.given = service::Given::take()?;
    }
    // 2. A caller may have blocked signals; they would never come, and everything started here would inherit that.
    SigSet::all().thread_unblock().map_err(|errno| CliError::host("unblock signals", errno.into()))?;
    // 3. What loses its parent comes to the Runner, from the first process that it starts on.
    if verb.is_the_runner() {
        codespace_runner::become_subreaper().map_err(|e| CliError::host("become a subreaper", e))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::host("start the runtime", e))?;
    let outcome = runtime.block_on(verbs::run(verb, render));
    // A thread may still be stuck in a read of our stdin, or in a write to a stdout that nobody reads.
    runtime.shutdown_background();
    outcome
}
