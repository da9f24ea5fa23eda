//! The Runner's end of the control socket: one JSON object per packet, descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use codespace_linux_sandbox_protocol::{FromSandbox, MAX_MESSAGE, ToSandbox};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys::async_fd::{async_fd, set_nonblocking};

/// A connected end. Its other end is held by the helper, the engine and the inner stage of one process, and by no one
/// else: the command never has it. So its end of file says that all of those are gone.
pub(crate) struct Control(AsyncFd<OwnedFd>);

/// What came, with the descriptor that it brought along.
pub(crate) type Received = (FromSandbox, Option<OwnedFd>);

impl Control {
    /// The Runner's end and the helper's, both close-on-exec. Needs a runtime.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        set_nonblocking(ours.as_fd())?;
        Ok((Self(async_fd(ours, Interest::READABLE)?), theirs))
    }

    /// The next message; `None` at the end of the file.
    pub(crate) async fn receive(&self) -> io::Result<Option<Received>> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|fd| receive_now(fd.get_ref())) {
                Ok(outcome) => return outcome,
                Err(_would_block) => {}
            }
        }
    }

    /// Says something to the other side, with descriptors beside it. The socket's buffer takes hundreds of messages, and
    /// the other side reads each at once; where it is full all the same the message is refused, not waited for.
    pub(crate) fn send(&self, message: &ToSandbox, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let rights = if fds.is_empty() { &rights[..0] } else { &rights[..] };
        sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    }
}

fn receive_now(fd: &OwnedFd) -> io::Result<Option<Received>> {
    let mut buffer = vec![0u8; MAX_MESSAGE];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let (length, fd) = loop {
        match recvmsg::<()>(fd.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            // The other side left with unread messages of ours.
            Err(nix::Error::ECONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(message) => {
                let mut given = None;
                for control in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(numbers) = control {
                        // SAFETY: the kernel has just opened these numbers for this process.
                        given = numbers.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).next();
                    }
                }
                break (message.bytes, given);
            }
        }
    };
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&buffer[..length])?, fd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_come_in_order_and_the_end_is_told() {
        let (ours, theirs) = Control::pair().unwrap();
        for message in [FromSandbox::Armed, FromSandbox::Ready] {
            let bytes = serde_json::to_vec(&message).unwrap();
            nix::sys::socket::send(theirs.as_raw_fd(), &bytes, MsgFlags::empty()).unwrap();
        }
        let fds = [theirs.as_raw_fd()];
        let bytes = serde_json::to_vec(&FromSandbox::FirstProcess).unwrap();
        let rights = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(theirs.as_raw_fd(), &[IoSlice::new(&bytes)], &rights, MsgFlags::empty(), None).unwrap();

        assert_eq!(ours.receive().await.unwrap().unwrap().0, FromSandbox::Armed);
        assert_eq!(ours.receive().await.unwrap().unwrap().0, FromSandbox::Ready);
        let (message, fd) = ours.receive().await.unwrap().unwrap();
        assert!(message == FromSandbox::FirstProcess && fd.is_some());
        drop(fd);
        ours.send(&ToSandbox::Go, &[theirs.as_fd()]).unwrap();
        drop(theirs);
        // The sent copy of the other end is still in the socket's own queue, which the kernel collects.
        assert!(ours.send(&ToSandbox::Go, &[]).is_err() || ours.receive().await.unwrap().is_none());
    }
}
