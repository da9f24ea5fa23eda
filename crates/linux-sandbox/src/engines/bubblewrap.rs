//! The engine `bubblewrap`.
//!
//! bwrap becomes the first process of the outer PID namespace (`crate::first_process`). It creates the innermost
//! namespaces itself and starts the inner stage as their first process, so that the command, as a child of that, can
//! neither stop nor kill it.
//!
//! A view goes through three files: [`entries`] says which mounts it is made of, [`split`] which of them are staged and
//! what bwrap is told, both pure; [`staging`] builds the staged tree, in the first process right before it becomes bwrap.
//! On a host without the kernel's newer mount calls nothing is staged, and bwrap makes all mounts.
//!
//! The options travel in a memfd (`--args`), not in argv: argv is bounded, and everyone on the host can read it. The inner
//! stage is this very program, run through an open descriptor, so that it has no path inside.

mod entries;
mod split;
mod staging;

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use codespace_linux_sandbox_protocol::{Network, StageFailure, View};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Prepared;
use super::exec::{self, Exec, Program, c_string, failure, memfd, own_program};
use crate::fault::{self, Fault};
use crate::sys::mount_api::mount_calls_are_there;

/// What the staging covers: bubblewrap covers it too, so it exists, and nobody needs what is in it any more.
const COVERED: &str = "/tmp";

pub(super) fn prepare(program: &Path, view: &View, network: Network) -> Result<Prepared, StageFailure> {
    let entries = entries::entries(view, &entries::HostLook)?;
    let (staged, options) = if mount_calls_are_there() && !fault::on(Fault::NoMountCalls) {
        let at = std::fs::canonicalize(COVERED).map_err(|e| failure(&format!("find {COVERED}"), &e))?;
        let (staged, options) = split::staged(entries, network, &at);
        (Some(staged), options)
    } else {
        (None, split::arguments_only(&entries, network)?)
    };
    let options = memfd("bwrap-args", &nul_terminated(&options))?;
    let inner = own_program()?;
    let said = memfd_create("bwrap-stderr", MFdFlags::MFD_CLOEXEC).map_err(|e| failure("make a memfd", &e.into()))?;
    let stderr = said.try_clone().map_err(|e| failure("copy a descriptor", &e))?;
    let argv: Vec<CString> = vec![
        c"bwrap".into(),
        c"--args".into(),
        c_string(options.as_raw_fd().to_string())?,
        c"--".into(),
        c_string(format!("/proc/self/fd/{}", inner.as_raw_fd()))?,
        c"inner".into(),
    ];
    let program = match &staged {
        // Its path will be covered.
        Some(staged) if program.starts_with(&staged.at) => {
            let open = File::options().read(true).custom_flags(libc::O_PATH).open(program);
            Program::Open(open.map_err(|e| failure(&format!("open {program:?}"), &e))?.into())
        }
        _ => Program::Path(c_string(program)?),
    };
    let before = move || {
        exec::own_proc()?;
        staged.as_ref().map_or(Ok(()), staging::build)
    };
    Ok(Prepared {
        exec: Exec { before: Some(Box::new(before)), program, argv, keep: vec![options, inner], stderr: Some(stderr) },
        namespaces: libc::CLONE_NEWPID | libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
        said: Some(said),
    })
}

/// The form that `--args` reads.
fn nul_terminated(options: &[OsString]) -> Vec<u8> {
    options.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn options_are_handed_over_with_nul_after_each() {
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        assert_eq!(nul_terminated(&[odd, "".into()]), b"a\xff\0\0");
    }
}
