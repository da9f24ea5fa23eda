//! The examples that the help of each verb ends with. Each is a line that a shell takes; a test holds every one of them
//! against the real command line, so that none can rot.

use clap::builder::StyledStr;
use clap::builder::styling::Style;

use crate::exit;

/// What it is for, and the line.
type Example = (&'static str, &'static str);

const ALL: &[Example] = &[
    ("one command in a sandbox, without a daemon", "codespace-runner run -- make test"),
    ("what this machine can enforce", "codespace-runner doctor"),
    ("a daemon, a command on it, its output, its end", "codespace-runner serve"),
    ("", "id=$(codespace-runner start -- make test)"),
    ("", "codespace-runner logs -f \"$id\""),
    ("", "codespace-runner stop \"$id\""),
];

pub(crate) const RUN: &[Example] = &[
    (
        "the sandbox's defaults, ended after ten minutes at the latest",
        "codespace-runner run --timeout 10m -- make test",
    ),
    (
        "a toolchain of the home directory, one more folder, and a variable",
        "codespace-runner run --home toolchains --read /opt/sdk --env CI=1 -- cargo test",
    ),
    (
        "look, but do not touch; and keep a folder out of sight",
        "codespace-runner run --read-only --deny secrets -- ls -lR",
    ),
    ("with the host's network", "codespace-runner run --network host -- npm ci"),
    ("the whole result as one object", "codespace-runner run --json -- sh -c 'exit 3'"),
];

pub(crate) const SERVE: &[Example] = &[
    ("this directory as the workspace `default`", "codespace-runner serve"),
    ("the workspaces of a registry", "codespace-runner serve --config /etc/codespace/registry.json"),
    ("for a service manager", "codespace-runner serve --log-format json --socket /run/codespace/runner.sock"),
];

pub(crate) const START: &[Example] = &[
    ("start it, and keep its id", "id=$(codespace-runner start -- make test)"),
    ("answer at its end, at the latest after a minute", "codespace-runner start --wait 1m --json -- make test"),
    ("a retry that starts nothing twice", "codespace-runner start --workspace demo --key nightly -- ./nightly.sh"),
    ("for a program that is written to", "id=$(codespace-runner start --stdin -- cat)"),
];

pub(crate) const ATTACH: &[Example] = &[
    ("a terminal at a process that has one; Ctrl-P Ctrl-Q leaves it running", "codespace-runner attach \"$id\""),
    ("everything that it has written, and then what it writes", "codespace-runner attach --from-start \"$id\""),
    ("only look", "codespace-runner attach --no-stdin \"$id\""),
];

pub(crate) const PS: &[Example] = &[
    ("what runs, and what has ended lately", "codespace-runner ps"),
    ("only what runs in one workspace", "codespace-runner ps --workspace demo --state running"),
    ("until Ctrl-C", "codespace-runner ps --watch"),
];

pub(crate) const STATUS: &[Example] = &[
    ("how it stands", "codespace-runner status \"$id\""),
    ("wait up to half a minute for its end", "codespace-runner status --wait 30s --json \"$id\""),
];

pub(crate) const LOGS: &[Example] = &[
    ("all that is kept, then what comes", "codespace-runner logs -f \"$id\""),
    ("the end of what it complained about", "codespace-runner logs --stream stderr --tail 4K \"$id\""),
];

pub(crate) const WRITE: &[Example] = &[
    ("just these bytes", "codespace-runner write \"$id\" yes"),
    ("a file, and then the end of its input", "codespace-runner write --close \"$id\" < data.csv"),
];

pub(crate) const CLOSE_STDIN: &[Example] = &[("no more input", "codespace-runner close-stdin \"$id\"")];

pub(crate) const SIGNAL: &[Example] = &[
    ("ask it to read its settings again", "codespace-runner signal \"$id\" HUP"),
    ("what Ctrl-C would do", "codespace-runner signal \"$id\" INT"),
];

pub(crate) const RESIZE: &[Example] = &[("50 rows, 132 columns", "codespace-runner resize \"$id\" 50 132")];

pub(crate) const WAIT: &[Example] = &[("exit as it does", "codespace-runner wait \"$id\"")];

