//! The command line as a whole. Each verb's own arguments are in its file.

use clap::{Parser, Subcommand};
use codespace_domain::Stream;

use crate::{descriptors, help, verbs};

/// Runs commands in a workspace, inside a sandbox, and ends them whole.
#[derive(Debug, Parser)]
#[command(name = "codespace-runner", version, after_help = help::of_all(), propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// Print one JSON object with the names of the protocol instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run one command in this directory, without a daemon, and mirror its exit code.
    #[command(after_help = help::examples(help::RUN))]
    Run(Box<verbs::run::RunArgs>),
    /// Be the independent Runner: listen on a socket until stopped.
    #[command(after_help = help::examples(help::SERVE))]
    Serve(verbs::serve::ServeArgs),
    /// Start a command on the Runner and print its process id.
    #[command(after_help = help::examples(help::START))]
    Start(Box<verbs::start::StartArgs>),
    /// List processes.
    #[command(after_help = help::examples(help::PS))]
    Ps(verbs::ps::PsArgs),
    /// Show how a process stands.
    #[command(after_help = help::examples(help::STATUS))]
    Status(verbs::status::StatusArgs),
    /// Print a process's output.
    #[command(after_help = help::examples(help::LOGS))]
    Logs(verbs::logs::LogsArgs),
    /// Be at a process: see its output, type its input, leave it by ctrl-p ctrl-q.
    #[command(after_help = help::examples(help::ATTACH))]
    Attach(verbs::attach::AttachArgs),
    /// Write to a process's stdin.
    #[command(after_help = help::examples(help::WRITE))]
    Write(verbs::write::WriteArgs),
    /// End a process's stdin.
    #[command(after_help = help::examples(help::CLOSE_STDIN))]
    CloseStdin(verbs::close_stdin::CloseStdinArgs),
    /// Send a signal to a command's process group.
    #[command(after_help = help::examples(help::SIGNAL))]
    Signal(verbs::signal::SignalArgs),
    /// Set the size of a process's terminal.
    #[command(after_help = help::examples(help::RESIZE))]
    Resize(verbs::resize::ResizeArgs),
    /// Wait for a process's end and mirror its exit code.
    #[command(after_help = help::examples(help::WAIT))]
    Wait(verbs::wait::WaitArgs),
    /// End processes, a workspace, or (with neither) the whole Runner.
    #[command(after_help = help::examples(help::STOP))]
    Stop(verbs::stop::StopArgs),
    /// Show what this machine can enforce, and what to do about the rest.
    #[command(after_help = help::examples(help::DOCTOR))]
    Doctor,
    /// Show what a policy lets a command see and reach, and which rule decides.
    #[command(after_help = help::examples(help::EXPLAIN))]
    Explain(Box<verbs::explain::ExplainArgs>),
    /// Print the completions of a shell.
    #[command(after_help = help::examples(help::COMPLETIONS))]
    Completions(verbs::completions::CompletionsArgs),
    /// Print the manual page, or write that of each verb.
    #[command(after_help = help::examples(help::MAN))]
    Man(verbs::man::ManArgs),
}

impl Verb {
    /// Whether this process starts commands itself.
    pub(crate) fn is_the_runner(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Serve(_))
    }

    /// The standard streams without which it must not begin: what it does would be lost.
    pub(crate) fn streams(&self, json: bool) -> &'static [Stream] {
        match self {
            Self::Run(_) if !json => &[Stream::Stdout, Stream::Stderr],
            Self::Run(_) | Self::Start(_) => &[Stream::Stdout],
            _ => &[],
        }
    }

    /// How many files it opens.
    pub(crate) fn descriptors(&self) -> usize {
        match self {
            Self::Run(_) | Self::Serve(_) | Self::Doctor | Self::Explain(_) => descriptors::TO_START,
            _ => descriptors::TO_ASK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("codespace-runner").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_taken_by_every_verb_and_on_either_side_of_it() {
        for line in ["--json ps", "ps --json", "doctor --json", "run --json -- true", "stop --json", "serve --json"] {
            assert!(parse(line).unwrap().json, "{line}");
        }
        let command_only = parse("run -- program --json").unwrap();
        assert!(!command_only.json, "what follows -- is the command's");
    }

    #[test]
    fn what_each_verb_needs_is_asked_for() {
        for bad in [
            "",
            "run",
            "run true",
            "run --",
            "run --timeout 5 -- true",
            "run --network everything -- true",
            "run --env =x -- true",
            "start --wait -- true",
            "status",
            "status 7",
            "signal proc-00000000-0000-4000-8000-000000000000 SEGV",
            "resize proc-00000000-0000-4000-8000-000000000000 0 80",
            "attach",
            "attach --detach-keys ctrl-1 proc-00000000-0000-4000-8000-000000000000",
            "attach --from-start --tail 1K proc-00000000-0000-4000-8000-000000000000",
            "stop proc-00000000-0000-4000-8000-000000000000 --workspace w",
            "stop --grace soon",
            "ps --workspace ../x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for good in [
            "run -- make test",
            "run --read /opt --read /srv --deny secrets --env CI=1 --env HOME --network host --timeout 1m30s -- make",
            "run --read-only --no-sandbox --limit-memory 2G --limit-cpu 10s -- true",
            "serve --socket /run/x/runner.sock --log-format json",
            "start --workspace demo --key k --stdin --wait 500ms -- cat",
            "logs -f --tail 64K --stream stderr proc-00000000-0000-4000-8000-000000000000",
            "signal proc-00000000-0000-4000-8000-000000000000 SIGTERM",
            "resize proc-00000000-0000-4000-8000-000000000000 24 80",
            "run --tty -- sh",
            "attach proc-00000000-0000-4000-8000-000000000000",
            "attach --from-start --detach-keys ctrl-],q --no-stdin proc-00000000-0000-4000-8000-000000000000",
            "stop",
            "stop --workspace demo --grace 5s",
            "stop proc-00000000-0000-4000-8000-000000000000 proc-00000000-0000-4000-8000-000000000001",
        ] {
            if let Err(error) = parse(good) {
                panic!("{good}: {error}");
            }
        }
    }
}
