//! Notices that a peer has closed its end for good, also while nothing is read from it.
//!
//! An end of input alone does not tell: a peer may be done with sending and still wait for its answers. And behind
//! unread requests an end of input is not even seen. The kernel reports the full close as an event of its own.

use std::io;
use std::os::fd::AsFd as _;

use tokio::io::Interest;
use tokio::net::UnixStream;

/// Watches one connection through a descriptor of its own, so that what it takes note of is lost to nobody else.
#[derive(Debug)]
pub(super) struct Hangup(UnixStream);

impl Hangup {
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        let copy = stream.as_fd().try_clone_to_owned()?;
        Ok(Self(UnixStream::from_std(copy.into())?))
    }

    /// Returns when the peer has closed both directions, or the connection has broken.
    pub(super) async fn wait(&self) {
        loop {
            let Ok(ready) = self.0.ready(Interest::WRITABLE).await else { return };
            if ready.is_write_closed() || ready.is_error() {
                return;
            }
            // Takes back "can be written", without writing, so that only the next event wakes us; a close stays known.
            drop(self.0.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())));
        }
    }
}
