//! The terminal's ioctls that no safe wrapper exists for: this crate's only `unsafe`.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

mod raw {
    nix::ioctl_write_ptr_bad!(tiocswinsz, libc::TIOCSWINSZ, libc::winsize);
    nix::ioctl_read_bad!(tiocgwinsz, libc::TIOCGWINSZ, libc::winsize);
    nix::ioctl_write_int_bad!(tiocsctty, libc::TIOCSCTTY);
}

pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, window: &libc::winsize) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the kernel only reads the structure, which is the one
    // that this request takes.
    unsafe { raw::tiocswinsz(terminal.as_raw_fd(), window) }?;
    Ok(())
}

pub(crate) fn window_size(terminal: BorrowedFd<'_>) -> io::Result<libc::winsize> {
    let mut window = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes one structure of exactly this type
    // into a place that nothing else uses.
    unsafe { raw::tiocgwinsz(terminal.as_raw_fd(), &mut window) }?;
    Ok(window)
}

pub(crate) fn set_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the argument is a number, 0: never take the terminal away
    // from another session.
    unsafe { raw::tiocsctty(terminal.as_raw_fd(), 0) }?;
    Ok(())
}
