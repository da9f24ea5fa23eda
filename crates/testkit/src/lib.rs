//! What the tests of this workspace share. Dev only: no product crate depends on it.
//!
//! - [`fixture`]: Runners to test, in this process and as the real `codespace-runner serve`.
//! - [`survivors`]: finds every process that outlived its end, whatever it looks like.
//! - [`kill_points`]: holds a start at each of its system calls, and has it ended or somebody killed there.
//! - [`programs`]: the misbehaving programs (`src/bin`), copied to where a sandboxed command can run them.
//! - [`random`]: numbers whose seed is printed and can be set.
//! - [`dag`]: who may import whom.
//!
//! It never decides what is right: the promises are in the tests.

pub mod dag;
#[cfg(target_os = "linux")]
pub mod fixture;
#[cfg(target_os = "linux")]
pub mod kill_points;
#[cfg(target_os = "linux")]
mod proc;
pub mod programs;
pub mod random;
#[cfg(target_os = "linux")]
pub mod survivors;
#[cfg(target_os = "linux")]
mod sys;

use std::io::Write;

/// Says something loudly: past libtest's capture, which would hide it in a passing test.
pub fn tell(line: &str) {
    // A stderr that is gone is no reason to fail a test.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}

/// Sends a signal to the process that has this pid now, through a handle.
///
/// # Errors
/// `ESRCH` when there is none, `EPERM` when it is somebody else's.
#[cfg(target_os = "linux")]
pub fn signal(pid: i32, number: i32) -> std::io::Result<()> {
    sys::PidFd::open(pid)?.signal(number)
}
