//! What the first process turns into: a program, its argv, and the descriptors that it keeps.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use codespace_linux_sandbox_protocol::{CONTROL_FD, PLAN_FD, Stage, StageFailure};
use nix::mount::{MsFlags, mount};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{fault, sys};

/// What the first process still has to do before it becomes the program, in its own namespaces.
pub(super) type Before = Box<dyn FnOnce() -> Result<(), StageFailure>>;

/// Ready to become.
pub(crate) struct Exec {
    pub(super) before: Option<Before>,
    pub(crate) program: Program,
    pub(crate) argv: Vec<CString>,
    /// Stay open across the exec, under the numbers that they have; beside them the control socket and the plan do.
    pub(crate) keep: Vec<OwnedFd>,
    /// Becomes stderr.
    pub(crate) stderr: Option<OwnedFd>,
}

pub(crate) enum Program {
    Path(CString),
    Open(OwnedFd),
}

impl Exec {
    /// Becomes the program; returns only with the error.
    pub(crate) fn run(mut self) -> StageFailure {
        if let Some(Err(failure)) = self.before.take().map(|before| before()) {
            return failure;
        }
        match self.become_program() {
            Ok(never) => match never {},
            Err(error) => failure("become the sandbox's engine", &error),
        }
    }

    fn become_program(self) -> io::Result<Infallible> {
        for number in self.keep.iter().map(AsRawFd::as_raw_fd).chain([CONTROL_FD, PLAN_FD]) {
            sys::keep_across_exec(number)?;
        }
        if let Some(stderr) = &self.stderr {
            sys::dup_to(stderr.as_fd(), 2)?;
        }
        let env = fault::environment();
        Err(match &self.program {
            Program::Path(path) => sys::execve(path, &self.argv, &env),
            Program::Open(fd) => sys::exec_fd(fd.as_fd(), &self.argv, &env),
        })
    }
}

/// In the first process: a `/proc` that shows the new PID namespace, and mounts of its own for it. bubblewrap, too, looks
/// there for its child by the number that it has inside.
pub(super) fn own_proc() -> Result<(), StageFailure> {
    let none = None::<&str>;
    // In both directions: what the host mounts later would be inside without any of the restrictions, and over them.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|e| failure("keep mounts from the host, and the host's from here", &e.into()))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, none)
        .map_err(|e| failure("mount a /proc of the new PID namespace", &e.into()))
}

/// An anonymous file with these bytes, read from its beginning.
pub(crate) fn memfd(name: &str, bytes: &[u8]) -> Result<OwnedFd, StageFailure> {
    let fill = || -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file.into())
    };
    fill().map_err(|e| failure("fill a memfd", &e))
}

/// This very program, open, so that it needs no path inside the sandbox.
pub(crate) fn own_program() -> Result<OwnedFd, StageFailure> {
    File::open("/proc/self/exe").map(Into::into).map_err(|e| failure("open the helper's own program", &e))
}

pub(crate) fn c_string(text: impl AsRef<OsStr>) -> Result<CString, StageFailure> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_| StageFailure {
        stage: Stage::Prepare,
        errno: Some(libc::EINVAL),
        message: format!("use {:?}: it has a NUL byte", Path::new(text)),
    })
}

pub(crate) fn failure(what: &str, error: &io::Error) -> StageFailure {
    StageFailure { stage: Stage::Sandbox, errno: error.raw_os_error(), message: format!("{what}: {error}") }
}
