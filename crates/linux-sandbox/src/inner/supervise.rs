//! The loop of the command's parent: reap, tell of the command's own end, pass signals on, leave when nothing is left.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
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

/// What this process watches over, and what ends it when the Runner is gone.
pub(crate) enum Scope<'a> {
    /// A PID namespace, whose first process this is: it ends with this process.
    Namespace,
    /// What is below this process, as its subreaper: it has to be ended by hand.
    Descendants {
        /// A pidfd of the Runner.
        runner: BorrowedFd<'a>,
    },
}

/// Returns when every process below this one has ended and was reaped, or when the Runner is gone and with it all that
/// is left here.
pub(super) fn until_everything_is_gone(control: &Control, command: Pid, scope: &Scope<'_>) -> ExitCode {
    // Poll, signalfd or wait failed: none of them has a cause that could pass.
    let code = supervise(control, command, scope).unwrap_or(ExitCode::from(123));
    match scope {
        Scope::Namespace => {}
        Scope::Descendants { .. } => end_descendants(),
    }
    code
}

/// Kills what is below until there is nothing left to wait for.
///
/// Only children are killed, and reaped: whatever they had started comes to this subreaper and is met in the next round. A
/// child that is not reaped keeps its number, so the number can be signalled, and so can its process group's, which no
/// fork slips out of; a chain that forks and exits all the time is met that way also by those of it that are dead. No look
/// goes deeper than that, so each round is fast: a chain gets away from a slow one.
fn end_descendants() {
    let own_group = nix::unistd::getpgrp();
    loop {
        for child in leftovers::own_children() {
            match nix::unistd::getpgid(Some(Pid::from_raw(child))) {
                Ok(group) if group != own_group && group.as_raw() > 1 => {
                    sys::signal_group(group.as_raw(), libc::SIGKILL)
                }
                Ok(_) | Err(_) => {}
            }
            sys::kill_child(child);
        }
        loop {
            match wait_id(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG | libc::__WALL) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // ECHILD: nothing is below any more.
                Err(_) => return,
            }
        }
    }
}

fn supervise(control: &Control, command: Pid, scope: &Scope<'_>) -> io::Result<ExitCode> {
    // Blocked, so that it arrives at the descriptor. A child that ended before this is found by the first `reap`.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut command = Some(command);
    let mut hear = true;
    loop {
        if reap(control, &mut command, scope)? == Left::Nothing {
            control.send(&FromSandbox::Gone { usage: usage()? });
            return Ok(ExitCode::SUCCESS);
        }
        let mut fds = vec![PollFd::new(children.as_fd(), PollFlags::POLLIN)];
        if hear {
            fds.push(PollFd::new(control.as_fd(), PollFlags::POLLIN));
            if let Scope::Descendants { runner } = scope {
                fds.push(PollFd::new(*runner, PollFlags::POLLIN));
            }
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let woken = |index: usize| fds.get(index).is_some_and(|fd| fd.any().unwrap_or(true));
        if woken(2) {
            return Ok(ExitCode::from(124));
        }
        if woken(1) {
            match control.receive()? {
                Received::Message(ToSandbox::Signal { number }, _) => pass_on(command, number),
                Received::Message(ToSandbox::Go | ToSandbox::Start, _) => {}
                Received::Message(ToSandbox::End, _) => return end(control, scope),
                Received::End if fault::on(Fault::NoLifeline) => hear = false,
                Received::End => return Ok(ExitCode::from(124)),
            }
        }
        // Several children may stand behind one notice; `reap` looks for all of them.
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

/// Asked for: by hand where there is no namespace that does it.
fn end(control: &Control, scope: &Scope<'_>) -> io::Result<ExitCode> {
    match scope {
        Scope::Namespace => {}
        Scope::Descendants { .. } => {
            end_descendants();
            control.send(&FromSandbox::Gone { usage: usage()? });
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Reaps whatever has ended. The command is counted before it is reaped: at this moment, what else lives is its leftover.
fn reap(control: &Control, command: &mut Option<Pid>, scope: &Scope<'_>) -> io::Result<Left> {
    loop {
        let ended = match wait_id(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL) {
            Ok(Some(ended)) => ended,
            Ok(None) => return Ok(Left::Something),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Left::Nothing),
            Err(error) => return Err(error),
        };
        let own = command.is_some_and(|pid| pid.as_raw() == ended.pid);
        let leftovers = match scope {
            _ if !own => 0,
            Scope::Namespace => leftovers::count(ended.pid),
            Scope::Descendants { .. } => leftovers::count_descendants(ended.pid),
        };
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
