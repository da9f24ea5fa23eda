//! The life of the one command of a `run`: its start, its streams, the signals on the way, its end, its last byte.
//!
//! One loop over a closed set of events. What an event leads to is `ends`' decision; this performs it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::{
    EndedBy, ExecReply, ExecRequest, ProcessId, ProcessRef, ProcessStatus, Request, SignalName, SignalRequest, State,
    Stream, TerminateRequest,
};
use codespace_runner::Runner;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::super::typing::{Typed, Typing};
use super::super::wait;
use super::ends::{Action, Ends};
use super::job::Job;
use super::streams;
use crate::detach_keys::DetachKeys;
use crate::error::CliError;
use crate::own_job::{OwnJob, Told};
use crate::own_stop;
use crate::own_terminal::{self, OwnTerminal};
use crate::render::Render;

/// How long the rest of the output may take to be read by others, after an end that we brought about.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Runs the command to its end. The exit code, or why it could not be run.
pub(super) async fn supervise<R: Runner + 'static>(
    runner: Arc<R>,
    request: ExecRequest,
    ends: Ends,
    mut job: OwnJob,
    terminal: Option<OwnTerminal>,
    render: Render,
) -> Result<u8, CliError> {
    let tty = request.tty;
    let mut command = Command { runner, ends, tty, grace_until: None, unread: None, render };
    let started = command.start(request, &mut job).await?;
    let process_id = started.process_id;
    let mut job = Job { runner: Arc::clone(&command.runner), process_id, tty, terminal, told: job, ending: false };
    let ended_early = started.status.as_ref().is_some_and(|status| status.state == State::Exited);
    if render.is_json() {
        let status = match &started.status {
            Some(status) if ended_early => status.clone(),
            Some(_) | None => command.live(process_id, &[], &mut job).await?,
        };
        let output = streams::kept(&*command.runner, process_id).await?;
        let code = command.ends.exit_code(&status);
        // The fields of an `exec` that waited for the end.
        render.object(&ExecReply { status: Some(status), output: Some(Box::new(output)), ..started })?;
        return Ok(code);
    }
    // Of a terminal all that is written comes out at one place.
    let streams: &[Stream] = if tty { &[Stream::Stdout] } else { &[Stream::Stdout, Stream::Stderr] };
    let status = match started.status {
        // Ended before there was a command, so that there is nothing to copy either.
        Some(status) if ended_early => status,
        Some(_) | None => command.live(process_id, streams, &mut job).await?,
    };
    // Before anything is said: our terminal in its own mode.
    drop(job);
    command.remark(&status);
    Ok(command.ends.exit_code(&status))
}

struct Command<R> {
    runner: Arc<R>,
    ends: Ends,
    tty: bool,
    /// When the grace of the first signal is over.
    grace_until: Option<Instant>,
    /// Why our input was not read to its end.
    unread: Option<io::Error>,
    render: Render,
}

