//! Orphans: processes that have lost their parent below a Runner that is a subreaper, and so came to it.
//!
//! A helper that dies before what it has started leaves that to the Runner. In a namespace it is ended already, or about
//! to end by its lifeline; without one nobody else ends it. Here it is ended for sure and reaped, each by its own number
//! and never by a wait for just any child: a child that is not reaped keeps its number, so that may be signalled, and so
//! may its process group's.
//!
//! It runs on the thread that starts children: there, no child can be one that was started a moment ago. And it does not
//! look further than to children, so that a chain that forks and exits all the time does not get away: whatever they had
//! started comes here next.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::launch::Spawner;
use crate::proc_stat::children;
use crate::sys::orphan;
use crate::sys::subreaper::is_subreaper;

/// For how long the thread that starts children may be kept from that.
const PATIENCE: Duration = Duration::from_millis(500);

/// Ends and reaps the children of this process that are not `known`. `true`: none is left.
pub(crate) fn end(known: &HashSet<i32>) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    loop {
        let orphans: Vec<i32> = children(own).into_iter().filter(|pid| !known.contains(pid)).collect();
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

/// Ends all that there are, when a root has died. `true`: none is left. `false` where that is not known: in a process that
/// is no subreaper they went elsewhere, and one that a tracer keeps stays for the next time.
pub(crate) async fn end_all(spawner: &Spawner) -> bool {
    is_subreaper() && spawner.end_orphans().await
}
