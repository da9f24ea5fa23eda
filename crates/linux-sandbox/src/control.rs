//! The control socket's end on this side: one JSON object per packet, descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use codespace_linux_sandbox_protocol::{CONTROL_FD, FromSandbox, MAX_MESSAGE, StageFailure, ToSandbox};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::sys;

/// The helper's or the inner stage's end of the pair whose other end the Runner holds.
pub(crate) struct Control(OwnedFd);

/// What came.
pub(crate) enum Received {
    Message(ToSandbox, Vec<OwnedFd>),
    /// The Runner is gone, or has let this process go.
    End,
}

impl Control {
    /// Takes over the inherited descriptor and makes it close-on-exec, so that the command never holds it.
    ///
    /// # Safety
    /// Once per process image.
    pub(crate) unsafe fn inherited() -> io::Result<Self> {
        // SAFETY: the Runner opened this number for us, and the caller calls once.
        let fd = unsafe { sys::inherited(CONTROL_FD) };
        sys::set_cloexec(fd.as_fd(), true)?;
        Ok(Self(fd))
    }

    /// Tells the Runner. A Runner that is gone is no error here: the lifeline sees to that.
    pub(crate) fn send(&self, message: &FromSandbox) {
        self.send_with(message, None);
    }

    /// Tells the Runner, and hands it a descriptor.
    pub(crate) fn send_with(&self, message: &FromSandbox, fd: Option<BorrowedFd<'_>>) {
        let Ok(bytes) = serde_json::to_vec(message) else { return };
        let fds: Vec<RawFd> = fd.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let rights = if fds.is_empty() { &rights[..0] } else { &rights[..] };
        loop {
            match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::MSG_NOSIGNAL, None) {
                Err(nix::Error::EINTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Tells the Runner that the start has failed.
    pub(crate) fn fail(&self, failure: StageFailure) {
        self.send(&FromSandbox::Failed(failure.shortened()));
    }

    /// Whether the Runner still holds the other end, at this moment.
    pub(crate) fn is_held(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        // Hang-ups are told whatever was asked for.
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
    }

    /// The next message; blocks until there is one.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        let mut buffer = vec![0u8; MAX_MESSAGE];
        let mut space = nix::cmsg_space!([RawFd; 3]);
        let (length, fds) = loop {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            match recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::ECONNRESET) => return Ok(Received::End),
                Err(error) => return Err(error.into()),
                Ok(message) => {
                    let mut fds = Vec::new();
                    for control in message.cmsgs()? {
                        if let ControlMessageOwned::ScmRights(numbers) = control {
                            // SAFETY: the kernel has just opened these numbers for this process.
                            fds.extend(numbers.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                        }
                    }
                    break (message.bytes, fds);
                }
            }
        };
        if length == 0 {
            return Ok(Received::End);
        }
        let message = serde_json::from_slice(&buffer[..length]).map_err(io::Error::from)?;
        Ok(Received::Message(message, fds))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
