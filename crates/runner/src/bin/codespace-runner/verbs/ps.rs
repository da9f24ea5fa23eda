//! `ps`: the processes that the Runner keeps, as a table.

use codespace_domain::{ListRequest, ProcessStatus, State, WorkspaceId};
use codespace_runner::Runner as _;

use super::status::command;
use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::escape::escape;
use crate::exit;
use crate::render::Render;

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
    let list = runner.list_processes(ListRequest { workspace_id: args.workspace, state }).await?;
    render.result(&list, || table(&list.processes))?;
    Ok(exit::OK)
}

fn table(processes: &[ProcessStatus]) -> String {
    let mut rows = vec![["PROCESS", "WORKSPACE", "STATE", "STARTED", "COMMAND"].map(str::to_owned)];
    rows.extend(processes.iter().map(|process| {
        [
            process.process_id.to_string(),
            escape(process.workspace_id.as_str()),
            state(process),
            escape(&process.started_at),
            command(&process.command),
        ]
    }));
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// `running`, `starting`, `exit 3`, `signal KILL`, `timeout`, ...
fn state(process: &ProcessStatus) -> String {
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    match (process.state, &process.signal, process.exit_code) {
        (State::Running, _, _) => process.phase.map_or_else(|| "running".into(), |p| word(serde_json::to_value(p))),
        (State::Exited, Some(signal), _) => {
            format!("signal {}", signal.name.as_deref().map_or_else(|| signal.number.to_string(), escape))
        }
        (State::Exited, None, Some(code)) => format!("exit {code}"),
        (State::Exited, None, None) => word(serde_json::to_value(process.termination)),
    }
}

#[cfg(test)]
mod tests {
    use codespace_domain::{Phase, SignalInfo, Termination};

    use super::super::test_status::exited;
    use super::*;

    #[test]
    fn one_process_is_one_line_whatever_its_command_holds() {
        let mut process = exited();
        process.command = vec!["sh".into(), "-c".into(), "echo\n\u{1b}]0;gone\u{7}".into()];
        let text = table(&[process, exited()]);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
        assert!(text.contains(r"sh -c 'echo\n\u{1b}]0;gone\u{7}'"), "{text}");
    }

    #[test]
    fn the_state_says_how_it_ended() {
        let mut process = exited();
        assert_eq!(state(&process), "exit 0");
        process.exit_code = None;
        process.signal = Some(SignalInfo::from(9));
        assert_eq!(state(&process), "signal KILL");
        process.signal = None;
        process.termination = Some(Termination::Timeout);
        assert_eq!(state(&process), "timeout");
        process.state = State::Running;
        process.phase = Some(Phase::Starting);
        assert_eq!(state(&process), "starting");
    }
}
