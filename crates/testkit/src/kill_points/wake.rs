//! Wakes the tracer's thread out of its wait for tracees, which no message could.

/// From now on the signal does nothing but interrupt.
pub(super) fn prepare() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a zeroed sigaction is valid: no flags, so that waits are interrupted, and an empty mask. The handler does
    // nothing, so it is safe wherever it runs.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
}

/// Of the calling thread.
pub(super) fn own_tid() -> i32 {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::gettid() }
}

/// Interrupts a thread of this process, if it is still there.
pub(super) fn interrupt(tid: i32) {
    // SAFETY: plain numbers; the thread group makes sure that a recycled number is nobody else's.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
}
