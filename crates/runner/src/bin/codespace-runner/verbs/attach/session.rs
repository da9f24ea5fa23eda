//! One attached session. One loop over a closed set of events; the output, what is typed, and the process's end each come
//! at their own pace.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{ProcessId, ProcessStatus, Request, ResizeRequest, SignalName, Stream};
use codespace_runner::Runner;

use super::super::copying::{self, From};
use super::super::typing::{Typed, Typing};
use super::super::wait;
use crate::detach_keys::DetachKeys;
use crate::error::CliError;
use crate::own_job::{OwnJob, Told};
use crate::own_signals::number_of;
use crate::own_terminal::{self, OwnTerminal};
use crate::render::Render;
use crate::{exit, foreground, own_stop};

/// How long the word about a detach may take to be taken by the terminal.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(super) struct Session<R> {
    pub(super) runner: Arc<R>,
    pub(super) process_id: ProcessId,
    pub(super) tty: bool,
    /// Ours, where it is to be in raw mode.
    pub(super) terminal: Option<OwnTerminal>,
    pub(super) keys: DetachKeys,
    pub(super) from: From,
    pub(super) stdin: bool,
    pub(super) render: Render,
}

/// How it came to an end.
enum End {
    Exited(Box<ProcessStatus>),
    Detached,
    Told(SignalName),
}

/// What nobody could be told while the terminal was not in its own mode.
#[derive(Default)]
struct Losses {
    output: Cell<bool>,
    typed: u64,
    unread: Option<io::Error>,
}

impl<R: Runner> Session<R> {
    /// To its end. The exit code.
    pub(super) async fn run(mut self, mut job: OwnJob) -> Result<u8, CliError> {
        let mut losses = Losses::default();
        let outcome = self.attached(&mut job, &mut losses).await;
        // First of all: what follows is to be read.
        self.terminal = None;
        self.tell(&losses);
        match outcome? {
            End::Exited(status) => {
                if self.render.is_json() {
                    self.render.object(&status)?;
                }
                Ok(exit::of_status(&status))
            }
            End::Detached => {
                let (render, words) = (self.render, format!("detached from {}, which goes on", self.process_id));
                // A terminal that nobody reads must not keep whoever has asked to leave.
                let said = tokio::task::spawn_blocking(move || render.note(&words));
                drop(tokio::time::timeout(LAST_WORDS, said).await);
                Ok(exit::OK)
            }
            End::Told(signal) => Ok(exit::of_signal(number_of(signal))),
        }
    }

    async fn attached(&self, job: &mut OwnJob, losses: &mut Losses) -> Result<End, CliError> {
        if let Some(terminal) = &self.terminal
            && let Some(signal) = foreground::take(terminal, job).await.map_err(of_terminal)?
        {
            return Ok(End::Told(signal));
        }
        self.resize();
        let ended = self.ended(&losses.output);
        tokio::pin!(ended);
        let typing = Typing::new(Arc::clone(&self.runner), self.process_id, self.tty, self.keys.clone());
        let typed = typing.pass_on(&mut losses.typed);
        tokio::pin!(typed);
        let mut typing = self.stdin;
        loop {
            tokio::select! {
                // Whoever wants to leave does not wait for a terminal that is flooded.
                biased;
                told = job.next() => match told {
                    Told::End(signal) => return Ok(End::Told(signal)),
                    Told::Resized => self.resize(),
                    Told::Stop | Told::Continue => if let Some(signal) = self.stopped(told, job).await? {
                        return Ok(End::Told(signal));
                    },
                },
                outcome = &mut typed, if typing => {
                    typing = false;
                    match outcome {
                        Typed::Detached => return Ok(End::Detached),
                        Typed::Ended => {}
                        Typed::Failed(error) => losses.unread = Some(error),
                    }
                }
                status = &mut ended => return Ok(End::Exited(status?)),
            }
        }
    }

    /// Copies the output to its last byte; then how the process ended.
    async fn ended(&self, output_lost: &Cell<bool>) -> Result<Box<ProcessStatus>, CliError> {
        let copy = |stream| {
            copying::copy(&*self.runner, self.process_id, stream, self.from, self.render, || {
                output_lost.set(true);
                Ok(())
            })
        };
        match (self.render.is_json(), self.tty) {
            (true, _) => {}
            (false, true) => copy(Stream::Stdout).await?,
            (false, false) => drop(tokio::try_join!(copy(Stream::Stdout), copy(Stream::Stderr))?),
        }
        Ok(wait::until_exited(&*self.runner, self.process_id).await?)
    }

    /// We are to stop, or somebody has stopped us without asking and continued us. The process goes on meanwhile.
    async fn stopped(&self, told: Told, job: &mut OwnJob) -> Result<Option<SignalName>, CliError> {
        if told == Told::Stop {
            if let Some(terminal) = &self.terminal {
                terminal.restore();
            }
            own_stop::stop().map_err(|e| CliError::host("stop", e))?;
        }
        let signal = match &self.terminal {
            Some(terminal) => foreground::take(terminal, job).await.map_err(of_terminal)?,
            None => None,
        };
        self.resize();
        Ok(signal)
    }

    /// Tells the process the size of our terminal, unless we only look. Its effect is there when the call returns; nobody
    /// waits for the answer.
    fn resize(&self) {
        if let Some(size) = own_terminal::size().filter(|_| self.tty && self.stdin && !self.render.is_json()) {
            let request = ResizeRequest { process_id: self.process_id, rows: size.rows, cols: size.cols };
            drop(self.runner.call(Request::ProcessResize(request)));
        }
    }

    fn tell(&self, losses: &Losses) {
        if losses.output.get() {
            self.render.note("some output is no longer kept and was not shown");
        }
        if losses.typed > 0 {
            let bytes = losses.typed;
            self.render.note(&format!("{bytes} typed bytes were dropped: the process did not read its input"));
        }
        if let Some(error) = losses.unread.as_ref().filter(|error| !own_terminal::is_gone(error)) {
            self.render.note(&format!("failed to read stdin: {error}"));
        }
    }
}

fn of_terminal(error: io::Error) -> CliError {
    CliError::host("take the terminal", error)
}
