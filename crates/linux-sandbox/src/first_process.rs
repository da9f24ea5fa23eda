//! The first process of a new PID namespace: when it dies, the kernel ends everything that was ever started below it,
//! however it detached itself. So nothing at all is set up before it exists.
//!
//! It comes with a user namespace of its own (except for an unsandboxed command of root), waits on its lifeline to the
//! helper, and only then turns into the engine.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use crate::lifeline::Lifeline;
use crate::sys::{self, Cloned};

/// What came of it.
pub(crate) enum Created {
    /// It holds its lifeline and goes on.
    Waiting(OwnedFd),
    /// It left before it asked.
    Left(OwnedFd),
}

/// Creates it with the namespaces `flags` (a PID namespace among them). `tell` gets a pidfd of it **before** it may go
/// on, so that the Runner has the handle that proves its end before there is anything to end. `go_on` is what it then
/// becomes; it returns only when that failed, which it has reported itself.
pub(crate) fn create(flags: c_int, tell: impl FnOnce(&OwnedFd), go_on: impl FnOnce()) -> io::Result<Created> {
    let lifeline = Lifeline::new()?;
    // Read on this side: inside, before the maps are written, both would be the overflow id.
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    match sys::clone_process(flags)? {
        Cloned::Child => {
            let held = lifeline.hold();
            if !matches!(held, Ok(true)) {
                sys::exit_now(125);
            }
            if flags & libc::CLONE_NEWUSER != 0 && map_ids(uid.as_raw(), gid.as_raw()).is_err() {
                sys::exit_now(124);
            }
            go_on();
            sys::exit_now(123)
        }
        Cloned::Parent { pidfd } => {
            tell(&pidfd);
            if lifeline.answer()? { Ok(Created::Waiting(pidfd)) } else { Ok(Created::Left(pidfd)) }
        }
    }
}

/// The one id that this process has stays what it is inside. Needs no privilege: a process may map its own id, once it
/// has given up `setgroups`.
fn map_ids(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}
