//! Orphans: processes that have lost their parent below a Runner that is a subreaper, and so came to it.
//!
//! A helper that dies before what it has started leaves that to the Runner. It is ended already, or about to end by its
//! lifeline; here it is ended for sure, and reaped, by its own handle and never by a wait for just any child.

use std::collections::HashSet;
use std::sync::Arc;

use crate::launch::Spawner;
use crate::proc_stat::{Stat, children};
use crate::sys::pidfd::PidFd;
use crate::sys::subreaper::is_subreaper;

/// The children of this process that are not `known`, as handles. To be called on the thread that starts children, where
/// none can be one that was started a moment ago.
pub(crate) fn find(known: &HashSet<i32>) -> Vec<(i32, PidFd)> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let unknown = children(own).into_iter().filter(|pid| !known.contains(pid));
    let handles = unknown.filter_map(|pid| Some((pid, PidFd::open(pid).ok()?)));
    // Nobody but this process reaps its children, so a pid that is a child's stays that child's.
    handles.filter(|(pid, _)| Stat::of_process(*pid).is_some_and(|stat| stat.ppid == own)).collect()
}

/// Ends and reaps all that there are. Called when a root has died; does nothing in a process that is no subreaper.
pub(crate) async fn end_all(spawner: &Arc<Spawner>) {
    if !is_subreaper() {
        return;
    }
    for (pid, handle) in spawner.orphans().await {
        let spawner = Arc::clone(spawner);
        // Each in its own time: one that a tracer keeps holds up no other.
        tokio::spawn(async move {
            let state = Stat::of_process(pid).map_or('?', |stat| char::from(stat.state));
            tracing::debug!(pid, %state, "ending an orphan");
            if let Err(error) = end(handle).await {
                tracing::warn!(pid, %error, "failed to end an orphan");
            }
            spawner.forget(pid);
        });
    }
}

async fn end(handle: PidFd) -> std::io::Result<()> {
    match handle.signal(libc::SIGKILL) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let handle = handle.into_async()?;
    handle.ended().await?;
    handle.get().reap().map(drop)
}
