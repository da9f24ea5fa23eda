//! Orphans: processes that have lost their parent below a Runner that is a subreaper, and so came to it.
//!
//! A helper that dies before what it has started leaves that to the Runner. It is ended already, or about to end by its
//! lifeline; here it is ended for sure, and reaped, by its own handle and never by a wait for just any child.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::launch::Spawner;
use crate::proc_stat::{Stat, children};
use crate::sys::pidfd::PidFd;
use crate::sys::subreaper::is_subreaper;

/// For those that are found together.
const PATIENCE: Duration = Duration::from_secs(1);

/// The children of this process that are not `known`, as handles. To be called on the thread that starts children, where
/// none can be one that was started a moment ago.
pub(crate) fn find(known: &HashSet<i32>) -> Vec<(i32, PidFd)> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let unknown = children(own).into_iter().filter(|pid| !known.contains(pid));
    let handles = unknown.filter_map(|pid| Some((pid, PidFd::open(pid).ok()?)));
    // Nobody but this process reaps its children, so a pid that is a child's stays that child's.
    handles.filter(|(pid, _)| Stat::of_process(*pid).is_some_and(|stat| stat.ppid == own)).collect()
}

/// Ends and reaps all that there are, until none comes any more. Called when a root has died. `true`: none is left.
/// `false` where that is not known: in a process that is no subreaper they went elsewhere.
pub(crate) async fn end_all(spawner: &Arc<Spawner>) -> bool {
    if !is_subreaper() {
        return false;
    }
    // One at a time: an orphan is named once, and only who ends it knows when it is gone.
    let _turn = spawner.orphans_turn().await;
    let mut all = true;
    loop {
        let orphans = spawner.orphans().await;
        if orphans.is_empty() {
            return all;
        }
        let mut ends = JoinSet::new();
        for (pid, handle) in orphans {
            let spawner = Arc::clone(spawner);
            ends.spawn(async move {
                let outcome = end(pid, handle).await;
                spawner.forget(pid);
                outcome
            });
        }
        let deadline = Instant::now() + PATIENCE;
        while let Ok(Some(ended)) = timeout_at(deadline, ends.join_next()).await {
            if let Err(error) = ended.map_err(std::io::Error::from).and_then(|outcome| outcome) {
                tracing::warn!(%error, "failed to end an orphan");
                all = false;
            }
        }
        // One that a tracer keeps holds up nobody; it is reaped when it goes.
        all &= ends.is_empty();
        ends.detach_all();
    }
}

/// Everything below it first, then it itself: what it leaves would come here next.
async fn end(pid: i32, handle: PidFd) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    if !handle.has_ended() {
        let walk = tokio::task::spawn_blocking(move || crate::sandbox_tree::kill_descendants(pid));
        match walk.await? {
            Ok(walk) => tracing::debug!(pid, killed = walk.killed, "walked below an orphan"),
            // It has ended meanwhile.
            Err(refused) => tracing::debug!(pid, %refused, "no walk"),
        }
    }
    match handle.signal(libc::SIGKILL) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let handle = handle.into_async()?;
    handle.ended().await?;
    handle.get().reap().map(drop)
}
