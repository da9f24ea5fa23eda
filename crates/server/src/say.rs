//! The same results in words: what a model reads. How it ended comes first, then the output, then how to read on.
//!
//! Clients show these words to people too, on terminals: but for output, text of others is escaped.

use std::fmt::Write as _;

use codespace_domain::escape::{argument, escape};
use codespace_domain::{
    ByteString, EndedBy, ProcessStatus, ReadReply, RunnerError, State, Termination, WorkspaceInfo, WorkspaceInfoReply,
};

use serde::Serialize;

use crate::tools::exec::ExecCommandResult;

/// Characters of a command that are told.
const MOST_OF_A_COMMAND: usize = 120;

/// Of `exec_command`.
pub(crate) fn exec(result: &ExecCommandResult) -> String {
    let reply = &result.reply;
    let mut words = match &reply.status {
        Some(status) => status_line(status),
        None => reply.process_id.to_string(),
    };
    words.push('\n');
    let Some(output) = &reply.output else { return words };
    let tail = result.output_tail.as_ref();
    if output.total == 0 {
        words.push_str("no output\n");
    } else {
        block(&mut words, &output.chunk);
    }
    let mut read_to = output.cursor;
    if let Some(tail) = tail {
        let from = tail.cursor.saturating_sub(decoded_len(tail));
        if from > output.cursor {
            let gap = from - output.cursor;
            writeln!(
                words,
                "[{gap} of {} bytes are left out here: read_process with cursor {} reads them{}]",
                tail.total,
                output.cursor,
                kept_from(tail),
            )
            .ok();
        }
        block(&mut words, &tail.chunk);
        read_to = tail.cursor;
    }
    if reply.status.as_ref().is_some_and(|status| status.state == State::Running) {
        writeln!(
            words,
            "It goes on: read_process with process_id {}, cursor {read_to} and wait_ms waits for more; \
             terminate_process ends it.",
            reply.process_id
        )
        .ok();
    }
    words
}

/// Of `read_process`.
pub(crate) fn read(reply: &ReadReply) -> String {
    let mut words = String::new();
    if reply.output_lost {
        writeln!(words, "[some output before this is no longer kept]").ok();
    }
    block(&mut words, &reply.chunk);
    let more = match (reply.eof, reply.state) {
        (true, _) => "end of output".to_owned(),
        (false, _) if reply.cursor < reply.total => {
            format!("{} more: read on with cursor {}", bytes(reply.total - reply.cursor), reply.cursor)
        }
        (false, State::Running) => format!("running; read on with cursor {} and wait_ms", reply.cursor),
        (false, State::Exited) => format!("read on with cursor {}", reply.cursor),
    };
    writeln!(words, "[{more}]").ok();
    words
}

/// Of `process_status` and `terminate_process`.
pub(crate) fn status(status: &ProcessStatus) -> String {
    let mut words = status_line(status);
    write!(words, "\n{} of output", bytes(status.output_total)).ok();
    words
}

