//! One processor for the tracer and all that it traces: every stop is a hand-over from one to the other and back, which
//! takes twice as long between two processors.

use std::io;

/// The calling thread and the thread `tid`, with what both start from now on, run on the same processor only.
pub(super) fn share_with(tid: i32) -> io::Result<()> {
    let mut allowed = set_of(0)?;
    // SAFETY: plain numbers below the size of the set.
    let last = (0..libc::CPU_SETSIZE as usize).rev().find(|processor| unsafe { libc::CPU_ISSET(*processor, &allowed) });
    // SAFETY: as above.
    unsafe {
        libc::CPU_ZERO(&mut allowed);
        libc::CPU_SET(last.unwrap_or_default(), &mut allowed);
    }
    keep_to(0, &allowed)?;
    keep_to(tid, &allowed)
}

fn set_of(tid: i32) -> io::Result<libc::cpu_set_t> {
    // SAFETY: a zeroed set is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most so many bytes to memory that lives here.
    let done = unsafe { libc::sched_getaffinity(tid, size_of_val(&set), &raw mut set) };
    if done == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

fn keep_to(tid: i32, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: the set lives until after the call, and is only read.
    let done = unsafe { libc::sched_setaffinity(tid, size_of_val(set), set) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