pub(crate) const STOP: &[Example] = &[
    ("one process, with five seconds to finish by itself", "codespace-runner stop --grace 5s \"$id\""),
    ("everything in a workspace", "codespace-runner stop --workspace demo"),
    ("the whole Runner", "codespace-runner stop"),
];

pub(crate) const DOCTOR: &[Example] = &[
    ("what works here, and what to do about the rest", "codespace-runner doctor"),
    ("for a script", "codespace-runner doctor --json"),
];

pub(crate) const EXPLAIN: &[Example] = &[
    ("everything that `run` would show in this directory", "codespace-runner explain"),
    ("one path, under flags of `run`", "codespace-runner explain --deny secrets ./secrets/key"),
    ("one host", "codespace-runner explain --network host example.com:443"),
    (
        "a workspace of a registry",
        "codespace-runner explain --config /etc/codespace/registry.json --workspace demo /etc/passwd",
    ),
];

pub(crate) const COMPLETIONS: &[Example] = &[
    ("for bash", "codespace-runner completions bash > ~/.local/share/bash-completion/completions/codespace-runner"),
    ("for zsh, in a directory of its $fpath", "codespace-runner completions zsh > ~/.zfunc/_codespace-runner"),
    ("for fish", "codespace-runner completions fish > ~/.config/fish/completions/codespace-runner.fish"),
];

pub(crate) const MAN: &[Example] = &[
    ("one page for each verb", "codespace-runner man --dir ~/.local/share/man/man1"),
    ("the page of the whole, to read now", "codespace-runner man | man -l -"),
];

/// The end of the help of the whole.
pub(crate) fn of_all() -> StyledStr {
    StyledStr::from(format!("{}\n\n{}", examples(ALL).ansi(), exit::TABLE))
}

/// The end of a verb's help.
pub(crate) fn examples(examples: &[Example]) -> StyledStr {
    let head = Style::new().bold().underline();
    let mut text = format!("{head}Examples:{head:#}");
    for (what, line) in examples {
        if !what.is_empty() {
            text.push_str(&format!("\n  # {what}"));
        }
        text.push_str(&format!("\n  {line}"));
    }
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::cli::Cli;

    /// The words of a line as a shell splits it, to its first redirection or pipe.
    fn words(line: &str) -> Vec<String> {
        let line = line.strip_prefix("id=$(").map_or(line, |rest| rest.strip_suffix(')').unwrap_or(rest));
        let line = line.replace("$id", "proc-00000000-0000-4000-8000-000000000000");
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if open == c => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, '<' | '>' | '|') => break,
                (None, c) if c.is_whitespace() => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    /// The lines of a help that are meant to be typed.
    fn lines(help: &str) -> Vec<String> {
        let after = help.split_once("Examples:").map_or("", |(_, after)| after);
        let lines = after.lines().take_while(|line| !line.starts_with("Exit codes")).map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn every_verb_has_examples_and_every_example_is_understood() {
        let mut cli = Cli::command().term_width(0);
        cli.build();
        let verbs: Vec<String> = cli.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        let mut helps = vec![("codespace-runner".to_owned(), cli.render_long_help().to_string())];
        for verb in verbs.iter().filter(|verb| *verb != "help") {
            let help = cli.find_subcommand_mut(verb).unwrap().render_long_help().to_string();
            helps.push((verb.clone(), help));
        }
        for (verb, help) in helps {
            let lines = lines(&help);
            assert!(!lines.is_empty(), "{verb} has no example: {help}");
            for line in &lines {
                let words = words(line);
                assert_eq!(words.first().map(String::as_str), Some("codespace-runner"), "{verb}: {line}");
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{verb}: {line}: {words:?}: {error}");
                }
                assert!(verb == "codespace-runner" || words.contains(&verb), "{verb}: {line}");
                assert!(line.chars().count() <= 100, "{verb}: too long for a terminal: {line}");
            }
        }
    }

    #[test]
    fn an_example_that_is_wrong_would_be_found() {
        assert!(Cli::try_parse_from(words("codespace-runner run --no-such-flag -- true")).is_err());
        assert_eq!(words("id=$(a 'b c' \"$id\")").len(), 3);
        assert_eq!(words("a b > c"), ["a", "b"]);
    }
}
