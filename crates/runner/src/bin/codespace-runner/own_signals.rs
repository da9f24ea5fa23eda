//! The signals that this process is sent. Those that its caller has it ignore (`nohup`, a shell's background job) stay
//! ignored. Needs the runtime.

use std::io;
use std::task::{Context, Poll};

use codespace_domain::SignalName;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches signals from its making on.
pub(crate) struct OwnSignals {
    caught: Vec<(SignalName, Signal)>,
    /// Makes sure that children's ends are reported: a caller may have it set to "ignore", and then none can be waited for.
    _children: Signal,
}

impl OwnSignals {
    /// Catches the wanted ones, as far as they are not ignored.
    pub(crate) fn catch(wanted: &[SignalName]) -> io::Result<Self> {
        let mut caught = Vec::new();
        for name in wanted {
            caught.extend(unless_ignored(number_of(*name))?.map(|signal| (*name, signal)));
        }
        Ok(Self { caught, _children: signal(SignalKind::child())? })
    }

    /// The next one. Never returns when all are ignored. May be dropped and called again without losing one.
    pub(crate) async fn next(&mut self) -> SignalName {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same for a caller that waits for more than these.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<SignalName> {
        for (name, signal) in &mut self.caught {
            if signal.poll_recv(cx).is_ready() {
                return Poll::Ready(*name);
            }
        }
        Poll::Pending
    }
}

/// Catches a signal from now on, unless it is ignored.
pub(crate) fn unless_ignored(number: i32) -> io::Result<Option<Signal>> {
    let ignored = ignored_mask(&std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default());
    if ignored & (1 << (number - 1)) != 0 {
        return Ok(None);
    }
    signal(SignalKind::from_raw(number)).map(Some)
}

/// The number of a signal on Linux.
pub(crate) fn number_of(name: SignalName) -> i32 {
    match name {
        SignalName::Hup => libc::SIGHUP,
        SignalName::Int => libc::SIGINT,
        SignalName::Quit => libc::SIGQUIT,
        SignalName::Kill => libc::SIGKILL,
        SignalName::Usr1 => libc::SIGUSR1,
        SignalName::Usr2 => libc::SIGUSR2,
        SignalName::Term => libc::SIGTERM,
        SignalName::Cont => libc::SIGCONT,
        SignalName::Stop => libc::SIGSTOP,
        SignalName::Winch => libc::SIGWINCH,
    }
}

/// `SigIgn` of a `/proc/<pid>/status`: bit n-1 for signal n.
fn ignored_mask(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_proc() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let mask = ignored_mask(status);
        assert_ne!(mask & (1 << (libc::SIGHUP - 1)), 0);
        assert_ne!(mask & (1 << (libc::SIGPIPE - 1)), 0);
        assert_eq!(mask & (1 << (libc::SIGINT - 1)), 0);
        assert_eq!(ignored_mask(""), 0);
    }

    // The domain's table is Linux's everywhere.
    #[cfg(target_os = "linux")]
    #[test]
    fn names_and_numbers_agree_with_the_domain() {
        for name in SignalName::ALL {
            assert_eq!(codespace_domain::signal_name(number_of(name)), Some(name.as_str()));
        }
    }
}
