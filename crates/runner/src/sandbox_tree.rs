//! Ends everything that a sandboxed root has started: the stop-and-kill walk.
//!
//! ```text
//! stop the root, wait until each of its threads has stopped
//! repeat   read the children of every process found so far
//!          stop the new ones, and again those that somebody has continued; wait until they have stopped
//! until    a read finds no new one while all that were found stood still
//! SIGKILL in reverse order: children before their parents. The root is left, stopped, to the caller.
//! ```
//!
//! Each read comes after every process found so far has stopped. So none of them can start a process that the read
//! misses, and none can reap one: a pid that was read stays that process's own until it is killed here. (A parent that
//! ignores SIGCHLD has its children reaped by the kernel; the start time, checked before every signal, covers that.)
//!
//! SIGSTOP and SIGKILL that come from outside a PID namespace reach its first process too, whatever handlers it has set,
//! and its death ends the namespace with all in it.
//!
//! All waits share one budget of 500 ms, after which the walk goes on without waiting. A thread in state `D` is not
//! waited for to the end: inside `vfork` it stays so until its child lets go, and the child is stopped. It is no proof of
//! standing still either, so its children are read again until they do not change.
//!
//! Never signalled: pid 0, negative and out-of-range pids, the Runner itself; and nothing at all when the root is not
//! shown as the Runner's own unreaped child.

use std::fs;
use std::time::{Duration, Instant};

use crate::proc_stat::{Stat, children, threads};
use crate::sys::pidfd::PidFd;

/// For all waits together.
const BUDGET: Duration = Duration::from_millis(500);
/// How long the children of a thread in state `D` must stay the same.
const SETTLED: Duration = Duration::from_millis(5);
/// The kernel's own bound on pids.
const PID_MAX_LIMIT: i32 = 4 * 1024 * 1024;

/// Why nothing was signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("signal pid {0}: it names no single process")]
    NoProcess(i32),
    #[error("signal the Runner itself")]
    Own,
    #[error("walk below pid {0}: it is not shown as the Runner's own child")]
    NotAChild(i32),
}

/// What the walk did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Walk {
    /// Processes below the root that were sent SIGKILL.
    pub(crate) killed: usize,
    /// Everything stood still within the budget when the last read found nothing new.
    pub(crate) stood_still: bool,
}

/// Stops `root` and ends every process below it. Blocks, for at most the budget and the time of the reads.
///
/// The caller must not reap `root` while this runs.
pub(crate) fn kill_descendants(root: i32) -> Result<Walk, Refused> {
    let root = Member::root(root)?;
    let until = Instant::now() + BUDGET;
    let mut found = vec![root];
    found[0].stop();
    let mut stood_still = wait_until_still(&found, until);
    loop {
        let known: std::collections::HashSet<i32> = found.iter().map(|member| member.pid).collect();
        let parents = found.iter().filter(|member| member.lives());
        let new: Vec<Member> = parents
            .flat_map(|parent| children(parent.pid).into_iter().filter_map(|pid| Member::child(pid, parent.pid)))
            .filter(|member| !known.contains(&member.pid))
            .collect();
        if new.is_empty() && stood_still {
            break;
        }
        found.extend(new);
        // Also those that were stopped before: a member that was found late may have continued them.
        for member in &found {
            if !member.is_still() {
                member.stop();
            }
        }
        stood_still = wait_until_still(&found, until);
        if Instant::now() >= until {
            // A tree that forks faster than it can be read; its namespace's first process is among those found.
            break;
        }
    }
    let killed = found.iter().skip(1).rev().filter(|member| member.kill()).count();
    Ok(Walk { killed, stood_still })
}

