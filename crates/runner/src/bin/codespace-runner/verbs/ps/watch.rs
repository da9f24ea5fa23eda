//! `ps --watch`: looks every second. On a terminal the table is drawn anew; elsewhere it is printed when something but the
//! time has changed. Ends by a signal, which is no failure, or with the Runner, which is one.

use std::time::{Duration, SystemTime};

use codespace_domain::{ListReply, ListRequest, ProcessStatus, SignalName, State};
use codespace_runner::Runner;
use tokio::time::{MissedTickBehavior, interval};

use super::rows;
use crate::error::CliError;
use crate::own_signals::OwnSignals;
use crate::render::Render;
use crate::{exit, own_streams};

/// From one look to the next.
const PERIOD: Duration = Duration::from_secs(1);

/// The terminal's other screen, so that what was on it comes back; no cursor; no wrapping, so that one line stays one.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

pub(super) async fn run(runner: &impl Runner, request: ListRequest, render: Render) -> Result<u8, CliError> {
    const CAUGHT: [SignalName; 4] = [SignalName::Int, SignalName::Term, SignalName::Hup, SignalName::Quit];
    let mut signals = OwnSignals::catch(&CAUGHT).map_err(|e| CliError::host("catch signals", e))?;
    // Before the screen is taken: what is wrong from the start is told without it.
    let mut list = runner.list_processes(request.clone()).await?;
    let mut view = View::new(render)?;
    let mut looks = interval(PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        tokio::select! {
            biased;
            _ = signals.next() => break Ok(exit::OK),
            _ = looks.tick() => {}
        }
        let shown = tokio::select! {
            biased;
            _ = signals.next() => break Ok(exit::OK),
            next = runner.list_processes(request.clone()) => match next {
                Ok(next) => {
                    list = next;
                    view.show(&list)
                }
                Err(error) => Err(error.into()),
            },
        };
        if let Err(error) = shown {
            break Err(error);
        }
    };
    view.end(&list)?;
    outcome
}

/// Where the tables go.
enum View {
    Screen(Screen),
    /// A file, a pipe, or objects.
    Stream {
        render: Render,
        before: Option<Vec<ProcessStatus>>,
    },
}

impl View {
    fn new(render: Render) -> Result<Self, CliError> {
        match own_streams::can_redraw() && !render.is_json() {
            true => Ok(Self::Screen(Screen::begin(render)?)),
            false => Ok(Self::Stream { render, before: None }),
        }
    }

    fn show(&mut self, list: &ListReply) -> Result<(), CliError> {
        match self {
            Self::Screen(screen) => screen.draw(&list.processes),
            Self::Stream { render, before } => {
                // Nothing may change for long, and nobody would notice that there is no reader any more.
                if own_streams::reader_has_gone() {
                    return Err(CliError::BrokenPipe);
                }
                let now: Vec<_> = list.processes.iter().map(without_clock).collect();
                if before.as_ref() == Some(&now) {
                    return Ok(());
                }
                let separator = if before.is_some() { "\n" } else { "" };
                *before = Some(now);
                let table = || rows::table(&list.processes, SystemTime::now(), None, render.paint()).concat();
                render.result(list, || format!("{separator}{}", table()))
            }
        }
    }

    /// What was seen last stays on the terminal.
    fn end(self, list: &ListReply) -> Result<(), CliError> {
        let Self::Screen(screen) = self else { return Ok(()) };
        let render = screen.render;
        drop(screen);
        let width = own_streams::terminal_size().map(|(_, columns)| columns);
        render.draw(&rows::table(&list.processes, SystemTime::now(), width, render.paint()).concat())
    }
}

/// The terminal, to be given back as it was, however this ends.
struct Screen {
    render: Render,
}

impl Screen {
    fn begin(render: Render) -> Result<Self, CliError> {
        let screen = Self { render };
        render.draw(BEGIN)?;
        Ok(screen)
    }

    fn draw(&self, processes: &[ProcessStatus]) -> Result<(), CliError> {
        let size = own_streams::terminal_size();
        let (rows, columns) = size.map_or((usize::MAX, None), |(rows, columns)| (rows, Some(columns)));
        let lines = rows::table(processes, SystemTime::now(), columns, self.render.paint());
        self.render.draw(&frame(&lines, rows))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing back.
        self.render.draw(END).ok();
    }
}

/// The table drawn over the one before, without a moment in which the screen is empty. What does not fit is counted.
fn frame(lines: &[String], rows: usize) -> String {
    let fits = if lines.len() <= rows { lines.len() } else { rows.saturating_sub(1) };
    let mut shown: Vec<String> = lines[..fits].iter().map(|line| line.trim_end_matches('\n').to_owned()).collect();
    if fits < lines.len() {
        shown.push(format!("... and {} more", lines.len() - fits));
    }
    let end = format!("{CLEAR_REST_OF_LINE}\r\n");
    // No newline after the last line: at the bottom it would move everything up.
    format!("{HOME}{}{CLEAR_REST_OF_LINE}{CLEAR_BELOW}", shown.join(&end))
}

/// The status without what changes although nothing happens.
fn without_clock(process: &ProcessStatus) -> ProcessStatus {
    let usage = process.usage.filter(|_| process.state == State::Exited);
    ProcessStatus { usage, ..process.clone() }
}

#[cfg(test)]
mod tests {
    use codespace_domain::Usage;

    use super::super::super::test_status::exited;
    use super::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn a_frame_never_has_more_lines_than_the_terminal() {
        for (count, rows, drawn) in [(1, 24, 1), (24, 24, 24), (25, 24, 24), (100, 5, 5), (3, 1, 1)] {
            let frame = frame(&lines(count), rows);
            assert_eq!(frame.matches("\r\n").count() + 1, drawn, "{count} on {rows}: {frame:?}");
            assert_eq!(frame.contains("more"), count > rows, "{frame:?}");
            assert!(frame.starts_with(HOME) && frame.ends_with(CLEAR_BELOW));
        }
    }

    #[test]
    fn what_is_begun_is_ended() {
        for (set, reset) in [("[?1049h", "[?1049l"), ("[?25l", "[?25h"), ("[?7l", "[?7h")] {
            assert!(BEGIN.contains(set) && END.contains(reset));
        }
    }

    #[test]
    fn the_clock_of_a_live_process_is_no_change() {
        let usage = |wall_ms| Some(Usage { wall_ms, ..Usage::default() });
        let live = |wall_ms| ProcessStatus { state: State::Running, usage: usage(wall_ms), ..exited() };
        let (one, two) = (live(1), live(2));
        let two = ProcessStatus { process_id: one.process_id, ..two };
        assert_eq!(without_clock(&one), without_clock(&two));
        let grown = ProcessStatus { output_total: 1, ..two };
        assert_ne!(without_clock(&one), without_clock(&grown));
    }
}
