//! The only file that prints. Text for people or one JSON object, bytes as they are, errors in one form.
//!
//! Whoever reads our stdout may leave at any time; that is [`CliError::BrokenPipe`], and quiet. Decides nothing.

use std::io::{self, Write};
use std::os::fd::AsFd;

use codespace_domain::{RunnerError, Stream};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use crate::colour::{Paint, Tone};
use crate::error::CliError;
use crate::escape::escape;
use crate::own_streams;

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Render {
    json: bool,
}

#[derive(Serialize)]
struct ErrorShown<'a> {
    error: &'a RunnerError,
}

impl Render {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// A result: with `--json` the object, else the text, which is safe to show.
    pub(crate) fn result(self, object: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CliError> {
        if self.json {
            return self.object(object);
        }
        let mut text = text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        print(Stream::Stdout, text.as_bytes())
    }

    /// One JSON object in one line.
    pub(crate) fn object(self, object: &impl Serialize) -> Result<(), CliError> {
        let mut line = serde_json::to_vec(object).map_err(|e| CliError::output(e.into()))?;
        line.push(b'\n');
        print(Stream::Stdout, &line)
    }

    /// A command's output as it is.
    pub(crate) fn bytes(self, stream: Stream, bytes: &[u8]) -> Result<(), CliError> {
        print(stream, bytes)
    }

    /// What a result's text may be coloured with.
    pub(crate) fn paint(self) -> Paint {
        Paint::of_stdout()
    }

    /// What draws on a terminal, as it is.
    pub(crate) fn draw(self, text: &str) -> Result<(), CliError> {
        print(Stream::Stdout, text.as_bytes())
    }

    /// A remark beside the result, on stderr.
    pub(crate) fn note(self, text: &str) {
        let who = Paint::of_stderr().paint(Tone::Bad, "codespace-runner:");
        complain(&format!("{who} {}\n", escape(text)));
    }

    /// Why a verb was not done.
    pub(crate) fn error(self, error: &CliError) {
        let broken_pipe = |error: &CliError| matches!(error, CliError::BrokenPipe);
        if broken_pipe(error) || matches!(error, CliError::Run(inner) if broken_pipe(inner)) {
            return;
        }
        let shown = error.to_runner_error();
        if self.json {
            match self.object(&ErrorShown { error: &shown }) {
                Ok(()) | Err(CliError::BrokenPipe) => return,
                // Then at least on stderr.
                Err(_) => {}
            }
        }
        let paint = Paint::of_stderr();
        let (who, advice) = (paint.paint(Tone::Alarm, "codespace-runner:"), paint.paint(Tone::Hint, "hint:"));
        let hint = shown.hint.map(|hint| format!("{advice} {}\n", escape(&hint))).unwrap_or_default();
        complain(&format!("{who} failed to {}\n{hint}", escape(&shown.message)));
    }
}

fn print(stream: Stream, bytes: &[u8]) -> Result<(), CliError> {
    if own_streams::is_closed(stream) && !bytes.is_empty() {
        return Err(CliError::Closed(stream));
    }
    let written = match stream {
        Stream::Stdout => write_whole(&mut io::stdout().lock(), bytes),
        Stream::Stderr => write_whole(&mut io::stderr().lock(), bytes),
    };
    written.map_err(CliError::output)
}

/// What cannot be said on stderr can be said nowhere.
fn complain(text: &str) {
    drop(print(Stream::Stderr, text.as_bytes()));
}

/// Writes all, also to a descriptor that somebody who shares it has made non-blocking.
fn write_whole(output: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let step = if bytes.is_empty() { output.flush().map(|()| None) } else { output.write(bytes).map(Some) };
        match step {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Some(written)) => bytes = &bytes[written..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut ready, PollTimeout::NONE) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(e) => return Err(e),
        }
    }
}
