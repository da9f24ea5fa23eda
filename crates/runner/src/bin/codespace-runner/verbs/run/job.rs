//! `run` as a job of a shell: Ctrl-Z stops the command and then `run`, which gives the shell its prompt; `fg` continues
//! both. And the terminal's size, which the command is told of.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{ProcessId, Request, ResizeRequest, SignalName, SignalRequest};
use codespace_runner::Runner;
use tokio::time::timeout;

use crate::own_job::{OwnJob, Told};
use crate::own_terminal::{self, OwnTerminal};
use crate::{foreground, own_stop};

/// How long the command's group may take to be told. It stands still right after; nothing waits for that.
const TELL: Duration = Duration::from_secs(1);

pub(super) struct Job<R> {
    pub(super) runner: Arc<R>,
    pub(super) process_id: ProcessId,
    /// The command has a terminal.
    pub(super) tty: bool,
    /// Ours, where it is to be in raw mode.
    pub(super) terminal: Option<OwnTerminal>,
    pub(super) told: OwnJob,
    /// We were told to end: nothing is to stand still any more.
    pub(super) ending: bool,
}

impl<R: Runner> Job<R> {
    /// What is told next.
    pub(super) async fn next(&mut self) -> Told {
        let told = self.told.next().await;
        self.ending |= matches!(told, Told::End(_));
        told
    }

    /// Takes our terminal, where the command has one. A signal to end that came meanwhile is returned, as by the others.
    pub(super) async fn begin(&mut self) -> io::Result<Option<SignalName>> {
        let end = match &self.terminal {
            Some(terminal) if terminal.in_foreground() || !self.ending => {
                foreground::take(terminal, &mut self.told).await?
            }
            Some(_) | None => None,
        };
        self.ending |= end.is_some();
        Ok(end)
    }

    /// Does what is told; an end is the caller's.
    pub(super) async fn follow(&mut self, told: Told) -> io::Result<Option<SignalName>> {
        let end = match told {
            Told::End(signal) => return Ok(Some(signal)),
            Told::Resized => {
                self.resize();
                return Ok(None);
            }
            Told::Stop => {
                // 1. The command, and its answer: afterwards nothing of ours runs that could still pass it on.
                let stop = SignalRequest { process_id: self.process_id, signal: SignalName::Stop };
                // One that has just ended needs no signal.
                drop(timeout(TELL, self.runner.signal_process(stop)).await);
                // 2. Ourselves.
                if let Some(terminal) = &self.terminal {
                    terminal.restore();
                }
                own_stop::stop()?;
                self.begin().await
            }
            // Also after a SIGSTOP, which nobody is told of.
            Told::Continue => self.begin().await,
        };
        // 3. Whatever came of it, the command does not stay behind. It may have another size to find out about.
        self.resize();
        self.signal(SignalName::Cont);
        end
    }

    /// A command with a terminal is told by that; another one can only be told that something has changed.
    fn resize(&self) {
        if !self.tty {
            self.signal(SignalName::Winch);
        } else if let Some(size) = own_terminal::size() {
            let request = ResizeRequest { process_id: self.process_id, rows: size.rows, cols: size.cols };
            drop(self.runner.call(Request::ProcessResize(request)));
        }
    }

    /// Its effect is there when the call returns.
    fn signal(&self, signal: SignalName) {
        let process_id = self.process_id;
        drop(self.runner.call(Request::SignalProcess(SignalRequest { process_id, signal })));
    }
}
