//! The inner stage's loop: reap, tell of the command's own end, pass signals on, leave when nothing is left.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::process::ExitCode;

use codespace_linux_sandbox_protocol::{CommandEnd, FromSandbox, ToSandbox, TreeUsage};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use super::leftovers;
use crate::control::{Control, Received};
use crate::fault::{self, Fault};
use crate::sys;

/// Returns when every process below this one has ended and was reaped; or, at once, when the Runner is gone: the kernel
/// then ends what is left.
pub(super) fn until_everything_is_gone(control: &Control, command: Pid) -> ExitCode {
    match supervise(control, command) {
        Ok(code) => code,
        // Poll, signalfd or wait failed, none of which has a cause that could pass. Leaving ends the whole namespace.
        Err(_) => ExitCode::from(123),
    }
}

fn supervise(control: &Control, command: Pid) -> io::Result<ExitCode> {
    // Blocked, so that it arrives at the descriptor. A child that ended before this is found by the first `reap`.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut command = Some(command);
    let mut hear = true;
    loop {
        if reap(control, &mut command)? == Left::Nothing {
            control.send(&FromSandbox::Gone { usage: usage()? });
            return Ok(ExitCode::SUCCESS);
        }
        let mut fds =
            [PollFd::new(children.as_fd(), PollFlags::POLLIN), PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        let heard = if hear { &mut fds[..] } else { &mut fds[..1] };
        match poll(heard, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if hear && fds[1].any().unwrap_or(true) {
            match control.receive()? {
                Received::Message(ToSandbox::Signal { number }, _) => pass_on(command, number),
                Received::Message(ToSandbox::Go | ToSandbox::Start, _) => {}
                Received::End if fault::on(Fault::NoLifeline) => hear = false,
                Received::End => return Ok(ExitCode::from(124)),
            }
        }
        // Several children may stand behind one notice; `reap` looks for all of them.
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

#[derive(PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Reaps whatever has ended. The command is counted before it is reaped: at this moment, what else lives is its leftover.
fn reap(control: &Control, command: &mut Option<Pid>) -> io::Result<Left> {
    loop {
        let ended = match wait_id(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL) {
            Ok(Some(ended)) => ended,
            Ok(None) => return Ok(Left::Something),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Left::Nothing),
            Err(error) => return Err(error),
        };
        let own = command.is_some_and(|pid| pid.as_raw() == ended.pid);
        let leftovers = if own { leftovers::count(ended.pid) } else { 0 };
        wait_id(libc::P_PID, ended.pid as libc::id_t, libc::WEXITED | libc::__WALL)?;
        if own {
            *command = None;
            control.send(&FromSandbox::Exited { end: ended.end, usage: usage()?, leftovers });
        }
    }
}

struct Ended {
    pid: i32,
    end: CommandEnd,
}

/// `waitid` by hand: nix refuses to tell of real-time signals.
fn wait_id(kind: libc::idtype_t, id: libc::id_t, options: i32) -> io::Result<Option<Ended>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the structure is valid for writes, and zeroed is a valid value of it.
        if unsafe { libc::waitid(kind, id, info.as_mut_ptr(), options) } == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: zeroed above, and filled by the kernel for a child that ended; a zero pid means that there was none.
    let (pid, status, code) = unsafe {
        let info = info.assume_init();
        (info.si_pid(), info.si_status(), info.si_code)
    };
    if pid == 0 {
        return Ok(None);
    }
    let end = if code == libc::CLD_EXITED { CommandEnd::Code(status) } else { CommandEnd::Signal(status) };
    Ok(Some(Ended { pid, end }))
}

/// To the command's process group: its number stays the command's for as long as the command is not reaped.
fn pass_on(command: Option<Pid>, number: i32) {
    let Some(command) = command else { return };
    sys::signal_group(command.as_raw(), number);
}

fn usage() -> io::Result<TreeUsage> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ms = |time: nix::sys::time::TimeVal| u64::try_from(time.num_milliseconds()).unwrap_or_default();
    Ok(TreeUsage {
        user_ms: ms(usage.user_time()),
        system_ms: ms(usage.system_time()),
        max_rss_bytes: u64::try_from(usage.max_rss()).unwrap_or_default() * 1024,
    })
}
