//! Ends a root with its whole tree.

use std::sync::Arc;

use crate::cgroups::Leaf;
use crate::fault::{self, Fault};
use crate::sys::pidfd::AsyncPidFd;

/// What there is to end.
pub(super) struct Target {
    /// Until it is reaped; it is not while this is in use, so its pid is its own.
    pub(super) root: Option<(i32, Arc<AsyncPidFd>)>,
    /// The first process of the sandbox's PID namespace, once it was announced.
    pub(super) first: Option<Arc<AsyncPidFd>>,
    /// The process's own cgroup, where it has one.
    pub(super) cgroup: Option<Arc<Leaf>>,
    /// Whether the sandbox helper runs it, with or without a sandbox.
    pub(super) sandboxed: bool,
}

/// What was seen of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing lived below the root before it was ended itself.
    Empty,
    /// That was not looked at: a namespace has a proof of its own.
    Nothing,
}

/// Ends the root of a process and, where the helper runs it, everything below it first. Blocks for at most the walk's
/// budget and the time of its reads.
///
/// 1. The walk stops and kills everything below the root, also while the sandbox is being set up and nothing of it is
///    known yet.
/// 2. The namespace's first process, where its handle is known: the kernel ends all that the walk could not see (a tree
///    that forks faster than it can be read, for instance).
/// 3. The cgroup, where there is one: in one step, whatever has escaped the other two.
/// 4. The root last: its death would have the rest adopted by somebody else, where no walk finds it.
pub(super) fn kill_pipe_root(target: &Target) -> Seen {
    let mut seen = Seen::Nothing;
    if target.sandboxed && !fault::on(Fault::NoWalk) {
        if let Some((pid, _)) = target.root {
            walk(pid);
            if target.first.is_none() && nothing_below(pid) {
                seen = Seen::Empty;
            }
        }
        if let Some(first) = &target.first {
            kill(first, "the namespace's first process");
        }
    }
    if let Some(cgroup) = target.cgroup.as_ref().filter(|_| !fault::on(Fault::NoWalk))
        && let Err(error) = cgroup.kill()
    {
        tracing::warn!(%error, "failed to kill a cgroup");
    }
    if let Some((_, root)) = &target.root {
        kill(root, "the root");
    }
    seen
}

fn nothing_below(root: i32) -> bool {
    crate::sandbox_tree::is_empty(root)
}

fn walk(root: i32) {
    match crate::sandbox_tree::kill_descendants(root) {
        Ok(walk) => tracing::debug!(root, killed = walk.killed, stood_still = walk.stood_still, "walked"),
        // The root is dead already: its lifeline ends what is below.
        Err(refused) => tracing::debug!(root, %refused, "no walk"),
    }
}

fn kill(handle: &AsyncPidFd, what: &str) {
    match handle.get().signal(libc::SIGKILL) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
        Err(error) => tracing::error!(%error, "failed to kill {what}"),
    }
}
