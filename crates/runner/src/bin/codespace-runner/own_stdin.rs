//! Our own stdin, read on a thread of its own that nobody waits for: a read of a terminal or a pipe may never return, and
//! must keep neither the runtime nor the process's end waiting.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::sync::mpsc;

/// Bytes of one piece.
const PIECE: usize = 64 * 1024;

/// Starts reading. The pieces come as they are read; the channel closes at the end of the input. Dropping the receiver
/// ends the reading with the piece that is being waited for.
pub(crate) fn pieces() -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (send, receive) = mpsc::channel(1);
    // A background job that reads its terminal is stopped by the terminal, command and all. It has no input instead.
    if tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp()) {
        return Ok(receive);
    }
    // A descriptor of our own, without the buffer and the lock of the standard library's.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        loop {
            let piece = match read(&mut input) {
                Ok(piece) if piece.is_empty() => return,
                piece => piece,
            };
            let failed = piece.is_err();
            if send.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(receive)
}

/// What there is, at least a byte; empty at the end.
fn read(input: &mut File) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; PIECE];
    loop {
        match input.read(&mut piece) {
            Ok(length) => {
                piece.truncate(length);
                return Ok(piece);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Somebody who shares it has made it non-blocking.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(input.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(e) => return Err(e),
        }
    }
}
