//! The terminal that we were called from: its mode, which has this one owner, its size, and whether it is ours just now.
//!
//! Whatever happens to this process, the mode comes back: at the end of the owner's life, in a panic before its message is
//! shown, and when we are told to stop (`foreground`). A SIGKILL is the one exception; then `stty sane` helps. Never
//! changes the descriptor's flags, which it shares with the shell, and never waits for the terminal to take its output.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use codespace_pty::Size;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, isatty, tcgetpgrp};

/// The owner of the mode. Dropping it brings back the mode that was found.
pub(crate) struct OwnTerminal(Arc<Kept>);

struct Kept {
    terminal: OwnedFd,
    /// The mode that was found, while it is another one.
    found: Mutex<Option<Termios>>,
}

impl OwnTerminal {
    /// The terminal that is our stdin, if it is one. Changes nothing yet.
    pub(crate) fn of_stdin() -> io::Result<Option<Self>> {
        if !isatty(io::stdin()).unwrap_or(false) {
            return Ok(None);
        }
        Ok(Some(Self::over(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    fn over(terminal: OwnedFd) -> Self {
        let kept = Arc::new(Kept { terminal, found: Mutex::new(None) });
        restore_before_panic_messages(Arc::downgrade(&kept));
        Self(kept)
    }

    /// Every key is a byte, at once, and every byte of output is shown as it is. Again after others had the terminal.
    /// Only for one that is [`in_foreground`](Self::in_foreground): the kernel stops a process that does it from behind.
    pub(crate) fn raw(&self) -> io::Result<()> {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match found.as_ref() {
            Some(before) => before.clone(),
            None => tcgetattr(&self.0.terminal)?,
        };
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        // First, so that nothing can come between the change and the memory of what was before.
        *found = Some(before);
        // Not once the output is taken: a terminal that somebody holds still must hold up nothing else.
        Ok(tcsetattr(&self.0.terminal, SetArg::TCSANOW, &raw)?)
    }

    /// Brings back the mode that was found. Doing it again changes nothing.
    pub(crate) fn restore(&self) {
        self.0.restore();
    }

    /// Whether the terminal is ours to read and to change. One that is no job's controlling terminal always is.
    pub(crate) fn in_foreground(&self) -> bool {
        !in_background(&self.0.terminal)
    }
}

impl Drop for OwnTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Kept {
    fn restore(&self) {
        let Some(found) = self.found.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // Somebody else's by now: the shell has brought back its own mode, which ours would overwrite.
        if in_background(&self.terminal) {
            return;
        }
        // And if that changes right now, we are not to be stopped for it.
        let held = SigSet::from(Signal::SIGTTOU);
        let blocked = held.thread_block();
        // A terminal that is gone has no mode to bring back.
        tcsetattr(&self.terminal, SetArg::TCSANOW, &found).ok();
        if blocked.is_ok() {
            held.thread_unblock().ok();
        }
    }
}

/// In a raw terminal the message would run down the screen like stairs; and a panic may never reach a destructor.
fn restore_before_panic_messages(kept: Weak<Kept>) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if let Some(kept) = kept.upgrade() {
            kept.restore();
        }
        before(panicked);
    }));
}

/// Whether it is our controlling terminal and another job has it.
pub(crate) fn in_background(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground != getpgrp())
}

/// The size of the terminal that shows our output, else of the one that our input comes from; `None` where there is none
/// or it does not know.
pub(crate) fn size() -> Option<Size> {
    let (stdout, stdin, stderr) = (io::stdout(), io::stdin(), io::stderr());
    let sizes = [stdout.as_fd(), stdin.as_fd(), stderr.as_fd()].map(codespace_pty::size);
    let known = |size: &Size| size.rows > 0 && size.cols > 0;
    sizes.into_iter().filter_map(Result::ok).find(known)
}

/// Whether the error says that there is no terminal any more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EIO as i32)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use codespace_pty::Pty;
    use nix::sys::termios::LocalFlags;

    use super::*;

    fn terminal() -> (Pty, OwnTerminal) {
        let pty = Pty::open(Size { rows: 24, cols: 80 }).unwrap();
        let terminal = OwnTerminal::over(pty.slave.try_clone().unwrap());
        (pty, terminal)
    }

    fn is_raw(pty: &Pty) -> bool {
        !tcgetattr(&pty.slave).unwrap().local_flags.contains(LocalFlags::ICANON)
    }

    #[test]
    fn the_mode_comes_back_when_asked_for_and_at_the_end_of_its_owner() {
        let (pty, terminal) = terminal();
        let before = tcgetattr(&pty.slave).unwrap();
        assert!(!is_raw(&pty), "it changes nothing by itself");
        for _ in 0..2 {
            terminal.raw().unwrap();
            terminal.raw().unwrap();
            assert!(is_raw(&pty));
            terminal.restore();
            assert_eq!(tcgetattr(&pty.slave).unwrap(), before);
        }
        terminal.raw().unwrap();
        drop(terminal);
        assert_eq!(tcgetattr(&pty.slave).unwrap(), before);
    }

    #[test]
    fn a_panic_brings_the_mode_back_before_its_message_and_without_a_destructor() {
        let (pty, terminal) = terminal();
        // Never dropped: only the hook can do it.
        let terminal = std::mem::ManuallyDrop::new(terminal);
        terminal.raw().unwrap();
        catch_unwind(AssertUnwindSafe(|| panic!("expected by this test"))).unwrap_err();
        assert!(!is_raw(&pty));
    }

    #[test]
    fn a_panic_while_the_mode_is_owned_brings_it_back() {
        let (pty, terminal) = terminal();
        catch_unwind(AssertUnwindSafe(move || {
            terminal.raw().unwrap();
            panic!("expected by this test");
        }))
        .unwrap_err();
        assert!(!is_raw(&pty));
    }

    #[test]
    fn a_terminal_that_is_gone_is_no_failure() {
        let (pty, terminal) = terminal();
        terminal.raw().unwrap();
        drop(pty);
        terminal.restore();
        assert!(is_gone(&terminal.raw().unwrap_err()));
    }
}
