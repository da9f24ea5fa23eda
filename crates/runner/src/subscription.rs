//! A subscription: what a process writes, as it comes, and then how it ended.
//!
//! Pulled, not pushed: whoever tells is one notification ahead of whoever listens, so a slow listener costs nothing and
//! finds out by `output_lost` what it has missed. Knows neither the journal nor the wire; each of them tells in its way.

use codespace_domain::{Notification, RunnerError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What is told about one process. Dropping it ends the subscription, and nothing else.
#[derive(Debug)]
pub struct Subscription {
    told: mpsc::Receiver<Told>,
    /// Ends with this.
    _teller: JoinSet<()>,
}

type Told = Result<Notification, RunnerError>;

/// The other end: where to tell.
pub(crate) struct Listener(mpsc::Sender<Told>);

impl Subscription {
    /// A subscription that a task of its own serves until `tell` is done.
    pub(crate) fn told_by<T: Future<Output = ()> + Send + 'static>(tell: impl FnOnce(Listener) -> T) -> Self {
        let (listener, told) = mpsc::channel(1);
        let mut teller = JoinSet::new();
        teller.spawn(tell(Listener(listener)));
        Self { told, _teller: teller }
    }

    /// The next notification; `None` after `exited`, or after the error that says why no more can come. May be dropped
    /// at its await and called again; nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Notification, RunnerError>> {
        self.told.recv().await
    }
}

impl Listener {
    /// Waits until there is room for it. False: nobody listens any more.
    pub(crate) async fn tell(&self, told: Told) -> bool {
        self.0.send(told).await.is_ok()
    }
}
