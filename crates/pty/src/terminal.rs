//! A terminal's size, and what ends its input. Each works on either side of the pair.

use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::termios::{LocalFlags, SpecialCharacterIndices, tcgetattr};

use crate::ioctl;

/// A terminal's size, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub cols: u16,
}

/// Sets the size. If it differs, the terminal's foreground process group gets SIGWINCH.
///
/// # Errors
/// The operating system's; `ENOTTY` if it is no terminal.
pub fn resize(master: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let window = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    ioctl::set_window_size(master, &window)
}

/// The size.
///
/// # Errors
/// The operating system's; `ENOTTY` if it is no terminal.
pub fn size(master: BorrowedFd<'_>) -> io::Result<Size> {
    let window = ioctl::window_size(master)?;
    Ok(Size { rows: window.ws_row, cols: window.ws_col })
}

/// The character that, at the beginning of a line, means the end of the input (usually Ctrl-D, 4). Only a terminal
/// in canonical mode takes it so; `_POSIX_VDISABLE` (0 on Linux, 255 on macOS) means that there is none.
///
/// # Errors
/// The operating system's; `ENOTTY` if it is no terminal.
pub fn end_of_file_char(master: BorrowedFd<'_>) -> io::Result<u8> {
    Ok(tcgetattr(master)?.control_chars[SpecialCharacterIndices::VEOF as usize])
}

/// Whether input whose last byte is `last` waits for the rest of its line: then the first end-of-file character only
/// hands the line over, and it takes a second one to mean the end. Never so where the program reads byte by byte.
///
/// # Errors
/// The operating system's; `ENOTTY` if it is no terminal.
pub fn leaves_a_line_open(master: BorrowedFd<'_>, last: u8) -> io::Result<bool> {
    use SpecialCharacterIndices::{VEOF, VEOL, VEOL2, VINTR, VKILL, VQUIT, VSUSP};
    let modes = tcgetattr(master)?;
    let ends = [VEOF, VEOL, VEOL2, VINTR, VKILL, VQUIT, VSUSP].map(|which| modes.control_chars[which as usize]);
    let canonical = modes.local_flags.contains(LocalFlags::ICANON);
    Ok(canonical && !matches!(last, b'\n' | b'\r') && !ends.contains(&last))
}
