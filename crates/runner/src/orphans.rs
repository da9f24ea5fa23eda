//! Orphans: processes that have lost their parent below a Runner that is a subreaper, and so came to it.
//!
//! A helper that dies before what it has started leaves that to the Runner. In a namespace it is ended already, or about
//! to end by its lifeline; without one nobody else ends it. Here it is ended for sure and reaped, each by its own number
//! and never by a wait for just any child: a child that is not reaped keeps its number, so that may be signalled, and so
//! may its process group's.
//!
//! The children that this process has started itself are known: a start and its entry are one step under a lock, and so is
//! the look at who is not known. The look goes no further than to children, so that a chain that forks and exits all the
//! time does not get away: whatever they had started comes here next.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::launch::Spawner;
use crate::proc_stat::children;
use crate::sys::orphan;
use crate::sys::pidfd::PidFd;
use crate::sys::subreaper::is_subreaper;

/// How long one pass goes on.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at one that is dead and cannot be reaped.
const LATE: Duration = Duration::from_millis(100);

/// The children of this process that it has started itself and not reaped.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Mutex<HashSet<i32>>>);

impl Known {
    /// Starts a child and enters it, in one step.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> T, pid: impl FnOnce(&T) -> Option<i32>) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start();
        known.extend(pid(&started));
        started
    }

    /// It was reaped: its pid may come again.
    pub(crate) fn forget(&self, pid: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Nothing is started while this is held.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, HashSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn orphans(&self) -> Vec<i32> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        children(own).into_iter().filter(|pid| !known.contains(pid)).collect()
    }
}

/// Ends orphans, for everybody who asks.
pub(crate) struct Ender {
    known: Known,
    asked: AtomicU64,
    last: tokio::sync::Mutex<Pass>,
    /// Somebody waits for those that a pass has left.
    late: Arc<AtomicBool>,
}

/// The last pass.
struct Pass {
    /// Covers everyone who had asked before it began.
    covers: u64,
    all: bool,
}

impl Ender {
    pub(crate) fn new(known: Known) -> Self {
        let last = tokio::sync::Mutex::new(Pass { covers: 0, all: false });
        Self { known, asked: AtomicU64::new(0), last, late: Arc::default() }
    }

    /// Ends and reaps all that there are, when a root has died. `true`: none was left when this ended. `false` where that
    /// is not known: in a process that is no subreaper they went elsewhere, and one that a tracer keeps is reaped when the
    /// tracer has let go. Many who ask at once are answered by one pass.
    pub(crate) async fn end_all(&self, spawner: &Spawner) -> bool {
        if !is_subreaper() {
            return false;
        }
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if last.covers < ticket {
            let covers = self.asked.load(Ordering::SeqCst);
            let known = self.known.clone();
            let all = spawner.run(move || pass(&known, PATIENCE)).await.unwrap_or(false);
            *last = Pass { covers, all };
            if !all && !self.late.swap(true, Ordering::SeqCst) {
                tokio::spawn(end_late(self.known.clone(), Arc::clone(&self.late)));
            }
        }
        last.all
    }
}

/// Reaps those that a pass has left, each when it has ended: no root may end for long whose pass would do that.
async fn end_late(known: Known, late: Arc<AtomicBool>) {
    loop {
        let mut ends = JoinSet::new();
        let handles = known.orphans().into_iter().filter_map(|orphan| PidFd::open(orphan).ok()?.into_async().ok());
        for handle in handles {
            ends.spawn(async move { handle.ended().await });
        }
        ends.join_next().await;
        // One round: it does not wait for anything.
        pass(&known, Duration::ZERO);
        // In this order: whoever still sees the flag set after the look has nothing left to be waited for.
        late.store(false, Ordering::SeqCst);
        if known.orphans().is_empty() || late.swap(true, Ordering::SeqCst) {
            return;
        }
        // A dead one that its tracer has not reaped: no event tells when it does.
        tokio::time::sleep(LATE).await;
    }
}

fn pass(known: &Known, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let orphans = known.orphans();
        if orphans.is_empty() {
            return true;
        }
        let reaped = orphans.into_iter().map(orphan::kill_and_reap).filter(|reaped| *reaped).count();
        if Instant::now() >= until {
            return false;
        }
        if reaped == 0 {
            // Killed, and on their way out.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
