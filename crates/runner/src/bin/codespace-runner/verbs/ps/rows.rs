//! A process as a row of the table. Pure: the time and the terminal's width are given.

use std::time::SystemTime;

use codespace_domain::{EndedBy, ProcessStatus, State};
use serde::Serialize;

use super::super::status::command;
use crate::colour::{Paint, Tone};
use crate::escape::escape;
use crate::human;
use crate::table::{self, Cell, Column};

/// The id never gives way: it is what the other verbs are given.
const COLUMNS: [Column; 7] = [
    Column { title: "PROCESS", dispensable: 0 },
    Column { title: "WORKSPACE", dispensable: 1 },
    Column { title: "STATE", dispensable: 0 },
    Column { title: "AGE", dispensable: 2 },
    Column { title: "TOOK", dispensable: 3 },
    Column { title: "OUTPUT", dispensable: 4 },
    Column { title: "COMMAND", dispensable: 0 },
];

/// The table's lines, each with its newline.
pub(super) fn table(processes: &[ProcessStatus], now: SystemTime, width: Option<usize>, paint: Paint) -> Vec<String> {
    let rows: Vec<_> = processes.iter().map(|process| row(process, now)).collect();
    table::lines(COLUMNS, &rows, width, paint)
}

fn row(process: &ProcessStatus, now: SystemTime) -> [Cell; 7] {
    let duration = |ms: Option<u64>| Cell::plain(ms.map_or_else(|| "-".to_owned(), human::millis));
    let ended = process.ended_at.as_deref().and_then(human::time);
    [
        Cell::plain(process.process_id.to_string()),
        Cell::plain(escape(process.workspace_id.as_str())),
        state(process),
        duration(human::between(&process.started_at, now)),
        duration(ended.and_then(|ended| human::between(&process.started_at, ended))),
        Cell::plain(human::bytes(process.output_total)),
        Cell::plain(command(&process.command)),
    ]
}

/// Where a live process is (`running`, `starting`, `ending`), and how an ended one ended (`exit 3`, `signal KILL`, `timeout`,
/// `limit cpu`, `ended: stop`, ...).
fn state(process: &ProcessStatus) -> Cell {
    let (text, tone) = match process.state {
        State::Running => (process.phase.map_or_else(|| "running".to_owned(), word), Tone::Live),
        State::Exited => ended(process),
    };
    match process.tree.as_ref().is_some_and(|tree| !tree.confirmed) {
        true => Cell { text: format!("{text}, unconfirmed"), tone: Tone::Alarm },
        false => Cell { text, tone },
    }
}

fn ended(process: &ProcessStatus) -> (String, Tone) {
    match (process.ended_by, &process.signal, process.exit_code) {
        (Some(EndedBy::Limit), ..) => {
            (process.limit.map_or_else(|| "limit".to_owned(), |limit| format!("limit {}", word(limit))), Tone::Bad)
        }
        (Some(EndedBy::Timeout), ..) => ("timeout".to_owned(), Tone::Bad),
        (Some(EndedBy::HelperLost), ..) => ("helper lost".to_owned(), Tone::Alarm),
        (Some(cause @ (EndedBy::Terminate | EndedBy::Workspace | EndedBy::Stop | EndedBy::Connection)), ..) => {
            (format!("ended: {}", word(cause)), Tone::Bad)
        }
        (Some(EndedBy::Command) | None, Some(signal), _) => {
            let name = signal.name.as_deref().map_or_else(|| signal.number.to_string(), escape);
            (format!("signal {name}"), Tone::Bad)
        }
        (Some(EndedBy::Command) | None, None, Some(0)) => ("exit 0".to_owned(), Tone::Plain),
        (Some(EndedBy::Command) | None, None, Some(code)) => (format!("exit {code}"), Tone::Bad),
        (Some(EndedBy::Command) | None, None, None) => (process.termination.map(word).unwrap_or_default(), Tone::Bad),
    }
}

/// The contract's word.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use codespace_domain::{LimitName, Phase, SignalInfo, Termination};
    use unicode_width::UnicodeWidthStr as _;

    use super::super::super::test_status::exited;
    use super::*;

    fn now() -> SystemTime {
        human::time("2026-01-02T03:06:08.678Z").unwrap()
    }

    fn shown(process: ProcessStatus) -> String {
        state(&process).text
    }

    #[test]
    fn one_process_is_one_line_whatever_its_command_holds() {
        let mut process = exited();
        process.command = vec!["sh".into(), "-c".into(), "echo\n\u{1b}]0;gone\u{7}".into()];
        let lines = table(&[process, exited()], now(), None, Paint::never());
        let text = lines.concat();
        assert_eq!((lines.len(), text.lines().count()), (3, 3), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
        assert!(text.contains(r"sh -c 'echo\n\u{1b}]0;gone\u{7}'"), "{text}");
    }

    #[test]
    fn ages_durations_and_sizes_are_as_people_write_them() {
        let mut process = exited();
        process.output_total = 1_572_864;
        let row = row(&process, now());
        let texts: Vec<_> = row.iter().skip(1).map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["demo", "exit 0", "2m 3s", "322ms", "1.5 MiB", "make 'all tests'"]);
    }

    #[test]
    fn the_state_says_how_it_ended() {
        assert_eq!(shown(exited()), "exit 0");
        let by = |ended_by, termination| ProcessStatus {
            exit_code: None,
            ended_by: Some(ended_by),
            termination: Some(termination),
            ..exited()
        };
        let signal = Some(SignalInfo::from(9));
        assert_eq!(shown(ProcessStatus { signal, ..by(EndedBy::Command, Termination::Signaled) }), "signal KILL");
        assert_eq!(shown(by(EndedBy::Timeout, Termination::Timeout)), "timeout");
        assert_eq!(shown(by(EndedBy::Stop, Termination::Terminated)), "ended: stop");
        assert_eq!(shown(by(EndedBy::HelperLost, Termination::Unknown)), "helper lost");
        let limit = Some(LimitName::FileSize);
        assert_eq!(shown(ProcessStatus { limit, ..by(EndedBy::Limit, Termination::Signaled) }), "limit file_size");
        // Its command exited long ago; what it kept in the background was ended.
        assert_eq!(shown(ProcessStatus { ended_by: Some(EndedBy::Workspace), ..exited() }), "ended: workspace");
        let live = ProcessStatus { state: State::Running, tree: None, ..exited() };
        assert_eq!(shown(ProcessStatus { phase: Some(Phase::Starting), ..live.clone() }), "starting");
        assert_eq!(shown(live), "running");
    }

    #[test]
    fn an_end_that_was_not_seen_stands_out() {
        let mut process = exited();
        process.tree.as_mut().unwrap().confirmed = false;
        assert_eq!(state(&process), Cell { text: "exit 0, unconfirmed".into(), tone: Tone::Alarm });
    }

    #[test]
    fn the_id_is_whole_on_every_terminal_and_no_line_is_longer_than_it() {
        let process = ProcessStatus { command: vec!["make ".repeat(40).as_str().into()], ..exited() };
        let id = process.process_id.to_string();
        for width in [70, 80, 100, 200] {
            let lines = table(std::slice::from_ref(&process), now(), Some(width), Paint::never());
            assert!(lines[1].contains(&id) && lines[1].contains("make"), "{width}: {lines:?}");
            assert!(lines.iter().all(|line| line.trim_end().width() <= width), "{width}: {lines:?}");
        }
    }
}
