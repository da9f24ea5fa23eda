//! Opening the two sides of a pseudo-terminal. Neither becomes the caller's controlling terminal.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::termios::{InputFlags, SetArg, tcgetattr, tcsetattr};

use crate::terminal::{Size, resize};

/// The two sides of a pseudo-terminal, both close-on-exec.
#[derive(Debug)]
pub struct Pty {
    /// The side that stands for the screen and the keyboard. Non-blocking.
    pub master: OwnedFd,
    /// The side that a program uses as its terminal. Blocking. As long as any copy of it is open the master's output
    /// does not end, so close it when the child has its own.
    pub slave: OwnedFd,
}

impl Pty {
    /// Opens a terminal of this size, with the system's usual settings and input known to be UTF-8.
    ///
    /// # Errors
    /// The operating system's: no terminal is left, no descriptor is left, or no `devpts` is mounted.
    pub fn open(size: Size) -> io::Result<Pty> {
        let pty = open_pair()?;
        // On the slave: not every system lets the master be sized before the slave was opened.
        resize(pty.slave.as_fd(), size)?;
        // Without it, the terminal's own line editing erases one byte of a character instead of the character.
        let mut settings = tcgetattr(&pty.slave)?;
        settings.input_flags |= InputFlags::IUTF8;
        tcsetattr(&pty.slave, SetArg::TCSANOW, &settings)?;
        let flags = OFlag::from_bits_retain(fcntl(&pty.master, FcntlArg::F_GETFL)?);
        fcntl(&pty.master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(pty)
    }
}

/// Close-on-exec from the first moment on: another thread may start a program right now.
#[cfg(target_os = "linux")]
fn open_pair() -> io::Result<Pty> {
    use nix::fcntl::open;
    use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
    use nix::sys::stat::Mode;

    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = open(ptsname_r(&master)?.as_str(), flags, Mode::empty())?;
    Ok(Pty { master: master.into(), slave })
}

/// Elsewhere there is no re-entrant `ptsname`. A program that another thread starts between the two calls inherits
/// the descriptors.
#[cfg(not(target_os = "linux"))]
fn open_pair() -> io::Result<Pty> {
    use nix::fcntl::FdFlag;
    use nix::pty::openpty;

    let pair = openpty(None, None)?;
    for side in [&pair.master, &pair.slave] {
        fcntl(side, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok(Pty { master: pair.master, slave: pair.slave })
}
