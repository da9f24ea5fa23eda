//! Starts the command: fork, the last steps of its set-up, `execve`.
//!
//! In the child, in this order:
//! 1. A session of its own (and with it a process group, which signals are sent to); a terminal becomes its controlling
//!    one.
//! 2. Its standard descriptors.
//! 3. Signals back to their defaults, none blocked: later, a signal could not end a child that hangs in step 4.
//! 4. Its working directory. A directory that is gone is the request's fault, stage `cwd`.
//! 5. Its limits.
//! 6. The system call filter, last of the set-up, since it may forbid any of the above.
//! 7. A last look at whether the Runner is still there: its death reaches this process by way of two others, which takes a
//!    moment on a busy host, and nothing may start after it.
//! 8. `execve`. A failure is stage `exec`.
//!
//! Which step failed comes back over a close-on-exec pipe; its end without a word is the proof that `execve` succeeded.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use codespace_linux_sandbox_protocol::{ByteString, CommandSpec, Stage, StageFailure};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::unistd::{ForkResult, Pid, fork, pipe2, setsid};

use super::{Scope, limits, seccomp};
use crate::control::Control;
use crate::fault::{self, Fault};
use crate::sys;

/// Where `execvp` looks when there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Starts it; returns when its `execve` has succeeded or a step before that has failed.
pub(super) fn start(
    spec: &CommandSpec,
    sandboxed: bool,
    scope: &Scope<'_>,
    control: &Control,
    stdio: [OwnedFd; 3],
) -> Result<Pid, StageFailure> {
    let ready = Ready::new(spec, sandboxed, matches!(scope, Scope::Descendants { .. }))?;
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(|e| failure(Stage::Sandbox, "make a pipe", e.into()))?;
    // SAFETY: this process has one thread, so the child may go on as if it were the only one.
    match unsafe { fork() }.map_err(|e| failure(Stage::Exec, "fork the command", e.into()))? {
        ForkResult::Child => {
            let Err((step, error)) = ready.become_command(control, stdio);
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            let mut word = [step as u8, 0, 0, 0, 0];
            word[1..].copy_from_slice(&errno.to_ne_bytes());
            // If the parent is gone, so is this process's namespace.
            File::from(writer).write_all(&word).ok();
            sys::exit_now(127)
        }
        ForkResult::Parent { child } => {
            drop(writer);
            drop(stdio);
            let mut word = Vec::new();
            let read = File::from(reader).read_to_end(&mut word);
            match (read, <[u8; 5]>::try_from(word)) {
                (Ok(0), _) => Ok(child),
                (Ok(_), Ok([step, errno @ ..])) => {
                    sys::kill_and_reap(child.as_raw());
                    Err(told(spec, step, i32::from_ne_bytes(errno)))
                }
                (read, _) => {
                    sys::kill_and_reap(child.as_raw());
                    let error = read.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into());
                    Err(failure(Stage::Sandbox, "hear from the command's child process", error))
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Session = 1,
    Descriptors,
    Cwd,
    Limits,
    Filter,
    Exec,
}

/// Everything that the child needs, made before the fork.
struct Ready<'a> {
    spec: &'a CommandSpec,
    /// What to try, in order: one path, or one for each entry of `PATH`.
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    filters: Vec<seccomp::Filter>,
    /// No namespace ends it with this process: then at least its own death follows this process's.
    dies_with_parent: bool,
}

impl<'a> Ready<'a> {
    fn new(spec: &'a CommandSpec, sandboxed: bool, dies_with_parent: bool) -> Result<Self, StageFailure> {
        let argv = spec.argv.iter().map(|word| c_string(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let pairs = spec.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let env = pairs.map(|pair| c_string(&pair)).collect::<Result<Vec<_>, _>>()?;
        let filters = if sandboxed {
            seccomp::filters().map_err(|message| StageFailure { stage: Stage::Sandbox, errno: None, message })?
        } else {
            Vec::new()
        };
        Ok(Self {
            spec,
            candidates: candidates(spec)?,
            argv,
            env,
            cwd: c_string(spec.cwd.as_bytes())?,
            filters,
            dies_with_parent,
        })
    }

    fn become_command(
        &self,
        control: &Control,
        stdio: [OwnedFd; 3],
    ) -> Result<std::convert::Infallible, (Step, io::Error)> {
        let at = |step: Step| move |error: io::Error| (step, error);
        if self.dies_with_parent {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| (Step::Session, e.into()))?;
        }
        setsid().map_err(|e| (Step::Session, e.into()))?;
        if self.spec.tty {
            sys::set_controlling_terminal(stdio[0].as_fd()).map_err(at(Step::Session))?;
        }
        for (number, fd) in stdio.iter().enumerate() {
            sys::dup_to(fd.as_fd(), number as i32).map_err(at(Step::Descriptors))?;
        }
        sys::reset_signals();
        std::env::set_current_dir(OsStr::from_bytes(self.cwd.to_bytes())).map_err(at(Step::Cwd))?;
        limits::set(&self.spec.rlimits).map_err(at(Step::Limits))?;
        for filter in &self.filters {
            filter.install().map_err(at(Step::Filter))?;
        }
        if !control.is_held() && !fault::on(Fault::NoLifeline) {
            sys::exit_now(124);
        }
        // As execvp: a name that is there and cannot be run is remembered, and the search goes on.
        let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
        for candidate in &self.candidates {
            let error = sys::execve(candidate, &self.argv, &self.env);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) if self.candidates.len() > 1 => {}
                Some(libc::EACCES) if self.candidates.len() > 1 => worst = error,
                _ => return Err((Step::Exec, error)),
            }
        }
        Err((Step::Exec, worst))
    }
}

fn candidates(spec: &CommandSpec) -> Result<Vec<CString>, StageFailure> {
    let program = spec.argv[0].as_bytes();
    if program.contains(&b'/') {
        return Ok(vec![c_string(program)?]);
    }
    let path = spec.env.iter().find(|(name, _)| name.as_bytes() == b"PATH").map_or(DEFAULT_PATH, |(_, v)| v.as_bytes());
    let in_directory = |directory: &[u8]| match directory {
        b"" => c_string(&[b"./", program].concat()),
        _ => c_string(&[directory, b"/", program].concat()),
    };
    path.split(|byte| *byte == b':').map(in_directory).collect()
}

fn c_string(bytes: &[u8]) -> Result<CString, StageFailure> {
    CString::new(bytes).map_err(|_| {
        failure(
            Stage::Exec,
            &format!("pass {:?} on", ByteString::from(bytes.to_vec())),
            io::Error::from_raw_os_error(libc::EINVAL),
        )
    })
}

fn told(spec: &CommandSpec, step: u8, errno: i32) -> StageFailure {
    let error = io::Error::from_raw_os_error(errno);
    let program = spec.argv[0].to_text();
    if step == Step::Cwd as u8 {
        failure(Stage::Cwd, &format!("change to {:?}", spec.cwd), error)
    } else if step == Step::Exec as u8 {
        failure(Stage::Exec, &format!("execute {program:?}"), error)
    } else {
        let what = match step {
            s if s == Step::Session as u8 => "give the command a session of its own",
            s if s == Step::Descriptors as u8 => "give the command its standard descriptors",
            s if s == Step::Limits as u8 => "set the command's limits",
            _ => "install the system call filter",
        };
        failure(Stage::Sandbox, what, error)
    }
}

fn failure(stage: Stage, what: &str, error: io::Error) -> StageFailure {
    StageFailure { stage, errno: error.raw_os_error(), message: format!("{what}: {error}") }
}

#[cfg(test)]
mod tests {
    use codespace_linux_sandbox_protocol::Rlimits;

    use super::*;

    fn spec(program: &str, path: Option<&str>) -> CommandSpec {
        CommandSpec {
            argv: vec![program.into()],
            env: path.map(|p| ("PATH".into(), p.into())).into_iter().collect(),
            cwd: "/".into(),
            tty: false,
            rlimits: Rlimits::default(),
        }
    }

    #[test]
    fn a_name_is_looked_up_in_the_commands_own_path() {
        let found = candidates(&spec("ls", Some("/a::/b"))).unwrap();
        assert_eq!(found, [c"/a/ls".into(), c"./ls".into(), CString::from(c"/b/ls")]);
        assert_eq!(candidates(&spec("./ls", Some("/a"))).unwrap(), [CString::from(c"./ls")]);
        assert_eq!(candidates(&spec("ls", None)).unwrap().len(), 6);
    }

    #[test]
    fn a_failed_step_names_its_stage_and_the_thing() {
        let cwd = told(&spec("ls", None), Step::Cwd as u8, libc::ENOENT);
        assert_eq!((cwd.stage, cwd.errno), (Stage::Cwd, Some(2)));
        let exec = told(&spec("ls", None), Step::Exec as u8, libc::EACCES);
        assert!(exec.stage == Stage::Exec && exec.message.contains("\"ls\""), "{exec:?}");
        assert_eq!(told(&spec("ls", None), Step::Filter as u8, libc::EINVAL).stage, Stage::Sandbox);
    }
}