impl<R: Runner + 'static> Command<R> {
    /// Starts it. A signal meanwhile ends the start, which is then answered with an ended status.
    async fn start(&mut self, request: ExecRequest, job: &mut OwnJob) -> Result<ExecReply, CliError> {
        let by_key = request
            .process_key
            .clone()
            .map(|process_key| ProcessRef::Key { workspace_id: request.workspace_id.clone(), process_key });
        let runner = Arc::clone(&self.runner);
        let started = runner.exec(request);
        tokio::pin!(started);
        loop {
            tokio::select! {
                biased;
                started = &mut started => return Ok(started?),
                told = job.next() => match told {
                    Told::End(signal) => if self.ends.signal(signal, false) == Action::Terminate {
                        self.terminate(by_key.clone());
                    },
                    Told::Stop => own_stop::stop().map_err(|e| CliError::host("stop", e))?,
                    Told::Continue | Told::Resized => {}
                },
            }
        }
    }

    /// Follows it to its end and its last byte.
    async fn live(
        &mut self,
        process_id: ProcessId,
        streams: &[Stream],
        job: &mut Job<R>,
    ) -> Result<Box<ProcessStatus>, CliError> {
        let mut failure = None;
        // Before the first byte of output.
        let action = self.stood_still(job.begin().await, &mut failure);
        self.perform(action, process_id);
        let mut copies = JoinSet::new();
        for stream in streams {
            copies.spawn(streams::copy(Arc::clone(&self.runner), process_id, *stream, self.render));
        }
        // Ends with this function: a stdin that stays open must not keep us.
        let mut input = JoinSet::new();
        let typing = Typing::new(Arc::clone(&self.runner), process_id, self.tty, DetachKeys::none());
        input.spawn(async move { typing.pass_on(&mut 0).await });

        let runner = Arc::clone(&self.runner);
        let ended = wait::until_exited(&*runner, process_id);
        tokio::pin!(ended);
        let status = loop {
            let grace_until = self.grace_until;
            let action = tokio::select! {
                status = &mut ended => break status?,
                told = job.next() => match told {
                    Told::End(signal) => self.ends.signal(signal, true),
                    told => self.stood_still(job.follow(told).await, &mut failure),
                },
                () = sleep_until(grace_until.unwrap_or_else(Instant::now)), if grace_until.is_some() => {
                    self.grace_until = None;
                    self.ends.grace_over()
                }
                Some(copied) = copies.join_next() => self.copied(copied, &mut failure),
                Some(typed) = input.join_next() => {
                    if let Ok(Typed::Failed(error)) = typed {
                        self.unread = Some(error);
                    }
                    Action::Nothing
                }
            };
            self.perform(action, process_id);
        };

        // The command and its tree are gone. What they wrote may still be on its way to whoever reads our output: without
        // a bound, as for any program, unless we were told to end.
        let patience = self.ends.was_ended(&status).then(|| Instant::now() + LAST_OUTPUT).or(self.grace_until);
        loop {
            tokio::select! {
                copied = copies.join_next() => match copied {
                    Some(copied) => drop(self.copied(copied, &mut failure)),
                    None => break,
                },
                told = job.next() => match told {
                    Told::End(_) => break,
                    // There is nothing but ourselves to be stopped any more.
                    told => match job.follow(told).await {
                        Ok(None) => {}
                        Ok(Some(_)) | Err(_) => break,
                    },
                },
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => break,
            }
        }
        failure.map_or(Ok(status), Err)
    }

    /// We may have been stopped, and told to end meanwhile.
    fn stood_still(&mut self, told: Result<Option<SignalName>, io::Error>, failure: &mut Option<CliError>) -> Action {
        match told {
            Ok(None) => Action::Nothing,
            Ok(Some(signal)) => self.ends.signal(signal, true),
            Err(error) => {
                failure.get_or_insert_with(|| CliError::host("take the terminal", error));
                self.ends.failed()
            }
        }
    }

    /// One of the streams has come to its end, or was lost.
    fn copied(&mut self, copied: Result<Result<(), CliError>, JoinError>, failure: &mut Option<CliError>) -> Action {
        match copied {
            Ok(Ok(())) => Action::Nothing,
            Ok(Err(CliError::BrokenPipe)) => self.ends.broken_pipe(),
            Ok(Err(error)) => {
                failure.get_or_insert(error);
                self.ends.failed()
            }
            Err(error) => {
                failure.get_or_insert_with(|| CliError::host("copy the output", error.into()));
                self.ends.failed()
            }
        }
    }

    fn perform(&mut self, action: Action, process_id: ProcessId) {
        match action {
            Action::Nothing => {}
            Action::Terminate => self.terminate(Some(ProcessRef::Id { process_id })),
            Action::Forward(signal, grace) => {
                self.grace_until = grace.map(|grace| Instant::now() + grace);
                // Its effect is there when the call returns. A command that has just ended needs no signal.
                drop(self.runner.call(Request::SignalProcess(SignalRequest { process_id, signal })));
            }
        }
    }

    /// Ends the tree. The answer is not waited for here: the end shows in the status.
    fn terminate(&mut self, process: Option<ProcessRef>) {
        self.grace_until = None;
        if let Some(process) = process {
            drop(self.runner.call(Request::TerminateProcess(TerminateRequest { process, grace_ms: Some(0) })));
        }
    }

    /// What the exit code alone does not say.
    fn remark(&self, status: &ProcessStatus) {
        let render = self.render;
        if let Some(error) = self.unread.as_ref().filter(|error| !own_terminal::is_gone(error)) {
            render.note(&format!("failed to read stdin: {error}"));
        }
        if let (Some(EndedBy::Limit), Some(limit)) = (status.ended_by, status.limit) {
            let limit =
                serde_json::to_value(limit).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
            render.note(&format!("the command was ended by its limit: {limit}"));
        }
        if status.ended_by == Some(EndedBy::HelperLost) {
            render.note("the sandbox helper was killed by somebody else; how the command ended was not seen");
        }
        if let Some(tree) = status.tree.as_ref().filter(|tree| !tree.confirmed) {
            let why = tree.detail.as_deref().unwrap_or("the time for it ran out");
            render.note(&format!("it was not seen that nothing of the command is left: {why}"));
        }
        for finding in &status.policy_findings {
            render.note(finding);
        }
    }
}
