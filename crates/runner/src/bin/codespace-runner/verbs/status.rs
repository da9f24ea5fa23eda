//! `status`: how a process stands.

use codespace_domain::{ByteString, ProcessId, ProcessStatus, StatusRequest};
use codespace_runner::Runner as _;
use serde_json::Value;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::escape::{argument, escape};
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// Wait so long for the process's end.
    #[arg(long, value_name = "DURATION", value_parser = crate::values::millis, default_value = "0")]
    wait: u64,
}

pub(crate) async fn run(args: StatusArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let status = runner.process_status(StatusRequest { process_id: args.process_id, wait_ms: args.wait }).await?;
    render.result(&status, || text(&status))?;
    Ok(exit::OK)
}

/// The contract's names and values, one a line.
pub(super) fn text(status: &ProcessStatus) -> String {
    let mut lines = String::new();
    let Ok(Value::Object(fields)) = serde_json::to_value(status) else { return lines };
    for (name, value) in fields {
        let shown = match value {
            _ if name == "command" => command(&status.command),
            Value::String(text) => escape(&text),
            other => escape(&other.to_string()),
        };
        lines.push_str(&format!("{name}: {shown}\n"));
    }
    lines
}

/// A command as a shell would take it, safe to show.
pub(super) fn command(argv: &[ByteString]) -> String {
    argv.iter().map(|arg| argument(&arg.to_text())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::test_status::exited;
    use super::*;

    #[test]
    fn a_status_is_shown_with_the_contracts_names_and_nothing_that_a_terminal_obeys() {
        let mut status = exited();
        status.command = vec!["printf".into(), "\u{1b}[2J".into()];
        status.policy_findings = vec!["a\u{1b}b".into()];
        let shown = text(&status);
        assert!(shown.contains("termination: exited\n") && shown.contains("workspace_id: demo\n"), "{shown}");
        assert!(shown.contains(r"command: printf '\u{1b}[2J'"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }
}
