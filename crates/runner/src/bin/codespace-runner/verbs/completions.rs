//! `completions`: what a shell needs to complete this command line, made from its own definition.

use clap::CommandFactory as _;
use clap_complete::Shell;
use serde::Serialize;

use crate::cli::Cli;
use crate::error::CliError;
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

#[derive(Serialize)]
struct Completions<'a> {
    shell: String,
    script: &'a str,
}

pub(crate) fn run(args: CompletionsArgs, render: Render) -> Result<u8, CliError> {
    let script = script(args.shell);
    render.result(&Completions { shell: args.shell.to_string(), script: &script }, || script.clone())?;
    Ok(exit::OK)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "codespace-runner", &mut script);
    let script = String::from_utf8_lossy(&script);
    // For bash the library names a verb's part of the script in two ways when the program has a hyphen in its name, and then
    // nothing of a verb is completed (https://github.com/clap-rs/clap/issues/6421). Where it is mended, this finds nothing.
    script.replace("codespace__subcmd__runner__subcmd__", "codespace__runner__subcmd__")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn in_bash_every_state_that_is_entered_is_there() {
        let script = script(Shell::Bash);
        let entered = script.lines().filter_map(|line| line.trim().strip_prefix("cmd=\"")?.strip_suffix('"'));
        let entered: Vec<_> = entered.filter(|state| !state.is_empty()).collect();
        assert!(entered.len() > Cli::command().get_subcommands().count());
        for state in entered {
            assert!(script.lines().any(|line| line.trim() == format!("{state})")), "{state}");
        }
    }

    #[test]
    fn the_completions_of_each_shell_know_every_verb_and_flag() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for verb in Cli::command().get_subcommands() {
                assert!(script.contains(verb.get_name()), "{shell}: {}", verb.get_name());
                let flags = verb.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
                for flag in flags {
                    assert!(script.contains(flag), "{shell}: {} --{flag}", verb.get_name());
                }
            }
        }
    }
}
