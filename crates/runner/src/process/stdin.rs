//! Writes to a command's stdin: in the order in which they were asked for, without making anybody else wait.
//!
//! A write has its place as soon as it is asked for, also while the process is still being started. One task per process
//! does them one after another; a command that does not read holds up nobody but the writers of its own stdin.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use codespace_domain::{ErrorCode, RunnerError, StdinMode};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::sys::async_fd::async_fd;

/// Bytes that may wait for a command that does not read.
const QUEUE: usize = 16 * 1024 * 1024;
/// Keys of finished writes that are remembered, so that a retry writes nothing twice.
const KEYS: usize = 1024;

/// How a write went; `None` while it waits.
type Outcome = watch::Receiver<Option<Result<u64, Refusal>>>;

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Closed by the client, by the command, or never open.
    Closed,
    /// The process has ended.
    Ended,
    /// The operating system's error number.
    Failed(i32),
}

/// The side of those who write.
pub(crate) struct Stdin {
    state: Mutex<State>,
    queued: Arc<AtomicUsize>,
    mode: StdinMode,
    tty: bool,
}

struct State {
    /// Gone once it is closed.
    jobs: Option<mpsc::UnboundedSender<Job>>,
    /// With what was written, as a hash: the same key with other data is a mistake that must not pass for a retry.
    keys: VecDeque<(String, u64, Outcome)>,
}

/// The side of the task that writes.
pub(crate) struct Jobs {
    jobs: mpsc::UnboundedReceiver<Job>,
    queued: Arc<AtomicUsize>,
}

enum Job {
    Write {
        bytes: Vec<u8>,
        done: watch::Sender<Option<Result<u64, Refusal>>>,
    },
    /// A terminal is not closed: it is sent its end-of-file character.
    EndOfFile,
}

impl Stdin {
    pub(super) fn new(mode: StdinMode, tty: bool) -> (Self, Jobs) {
        let (sender, jobs) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let jobs_side = Jobs { jobs, queued: Arc::clone(&queued) };
        let open = (mode == StdinMode::Pipe).then_some(sender);
        (Self { state: Mutex::new(State { jobs: open, keys: VecDeque::new() }), queued, mode, tty }, jobs_side)
    }

    /// Takes the write's place in the order, now; the future waits until the command's stdin has taken all of it. A retry
    /// is told how the write went, whatever has become of the process since; a new write needs one that is `there`.
    pub(crate) fn write(
        &self,
        bytes: Vec<u8>,
        key: Option<String>,
        there: Result<(), RunnerError>,
    ) -> Result<impl Future<Output = Result<u64, Refusal>> + use<>, RunnerError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let data = hash(&bytes);
        let known = key.as_ref().and_then(|key| state.keys.iter().find(|(known, ..)| known == key));
        let outcome = match known {
            Some((_, known, _)) if *known != data => {
                let message = "write to stdin: this write_key was used for other data";
                return Err(RunnerError::new(ErrorCode::KeyConflict, message).with_hint("use a new key for new data"));
            }
            Some((.., outcome)) => outcome.clone(),
            None => {
                there?;
                let Some(jobs) = &state.jobs else { return Err(self.closed()) };
                let waiting = self.queued.load(Ordering::Relaxed);
                if waiting > 0 && waiting + bytes.len() > QUEUE {
                    let message = format!("write to stdin: {waiting} bytes wait for the command to read them already");
                    return Err(RunnerError::new(ErrorCode::ResourceUnavailable, message)
                        .with_hint("wait for the answers to earlier writes"));
                }
                self.queued.fetch_add(bytes.len(), Ordering::Relaxed);
                let (done, outcome) = watch::channel(None);
                if jobs.send(Job::Write { bytes, done }).is_err() {
                    return Err(self.closed());
                }
                if let Some(key) = key {
                    if state.keys.len() == KEYS {
                        state.keys.pop_front();
                    }
                    state.keys.push_back((key, data, outcome.clone()));
                }
                outcome
            }
        };
        drop(state);
        Ok(wait(outcome))
    }

    /// Ends stdin after the writes before it. Doing it again changes nothing.
    pub(crate) fn close(&self) -> Result<(), RunnerError> {
        if self.mode == StdinMode::None {
            return Err(self.closed());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.tty {
            // The terminal stays; a program may well read on after one end of file.
            if let Some(jobs) = &state.jobs {
                jobs.send(Job::EndOfFile).map_err(|_| self.closed())?;
            }
        } else {
            state.jobs = None;
        }
        Ok(())
    }

    /// The error of a write to a stdin that is not open.
    pub(crate) fn closed(&self) -> RunnerError {
        let (message, hint) = match self.mode {
            StdinMode::None => ("write to stdin: it was never open", "start the process with `stdin: \"pipe\"`"),
            StdinMode::Pipe => ("write to stdin: it is closed", "start a new process to give it more input"),
        };
        RunnerError::new(ErrorCode::StdinClosed, message).with_hint(hint)
    }
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

async fn wait(mut outcome: Outcome) -> Result<u64, Refusal> {
    match outcome.wait_for(Option::is_some).await {
        Ok(done) => done.unwrap_or(Err(Refusal::Ended)),
        // The task was ended with the process.
        Err(_) => Err(Refusal::Ended),
    }
}

/// Writes until stdin is closed by either side. Dropping the future closes it.
pub(super) async fn serve(mut jobs: Jobs, input: OwnedFd) -> io::Result<()> {
    let input = async_fd(input, Interest::WRITABLE)?;
    // Of a terminal: it holds a part of a line, which its reader gets only when the line ends.
    let mut line_open = false;
    while let Some(job) = jobs.jobs.recv().await {
        match job {
            Job::Write { bytes, done } => {
                let outcome = write_all(&input, &bytes).await;
                jobs.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
                let broken = outcome.is_err();
                if let Some(last) = bytes.last() {
                    // What is no terminal has no lines.
                    line_open = codespace_pty::leaves_a_line_open(input.get_ref().as_fd(), *last).unwrap_or(false);
                }
                done.send_replace(Some(outcome.map(|()| bytes.len() as u64).map_err(refusal)));
                if broken {
                    break;
                }
            }
            Job::EndOfFile => {
                let character = codespace_pty::end_of_file_char(input.get_ref().as_fd());
                if let Ok(character) = character
                    && character != libc::_POSIX_VDISABLE
                {
                    let characters = [character; 2];
                    // A terminal that is gone has no reader to tell.
                    write_all(&input, &characters[usize::from(!line_open)..]).await.ok();
                }
                line_open = false;
            }
        }
    }
    // Whoever comes now finds it closed, and whoever still waits is told.
    jobs.jobs.close();
    while let Some(job) = jobs.jobs.recv().await {
        if let Job::Write { bytes, done } = job {
            jobs.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
            done.send_replace(Some(Err(Refusal::Closed)));
        }
    }
    Ok(())
}

fn refusal(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EPIPE | libc::EIO) => Refusal::Closed,
        code => Refusal::Failed(code.unwrap_or(libc::EIO)),
    }
}

async fn write_all(input: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = input.writable().await?;
        let closed = ready.ready().is_write_closed();
        match ready.try_io(|fd| Ok(nix::unistd::write(fd.get_ref(), bytes)?)) {
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            // A terminal whose other side is gone takes nothing any more, but stays "ready": that would go round for ever.
            Err(_would_block) if closed => return Err(io::Error::from_raw_os_error(libc::EIO)),
            Err(_would_block) => {}
        }
    }
    Ok(())
}
