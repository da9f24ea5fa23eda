//! Children of another process: who they are, and signals to them and nobody else. Pids come again quickly while chains of
//! forks run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Sends a signal to `pid` if it is a child of `parent`.
///
/// # Errors
/// `ESRCH` when it is not, or has ended.
pub(crate) fn signal(parent: i32, pid: i32, number: i32) -> io::Result<()> {
    // SAFETY: plain numbers in, a new descriptor or -1 out.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    let handle = unsafe { OwnedFd::from_raw_fd(handle as i32) };
    // What the handle names cannot change after this look.
    if field(pid, PARENT) != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and a null info means the same as for kill.
    let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), number, no_info, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The children of a process, also dead ones that it has not reaped. None when it is gone.
pub(crate) fn of(parent: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// SIGKILL to the process groups of a process's children, its own group apart. One signal reaches all of a group, however
/// fast it forks; one after the other, the members of a chain of forks are not to be had.
#[expect(
    clippy::disallowed_methods,
    reason = "a group has no handle; its number stays its own while a member is unreaped"
)]
pub(crate) fn end_groups(parent: i32) {
    let own = field(parent, GROUP);
    let groups: BTreeSet<i32> = of(parent).into_iter().filter_map(|pid| field(pid, GROUP)).collect();
    for group in groups.into_iter().filter(|group| *group > 1 && Some(*group) != own) {
        // SAFETY: plain numbers. One that is gone by now is as good.
        unsafe { libc::killpg(group, libc::SIGKILL) };
    }
}

/// Numbers of fields of `/proc/<pid>/stat`, counted after the name.
const PARENT: usize = 1;
const GROUP: usize = 2;

fn field(pid: i32, number: usize) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; the fields begin after its last parenthesis.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    std::str::from_utf8(stat.get(after..)?).ok()?.split(' ').nth(number)?.parse().ok()
}
