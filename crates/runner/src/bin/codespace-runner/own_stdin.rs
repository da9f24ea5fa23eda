//! Our own stdin, read on a thread of its own that nobody waits for: a read of a terminal or a pipe may never return, and
//! must keep neither the runtime nor the process's end waiting.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::isatty;
use tokio::sync::mpsc;

use crate::own_terminal::in_background;

/// Bytes of one piece.
const PIECE: usize = 64 * 1024;
/// How often a job in the background looks again, while somebody types for the job in the foreground.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Starts reading. The pieces come as they are read; the channel closes at the end of the input. Dropping the receiver
/// ends the reading with the piece that is being waited for.
pub(crate) fn pieces() -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (send, receive) = mpsc::channel(1);
    // A descriptor of our own, without the buffer and the lock of the standard library's.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let terminal = isatty(&input).unwrap_or(false);
        loop {
            if terminal {
                wait_for_our_turn(&input);
            }
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

/// Waits until there is something typed that is for us. A job that reads its terminal from the background is stopped by
/// the kernel, whether or not its command wants input at all; so from there it only waits to be brought to the front.
fn wait_for_our_turn(terminal: &File) {
    loop {
        match poll(&mut [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
            Ok(_) if in_background(terminal) => std::thread::sleep(LOOK_AGAIN),
            Err(nix::errno::Errno::EINTR) => {}
            // What else there is, the read tells.
            Ok(_) | Err(_) => return,
        }
    }
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
