//! Children by number: for those that this process has not started itself, and reaps.

/// Kills a child of this process that has not been reaped, with its process group, and reaps it if it has ended already.
/// `true`: it was reaped.
#[expect(
    clippy::disallowed_methods,
    reason = "the child is not reaped, so its number and its group's are still its own"
)]
pub(crate) fn kill_and_reap(child: i32) -> bool {
    // SAFETY: plain numbers in. The group is another session's than this process's own: every root has begun one.
    unsafe {
        let group = libc::getpgid(child);
        if group > 1 && group != libc::getpgrp() {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) == child
    }
}
