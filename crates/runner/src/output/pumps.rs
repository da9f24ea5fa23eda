//! All the pumps of one process: one for a terminal, two for pipes. Closes the journal when none is left.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use codespace_domain::Stream;

use super::journal::Journal;
use super::pump::{Pump, PumpEnd};

/// A process's pumps. Dropping them stops them and closes the journal.
#[derive(Debug)]
pub(crate) struct Pumps(Vec<Pump>);

/// Shared by the pumps' tasks: the last one that ends, or is stopped, closes the journal, whoever waits for it or not.
struct CloseWhenAllEnded(Journal);

impl Pumps {
    /// Starts a pump for each descriptor. If one cannot be started, those before it are stopped and the journal is
    /// closed.
    pub(crate) fn start(sources: impl IntoIterator<Item = (OwnedFd, Stream)>, journal: Journal) -> io::Result<Pumps> {
        let close = Arc::new(CloseWhenAllEnded(journal.clone()));
        let start = |(fd, stream)| Pump::start(fd, stream, journal.clone(), Arc::clone(&close));
        sources.into_iter().map(start).collect::<io::Result<_>>().map(Pumps)
    }

    /// [`Pump::drain`] for all.
    pub(crate) fn drain(&self, deadline: Duration) {
        for pump in &self.0 {
            pump.drain(deadline);
        }
    }

    /// Waits until all have ended and the journal is closed. The answer is the worst of theirs: an error, then
    /// [`PumpEnd::GaveUp`]. May be given up and asked again.
    pub(crate) async fn ended(&mut self) -> PumpEnd {
        let mut worst = PumpEnd::Eof;
        for pump in &mut self.0 {
            worst = match (worst, pump.ended().await) {
                (PumpEnd::Error(error), _) | (_, PumpEnd::Error(error)) => PumpEnd::Error(error),
                (PumpEnd::GaveUp, _) | (_, PumpEnd::GaveUp) => PumpEnd::GaveUp,
                (PumpEnd::Eof, PumpEnd::Eof) => PumpEnd::Eof,
            };
        }
        worst
    }
}

impl Drop for CloseWhenAllEnded {
    fn drop(&mut self) {
        self.0.close();
    }
}