/// Of `list_processes`.
pub(crate) fn list(processes: &[ProcessStatus]) -> String {
    if processes.is_empty() {
        return "no processes".to_owned();
    }
    processes
        .iter()
        .map(|status| format!("{} ({}): {}", status_line(status), status.workspace_id, command(&status.command)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Of `workspace_info`.
pub(crate) fn workspaces(reply: &WorkspaceInfoReply) -> String {
    match reply {
        WorkspaceInfoReply::One(info) => workspace("", info),
        WorkspaceInfoReply::All { workspaces } => {
            workspaces.iter().map(|(id, info)| workspace(&format!("{id}: "), info)).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A refusal.
pub(crate) fn error(error: &RunnerError) -> String {
    let mut words = format!("{}: failed to {}", error.code.as_str(), escape(&error.message));
    if let Some(hint) = &error.hint {
        write!(words, "\nhint: {}", escape(hint)).ok();
    }
    words
}

fn workspace(name: &str, info: &WorkspaceInfo) -> String {
    let execution = &info.execution;
    let mut words = format!(
        "{name}{} at {}, sandbox {}, network {}",
        word(&info.profile),
        escape(&info.root.to_text()),
        word(&execution.sandbox),
        word(&execution.network)
    );
    if !execution.network_enforced {
        words.push_str(" (not enforced)");
    }
    if let Some(timeout_ms) = execution.timeout_ms {
        write!(words, ", timeout {timeout_ms} ms").ok();
    }
    words
}

/// The protocol's own word for a value of a closed list.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A number of bytes.
pub(crate) fn bytes(count: u64) -> String {
    format!("{count} {}", if count == 1 { "byte" } else { "bytes" })
}

/// How it stands or ended, in one line.
fn status_line(status: &ProcessStatus) -> String {
    let id = status.process_id;
    if status.state == State::Running {
        return format!("{id} is running");
    }
    let mut line = match status.termination {
        Some(Termination::Exited) => format!("{id} exited with code {}", status.exit_code.unwrap_or_default()),
        Some(Termination::Signaled) => format!("{id} died of signal {}", signal(status)),
        Some(Termination::Timeout) => format!("{id} was ended by its timeout"),
        Some(Termination::Terminated) => format!("{id} was ended by {}", cause(status.ended_by)),
        Some(Termination::Unknown) | None => format!("{id} ended, and how was not seen"),
    };
    if let Some(limit) = &status.limit {
        write!(line, " (limit: {})", word(limit)).ok();
    }
    if let Some(usage) = &status.usage {
        write!(line, " after {} ms", usage.wall_ms).ok();
    }
    if let Some(tree) = &status.tree {
        if !tree.confirmed {
            let why = tree.detail.as_deref().unwrap_or("the time for it ran out");
            write!(line, "; WARNING: it was not seen that nothing of it is left: {}", escape(why)).ok();
        } else if tree.leftovers > 0 {
            let (processes, were) = if tree.leftovers == 1 { ("process", "was") } else { ("processes", "were") };
            write!(line, "; {} {processes} that it left running {were} ended", tree.leftovers).ok();
        }
    }
    for finding in &status.policy_findings {
        write!(line, "; {}", escape(finding)).ok();
    }
    line
}

fn signal(status: &ProcessStatus) -> String {
    let Some(signal) = &status.signal else { return "unknown".to_owned() };
    signal.name.as_ref().map_or_else(|| signal.number.to_string(), |name| format!("SIG{}", escape(name)))
}

fn cause(ended_by: Option<EndedBy>) -> &'static str {
    match ended_by {
        Some(EndedBy::Terminate) => "terminate_process",
        Some(EndedBy::Workspace) => "terminate_workspace",
        Some(EndedBy::Stop) => "the Runner's stop",
        Some(EndedBy::Connection) => "the end of its session",
        Some(EndedBy::Limit) => "a limit",
        Some(EndedBy::Timeout) => "its timeout",
        Some(EndedBy::Command | EndedBy::HelperLost) | None => "somebody else",
    }
}

/// A command as a shell would take it, in one line of some length.
pub(crate) fn command(argv: &[ByteString]) -> String {
    let line = argv.iter().map(|word| argument(&word.to_text())).collect::<Vec<_>>().join(" ");
    if line.chars().count() > MOST_OF_A_COMMAND {
        line.chars().take(MOST_OF_A_COMMAND - 3).chain("...".chars()).collect()
    } else {
        line
    }
}

fn kept_from(tail: &ReadReply) -> String {
    if tail.retained_from > 0 {
        format!(", of the middle only from {} on is kept", tail.retained_from)
    } else {
        String::new()
    }
}

/// How many bytes of the stream a chunk of text stands for; a replaced byte counts as what replaced it.
fn decoded_len(reply: &ReadReply) -> u64 {
    reply.chunk.len() as u64
}

fn block(words: &mut String, text: &str) {
    words.push_str(text);
    if !text.is_empty() && !text.ends_with('\n') {
        words.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codespace_domain::ErrorCode;

    #[test]
    fn a_command_is_one_line_that_no_terminal_obeys() {
        let line = command(&["sh".into(), "-c".into(), "echo\n\u{1b}]0;gone\u{7}\u{202e}".into()]);
        assert_eq!(line, r"sh -c 'echo\n\u{1b}]0;gone\u{7}\u{202e}'");
        let long = command(&["echo".into(), "x".repeat(1000).as_str().into()]);
        assert!(long.chars().count() == MOST_OF_A_COMMAND && long.ends_with("..."), "{long}");
    }

    #[test]
    fn a_refusal_is_told_with_what_it_names_escaped() {
        let refusal = RunnerError::new(ErrorCode::PathEscape, "enter a\u{1b}[2Jb").with_hint("stay\u{202e}");
        assert_eq!(error(&refusal), "PATH_ESCAPE: failed to enter a\\u{1b}[2Jb\nhint: stay\\u{202e}");
    }
}
