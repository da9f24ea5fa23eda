//! The calls of `ptrace(2)`, and the wait for tracees. All of them on one thread: the tracer's.

use std::io;

/// Everything that a tracee starts is traced from its first instruction on, and dies with the tracer's thread.
const OPTIONS: libc::c_int = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;

/// The event of a stop that is none of a system call, a signal, a fork or an exec. Not in the libc crate everywhere.
const EVENT_STOP: libc::c_int = 128;

/// What became of a tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is dead, and reaped.
    Ended,
    /// It stands before or after a system call.
    Call,
    /// It has started another, which is traced too.
    Forked,
    /// It has become another program.
    Execed,
    /// It was stopped by a stopping signal, and stays so.
    Stopped,
    /// It stands where its tracing began, or goes on after a stop.
    Trapped,
    /// A signal is about to be delivered.
    Signal(i32),
}

/// How a tracee goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until its next system call.
    Call,
    /// Until something else happens.
    Event,
}

fn request(request: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: of the requests made here, those that write get a pointer to memory that is large enough and lives.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Traces a thread of another process, without stopping it.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize).map(drop)
}

/// Lets a stopped tracee go on, with a signal or with none (0). One that is dead by now is as good: its end is told.
pub(super) fn resume(pid: i32, until: Until, signal: i32) {
    let how = match until {
        Until::Call => libc::PTRACE_SYSCALL,
        Until::Event => libc::PTRACE_CONT,
    };
    request(how, pid, 0, signal as usize).ok();
}

/// Leaves a tracee stopped that a stopping signal has stopped.
pub(super) fn leave_stopped(pid: i32) {
    request(libc::PTRACE_LISTEN, pid, 0, 0).ok();
}

/// Whom the tracee has just started.
pub(super) fn started(pid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut message as usize)?;
    i32::try_from(message).map_err(io::Error::other)
}

/// The number of the system call that the tracee is about to make; `None` when it has just made it.
pub(super) fn entered(pid: i32) -> io::Result<Option<u64>> {
    // SAFETY: a structure of plain numbers, of which zero is a valid value.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GET_SYSCALL_INFO, pid, size_of_val(&info), &raw mut info as usize)?;
    // SAFETY: all variants are plain numbers, so each can be read whichever the kernel has filled.
    let call = unsafe { info.u.entry.nr };
    Ok((info.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then_some(call))
}

/// The next change of any tracee of this thread. `EINTR`: a signal came; `ECHILD`: there is none.
pub(super) fn next_change(block: bool) -> io::Result<Option<(i32, Change)>> {
    let mut status = 0;
    // Of this thread only: other threads of the test wait for children of their own.
    let options = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    // SAFETY: the status is written to memory that lives here.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, options) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some((pid, change(status)))),
    }
}

fn change(status: libc::c_int) -> Change {
    if !libc::WIFSTOPPED(status) {
        return Change::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Change::Forked,
        libc::PTRACE_EVENT_EXEC => Change::Execed,
        EVENT_STOP if signal == libc::SIGTRAP => Change::Trapped,
        EVENT_STOP => Change::Stopped,
        _ if signal == libc::SIGTRAP | 0x80 => Change::Call,
        _ => Change::Signal(signal),
    }
}
