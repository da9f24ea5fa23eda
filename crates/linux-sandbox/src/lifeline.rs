//! The lifeline: a process that must not outlive another.
//!
//! Two steps, in this order, and only then does the process go on:
//!
//! 1. **Arm** `PR_SET_PDEATHSIG(SIGKILL)`: from now on the parent's death kills this process. A parent that died before
//!    this moment sends nothing, so
//! 2. **ask** the parent, over a socket, whether it is still there, and wait for the answer. An answer that was written
//!    before the arming would prove nothing about the time between; so the question is sent after it, and is answered by
//!    the very process whose death the signal follows.
//!
//! While waiting, the socket and a pidfd of the parent are polled together. The socket alone is not enough: a copy of its
//! other end in a sibling would keep it open. The pidfd alone proves nothing about the time before it was opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use crate::fault::{self, Fault};
use crate::sys;

/// Step 1. Must be repeated after a change of credentials, which clears it.
pub(crate) fn arm() -> io::Result<()> {
    if fault::on(Fault::NoLifeline) {
        return Ok(());
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into)
}

/// In place of step 1, for a process that has to end others by hand before it goes: being killed it could not. Being
/// stopped it could not either, and the Runner may have stopped it, for its own walk, when it dies: so its death wakes it.
pub(crate) fn wake_at_death() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGCONT).map_err(Into::into)
}

/// Waits until `answers` is readable. `false`: the parent is gone.
pub(crate) fn wait_for_answer(answers: BorrowedFd<'_>, parent: BorrowedFd<'_>) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(answers, PollFlags::POLLIN), PollFd::new(parent, PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // The parent first: an answer that it left behind before it died is void.
        if fds[1].any().unwrap_or(true) && !fault::on(Fault::AnswerFromWrongProcess) {
            return Ok(false);
        }
        if fds[0].any().unwrap_or(true) {
            return Ok(true);
        }
    }
}

/// Between the helper and the first process that it creates.
pub(crate) struct Lifeline {
    /// The parent's end.
    parent: OwnedFd,
    /// The child's end.
    child: OwnedFd,
    /// A pidfd of the parent.
    parent_pidfd: OwnedFd,
}

impl Lifeline {
    /// Made by the parent before the child exists. All descriptors are close-on-exec.
    pub(crate) fn new() -> io::Result<Self> {
        let (parent, child) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(io::Error::from)?;
        Ok(Self { parent, child, parent_pidfd: sys::own_pidfd()? })
    }

    /// The child's side, steps 1 and 2. `false`: the parent is gone, and this process has to leave.
    pub(crate) fn hold(self) -> io::Result<bool> {
        let Self { parent, child, parent_pidfd } = self;
        if fault::on(Fault::AnswerFromWrongProcess) {
            // The asker's own doing, with the copy of the other end that it keeps.
            send_byte(parent.as_fd())?;
            arm()?;
            return ask(child.as_fd(), parent_pidfd.as_fd());
        }
        // Else the child itself would keep the socket open.
        drop(parent);
        if fault::on(Fault::NoLifeline) {
            return Ok(true);
        }
        if fault::on(Fault::AnswerBeforeArming) {
            return Ok(ask(child.as_fd(), parent_pidfd.as_fd())? && arm().is_ok());
        }
        arm()?;
        ask(child.as_fd(), parent_pidfd.as_fd())
    }

    /// The parent's side: waits for the question and answers it. `false`: the child is gone.
    pub(crate) fn answer(self) -> io::Result<bool> {
        let Self { parent, child, parent_pidfd: _ } = self;
        drop(child);
        if fault::on(Fault::NoLifeline) {
            return Ok(true);
        }
        if !receive_byte(parent.as_fd())? {
            return Ok(false);
        }
        Ok(send_byte(parent.as_fd()).is_ok())
    }
}

/// Step 2. `false`: the parent is gone.
fn ask(child: BorrowedFd<'_>, parent: BorrowedFd<'_>) -> io::Result<bool> {
    if send_byte(child).is_err() {
        return Ok(false);
    }
    Ok(wait_for_answer(child, parent)? && receive_byte(child)?)
}

fn send_byte(fd: BorrowedFd<'_>) -> nix::Result<()> {
    use std::os::fd::AsRawFd;
    loop {
        match send(fd.as_raw_fd(), b"?", MsgFlags::MSG_NOSIGNAL) {
            Err(nix::Error::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// `false` at the end of the file.
fn receive_byte(fd: BorrowedFd<'_>) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    let mut byte = [0u8; 1];
    loop {
        match recv(fd.as_raw_fd(), &mut byte, MsgFlags::empty()) {
            Err(nix::Error::EINTR) => {}
            Err(nix::Error::ECONNRESET) => return Ok(false),
            Err(error) => return Err(error.into()),
            Ok(length) => return Ok(length == 1),
        }
    }
}
