//! Stopping ourselves, as the signal that we have caught would have done. The binary's only `unsafe`.

use std::io;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// Stops this process with all its threads as Ctrl-Z does; returns when somebody has continued it. At once where the
/// kernel stops nobody: in a process group that no shell could continue. The signal must not be blocked.
pub(crate) fn stop() -> io::Result<()> {
    // With the signal's own default, and not with SIGSTOP: that would also stop what nobody could continue.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default disposition runs no code of this process.
    let caught = unsafe { sigaction(Signal::SIGTSTP, &default) }?;
    let stopped = raise(Signal::SIGTSTP);
    // SAFETY: this is the handler that was there before, which the runtime keeps for the whole life of the process.
    unsafe { sigaction(Signal::SIGTSTP, &caught) }?;
    Ok(stopped?)
}

/// Stops this process as the kernel stops one that changes its terminal from the background; returns as [`stop`] does.
pub(crate) fn stop_in_background() -> io::Result<()> {
    Ok(raise(Signal::SIGTTOU)?)
}
