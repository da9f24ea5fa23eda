//! What a shell and a terminal tell this process: to end, to stop, that it goes on, that the window has another size. What
//! the caller has it ignore stays ignored. Needs the runtime.

use std::io;
use std::task::Poll;

use codespace_domain::SignalName;
use tokio::signal::unix::Signal;

use crate::own_signals::{self, OwnSignals};

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// INT, TERM, HUP or QUIT.
    End(SignalName),
    /// Ctrl-Z.
    Stop,
    /// We were stopped, and somebody has continued us.
    Continue,
    /// Our terminal has another size.
    Resized,
}

/// Catches all of these from its making on.
pub(crate) struct OwnJob {
    ends: OwnSignals,
    others: Vec<(Told, Signal)>,
}

impl OwnJob {
    pub(crate) fn catch() -> io::Result<Self> {
        const ENDS: [SignalName; 4] = [SignalName::Int, SignalName::Term, SignalName::Hup, SignalName::Quit];
        const OTHERS: [(Told, i32); 3] =
            [(Told::Stop, libc::SIGTSTP), (Told::Continue, libc::SIGCONT), (Told::Resized, libc::SIGWINCH)];
        let ends = OwnSignals::catch(&ENDS)?;
        let mut others = Vec::new();
        for (told, number) in OTHERS {
            others.extend(own_signals::unless_ignored(number)?.map(|signal| (told, signal)));
        }
        Ok(Self { ends, others })
    }

    /// The next one; ends before anything else. May be dropped and called again without losing one.
    pub(crate) async fn next(&mut self) -> Told {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(name) = self.ends.poll_next(cx) {
                return Poll::Ready(Told::End(name));
            }
            for (told, signal) in &mut self.others {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*told);
                }
            }
            Poll::Pending
        })
        .await
    }
}
