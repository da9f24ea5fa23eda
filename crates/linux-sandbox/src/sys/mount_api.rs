//! The kernel's newer mount calls: mounts as descriptors, which no path has to be followed for a second time.
//!
//! `openat2` and the plain calls are nix's. All descriptors are close-on-exec.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What a mount does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restrictions(u64);

impl Restrictions {
    /// No set-user-ID programs and no devices.
    pub(crate) const WRITABLE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// The same, and no writing.
    pub(crate) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY);
}

/// Whether this kernel has all the calls of this file and `openat2`, and nobody's filter hides them. Each is asked with
/// arguments that cannot be meant.
pub(crate) fn mount_calls_are_there() -> bool {
    const NONE: usize = 0;
    const WRONG: libc::c_uint = libc::c_uint::MAX;
    let empty = c"".as_ptr();
    let answer = |result: libc::c_long| match result {
        -1 => io::Error::last_os_error().raw_os_error(),
        _ => None,
    };
    // SAFETY: no descriptor is valid, no pointer is read beyond an empty string, and every size is 0.
    let (before_any_right, after_it) = unsafe {
        (
            [
                answer(libc::syscall(libc::SYS_openat2, -1, empty, NONE, NONE)),
                answer(libc::syscall(libc::SYS_open_tree, -1, empty, WRONG)),
                answer(libc::syscall(libc::SYS_mount_setattr, -1, empty, WRONG, NONE, NONE)),
            ],
            [
                answer(libc::syscall(libc::SYS_move_mount, -1, empty, -1, empty, WRONG)),
                answer(libc::syscall(libc::SYS_fsopen, empty, WRONG)),
                answer(libc::syscall(libc::SYS_fsconfig, -1, WRONG, NONE, NONE, 0)),
                answer(libc::syscall(libc::SYS_fsmount, -1, WRONG, 0)),
            ],
        )
    };
    // These look at their arguments first, so that any other answer is a filter's. The rest may want a capability first.
    before_any_right.iter().all(|errno| *errno == Some(libc::EINVAL))
        && after_it.iter().all(|errno| *errno != Some(libc::ENOSYS))
}

/// A copy, not yet anywhere, of the mount that `of` lies in, with `of` as its root and all mounts below.
pub(crate) fn clone_tree(of: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | libc::AT_EMPTY_PATH as libc::c_uint
        | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: an open descriptor, an empty string that lives as long as the program, and flags.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, of.as_raw_fd(), c"".as_ptr(), flags) };
    new_descriptor(fd)
}

/// Restricts the mount, and with `below` those below it. Whatever else it does not allow stays so.
pub(crate) fn restrict(mount: BorrowedFd<'_>, to: Restrictions, below: bool) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if below { libc::AT_RECURSIVE } else { 0 };
    let attributes = libc::mount_attr { attr_set: to.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: an open descriptor, an empty string, and a structure of the size that is named, which is only read.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the mount on top of `at`. Its descriptor then stands for the root of what is there.
pub(crate) fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    let empty = c"".as_ptr();
    // SAFETY: two open descriptors, empty strings, and flags.
    let done = unsafe { libc::syscall(libc::SYS_move_mount, mount.as_raw_fd(), empty, at.as_raw_fd(), empty, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A new, empty tmpfs that is not yet anywhere; `mode`, in octal digits, is that of its root.
pub(crate) fn new_tmpfs(mode: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends with NUL, and a flag.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), libc::FSOPEN_CLOEXEC) };
    let context = new_descriptor(context)?;
    for (key, value) in [(c"source", c"tmpfs"), (c"mode", mode)] {
        // SAFETY: an open descriptor, a command, and two strings that end with NUL.
        let done = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                libc::FSCONFIG_SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: as above; this command takes neither key nor value.
    let done =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), libc::FSCONFIG_CMD_CREATE, 0usize, 0usize, 0) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let Restrictions(restrictions) = Restrictions::WRITABLE;
    // SAFETY: an open descriptor and flags.
    let mount = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), libc::FSMOUNT_CLOEXEC, restrictions) };
    new_descriptor(mount)
}

fn new_descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
