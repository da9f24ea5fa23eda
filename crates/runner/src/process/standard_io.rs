//! The command's standard descriptors: the Runner's ends, and the ends that the inner stage is given.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use codespace_domain::{StdinMode, Stream};
use codespace_pty::{Pty, Size};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::sys::async_fd::set_nonblocking;

/// Made before the root is.
pub(super) struct StandardIo {
    /// For the command: stdin, stdout, stderr.
    pub(super) theirs: [OwnedFd; 3],
    /// What is read from it.
    pub(super) sources: Vec<(OwnedFd, Stream)>,
    /// What is written to it.
    pub(super) input: Option<OwnedFd>,
    /// To be sized.
    pub(super) terminal: Option<OwnedFd>,
}

impl StandardIo {
    /// Pipes, or `/dev/null` for a stdin that ends at once. Both labels have a pipe of their own.
    pub(super) fn pipes(stdin: StdinMode) -> io::Result<Self> {
        let (their_stdin, input) = match stdin {
            StdinMode::None => (File::open("/dev/null")?.into(), None),
            StdinMode::Pipe => {
                let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
                set_nonblocking(write.as_fd())?;
                (read, Some(write))
            }
        };
        let (stdout, their_stdout) = pipe2(OFlag::O_CLOEXEC)?;
        let (stderr, their_stderr) = pipe2(OFlag::O_CLOEXEC)?;
        Ok(Self {
            theirs: [their_stdin, their_stdout, their_stderr],
            sources: vec![(stdout, Stream::Stdout), (stderr, Stream::Stderr)],
            input,
            terminal: None,
        })
    }

    /// A terminal. All that comes out of it is `stdout`.
    pub(super) fn terminal(size: Size) -> io::Result<Self> {
        let Pty { master, slave } = Pty::open(size)?;
        Ok(Self {
            theirs: [slave.try_clone()?, slave.try_clone()?, slave],
            sources: vec![(master.try_clone()?, Stream::Stdout)],
            input: Some(master.try_clone()?),
            terminal: Some(master),
        })
    }
}
