//! The verbs, one file each. Each turns its arguments into requests and the answers into what is shown.

pub(crate) mod attach;
pub(crate) mod close_stdin;
pub(crate) mod completions;
mod copying;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod ps;
pub(crate) mod resize;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
#[cfg(test)]
pub(crate) mod test_status;
mod typing;
pub(crate) mod wait;
pub(crate) mod write;

use crate::cli::Verb;
use crate::error::CliError;
use crate::render::Render;

/// Does what is asked. The exit code, or why there is nothing but an error.
pub(crate) async fn run(verb: Verb, render: Render) -> Result<u8, CliError> {
    match verb {
        Verb::Run(args) => run::run(*args, render).await,
        Verb::Serve(args) => serve::run(args, render).await,
        Verb::Start(args) => start::run(*args, render).await,
        Verb::Ps(args) => ps::run(args, render).await,
        Verb::Status(args) => status::run(args, render).await,
        Verb::Logs(args) => logs::run(args, render).await,
        Verb::Attach(args) => attach::run(args, render).await,
        Verb::Write(args) => write::run(args, render).await,
        Verb::CloseStdin(args) => close_stdin::run(args, render).await,
        Verb::Signal(args) => signal::run(args, render).await,
        Verb::Resize(args) => resize::run(args, render).await,
        Verb::Wait(args) => wait::run(args, render).await,
        Verb::Stop(args) => stop::run(args, render).await,
        Verb::Doctor => doctor::run(render).await,
        Verb::Explain(args) => explain::run(*args, render).await,
        Verb::Completions(args) => completions::run(args, render),
        Verb::Man(args) => man::run(args, render),
    }
}
