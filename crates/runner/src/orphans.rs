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
use std::sync::{Arc, Mutex, PoisonError, Weak};
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

/// The children of this process that one Runner in it has started and not reaped.
#[derive(Clone)]
pub(crate) struct Known(Arc<Children>);

type Children = Mutex<HashSet<i32>>;

/// Those of every Runner in this process: each of them looks at all of its children, and must know the others'.
static ALL: Mutex<Vec<Weak<Children>>> = Mutex::new(Vec::new());

impl Known {
    pub(crate) fn new() -> Self {
        let known = Arc::default();
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&known));
        Self(known)
    }

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
}

/// The children that no Runner has started. None of them starts one during the look.
fn orphans() -> Vec<i32> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    let known: Vec<_> = all.iter().map(|known| known.lock().unwrap_or_else(PoisonError::into_inner)).collect();
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    children(own).into_iter().filter(|pid| !known.iter().any(|known| known.contains(pid))).collect()
}

/// Ends orphans, for everybody who asks.
#[derive(Default)]
pub(crate) struct Ender {
    asked: AtomicU64,
    last: tokio::sync::Mutex<Pass>,
    /// Somebody waits for those that a pass has left.
    late: Arc<AtomicBool>,
}

/// The last pass.
#[derive(Default)]
struct Pass {
    /// Covers everyone who had asked before it began.
    covers: u64,
    all: bool,
}

impl Ender {
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
            let all = spawner.run(move || pass(PATIENCE)).await.unwrap_or(false);
            *last = Pass { covers, all };
            if !all && !self.late.swap(true, Ordering::SeqCst) {
                tokio::spawn(end_late(Arc::clone(&self.late)));
            }
        }
        last.all
    }
}

/// Reaps those that a pass has left, each when it has ended: no root may end for long whose pass would do that.
async fn end_late(late: Arc<AtomicBool>) {
    loop {
        let mut ends = JoinSet::new();
        let handles = orphans().into_iter().filter_map(|orphan| PidFd::open(orphan).ok()?.into_async().ok());
        for handle in handles {
            ends.spawn(async move { handle.ended().await });
        }
        ends.join_next().await;
        // One round: it does not wait for anything.
        pass(Duration::ZERO);
        // In this order: whoever still sees the flag set after the look has nothing left to be waited for.
        late.store(false, Ordering::SeqCst);
        if orphans().is_empty() || late.swap(true, Ordering::SeqCst) {
            return;
        }
        // A dead one that its tracer has not reaped: no event tells when it does.
        tokio::time::sleep(LATE).await;
    }
}

fn pass(patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let orphans = orphans();
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
