//! Our own standard streams as the caller gave them: which are closed, how wide the terminal is, whether the reader has
//! gone.
//!
//! Rust's runtime opens `/dev/null` in the place of a closed one before `main`, and then nobody can tell that what is
//! written there is lost. So this looks before the runtime does.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU8, Ordering};

use codespace_domain::Stream;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::CliError;

/// Bit n: descriptor n was closed when this program began.
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the loader calls what this section lists, once, on the only thread, before `main`. `look` makes three system calls
// and needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: plain numbers; the call changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether the caller gave us none.
pub(crate) fn is_closed(stream: Stream) -> bool {
    let bit = match stream {
        Stream::Stdout => 1 << 1,
        Stream::Stderr => 1 << 2,
    };
    CLOSED.load(Ordering::Relaxed) & bit != 0
}

/// Refuses what would have no place to go, before anything is done for it.
pub(crate) fn need(streams: &[Stream]) -> Result<(), CliError> {
    match streams.iter().find(|stream| is_closed(**stream)) {
        Some(stream) => Err(CliError::Closed(*stream)),
        None => Ok(()),
    }
}

/// Whether stdout is a terminal on which a table can be drawn again and again.
pub(crate) fn can_redraw() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Rows and columns of the terminal that stdout is; `None` where it is none, or does not know.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let size = codespace_pty::size(io::stdout().as_fd()).ok()?;
    (size.rows > 0 && size.cols > 0).then_some((size.rows.into(), size.cols.into()))
}

/// Whether whoever read our stdout has gone, so that the next write would fail.
pub(crate) fn reader_has_gone() -> bool {
    let stdout = io::stdout();
    let mut state = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let asked = poll(&mut state, PollTimeout::ZERO);
    asked.is_ok() && state[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}