/// Whether nothing lives below `root` any more, after [`kill_descendants`] and while `root` is still stopped: what it kills
/// takes a moment to die, and a subreaper keeps what loses its parent. What comes into sight late is killed as well.
pub(crate) fn is_empty(root: i32) -> bool {
    let Ok(root) = Member::root(root) else { return false };
    let until = Instant::now() + BUDGET;
    loop {
        let mut below = vec![root];
        let mut next = 0;
        while next < below.len() {
            let parent = below[next].pid;
            below.extend(children(parent).into_iter().filter_map(|pid| Member::child(pid, parent)));
            next += 1;
        }
        let live: Vec<&Member> = below.iter().skip(1).filter(|member| member.lives()).collect();
        if live.is_empty() {
            return root.stat().is_some_and(|stat| stat.state == b'T');
        }
        for member in live.iter().rev() {
            member.kill();
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A process below the root, named for ever by its pid and start time.
#[derive(Debug, Clone, Copy)]
struct Member {
    pid: i32,
    start_time: u64,
}

impl Member {
    fn root(pid: i32) -> Result<Self, Refused> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        if pid <= 0 || pid > PID_MAX_LIMIT {
            return Err(Refused::NoProcess(pid));
        }
        if pid == own {
            return Err(Refused::Own);
        }
        // A /proc of another PID namespace would show somebody else under these numbers.
        let proc_is_ours = fs::read_link("/proc/self").is_ok_and(|link| link.to_str() == Some(&own.to_string()));
        match Stat::of_process(pid) {
            Some(stat) if proc_is_ours && stat.ppid == own => Ok(Self { pid, start_time: stat.start_time }),
            _ => Err(Refused::NotAChild(pid)),
        }
    }

    /// `None` when it is dead, or is no child of `parent` (any more). A stopped parent cannot reap, so in a tree that forks
    /// and exits all the time the dead are many; they have no children and need no signal.
    fn child(pid: i32, parent: i32) -> Option<Self> {
        let stat = Stat::of_process(pid).filter(|stat| stat.ppid == parent)?;
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let member = Self { pid, start_time: stat.start_time };
        (pid > 0 && pid != own && member.lives()).then_some(member)
    }

    fn stat(&self) -> Option<Stat> {
        Stat::of_process(self.pid).filter(|stat| stat.start_time == self.start_time)
    }

    /// A process whose first thread has ended is shown as a zombie while other threads of it go on.
    fn lives(&self) -> bool {
        let dead = |stat: Stat| matches!(stat.state, b'Z' | b'X');
        match self.stat() {
            None => false,
            Some(stat) if !dead(stat) => true,
            Some(_) => {
                threads(self.pid).into_iter().filter_map(|tid| Stat::of_thread(self.pid, tid)).any(|stat| !dead(stat))
            }
        }
    }

    fn signal(&self, number: i32) -> bool {
        // The handle first, then the look: what the handle names cannot change after the look.
        let Ok(handle) = PidFd::open(self.pid) else { return false };
        self.stat().is_some() && handle.signal(number).is_ok()
    }

    fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    fn kill(&self) -> bool {
        self.signal(libc::SIGKILL)
    }

    fn is_still(&self) -> bool {
        self.stillness() != Stillness::Moves
    }

    fn stillness(&self) -> Stillness {
        if !self.lives() {
            return Stillness::Still;
        }
        let states = threads(self.pid).into_iter().filter_map(|tid| Stat::of_thread(self.pid, tid));
        states.map(|stat| Stillness::of(stat.state)).max().unwrap_or(Stillness::Still)
    }
}

/// How much a process stands still; the most lively of its threads decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stillness {
    /// Stopped, traced or dead.
    Still,
    /// In the kernel, where a signal does not reach it for now.
    Uninterruptible,
    Moves,
}

impl Stillness {
    fn of(state: u8) -> Self {
        match state {
            b'T' | b't' | b'Z' | b'X' => Self::Still,
            b'D' => Self::Uninterruptible,
            _ => Self::Moves,
        }
    }
}

/// Whether every one of them stood still before the budget was spent.
fn wait_until_still(members: &[Member], until: Instant) -> bool {
    // There is no event for the stop of a process that is no child; the first looks come fast, since it takes
    // microseconds as a rule.
    let mut pause = Duration::from_micros(20);
    let mut waiting: Vec<Member> = members.to_vec();
    let mut unchanged_since: Option<(Instant, Vec<i32>)> = None;
    loop {
        waiting.retain(|member| member.stillness() != Stillness::Still);
        if waiting.is_empty() {
            return true;
        }
        if waiting.iter().all(|member| member.stillness() == Stillness::Uninterruptible) {
            // Either inside vfork, whose child must be found and stopped first, or about to come out. The caller reads
            // the children once these have not changed for a moment; what they do later, they do with a stop pending.
            let now: Vec<i32> = waiting.iter().flat_map(|member| children(member.pid)).collect();
            match &unchanged_since {
                Some((since, before)) if *before == now => {
                    if since.elapsed() >= SETTLED {
                        return !now.is_empty();
                    }
                }
                _ => unchanged_since = Some((Instant::now(), now)),
            }
        } else {
            unchanged_since = None;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

#[cfg(test)]
#[path = "sandbox_tree/tests.rs"]
mod tests;
