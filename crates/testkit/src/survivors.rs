//! Finds what outlived its end.
//!
//! A survivor carries no mark: a stuck helper has neither the command's arguments nor its workspace. So it is found by
//! what it is not. This process makes itself a subreaper, and then
//! - **any** live process below it that was not there at the baseline and that nobody explains, and
//! - any process, also a zombie, below a Runner that is watched, unless its list explains it,
//!
//! is one. Dead ones that came to this process are reaped by pid, and only when they have been dead for so long that no
//! Runner in this process can still be about to reap them: never by a wait for any child, which would steal.
//!
//! Tests of one binary are threads of one process, and would find each other's processes. Whoever looks for survivors
//! therefore holds [`alone`] for as long as it has processes; the fixtures do that.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::proc::{self, Entry};
use crate::sys;

/// A Runner sees its root dead, or gives up, within 2 s.
const NOBODY_ELSES: Duration = Duration::from_secs(3);

/// The right to have processes in this test binary.
#[must_use]
pub struct Alone(#[expect(dead_code, reason = "held, never looked at")] MutexGuard<'static, ()>);

/// Waits until no other test of this binary has processes.
pub fn alone() -> Alone {
    static ONE: Mutex<()> = Mutex::new(());
    // A test that failed has let go of what it had.
    Alone(ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A process that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// As this process sees it.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// The kernel's letter.
    pub state: char,
    /// What it runs.
    pub command_line: String,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (child of {}, state {}): {}", self.pid, self.parent, self.state, self.command_line)
    }
}

/// The baseline, and what this process has started itself since.
#[derive(Debug)]
pub struct Survivors {
    known: HashSet<(i32, u64)>,
    runners: Vec<(i32, u64)>,
    dead_since: Mutex<HashMap<(i32, u64), Instant>>,
}

impl Survivors {
    /// Makes this process a subreaper and takes the baseline: what is below it now is known.
    ///
    /// # Panics
    /// When the kernel knows no subreaper.
    pub fn baseline() -> Self {
        sys::become_subreaper().expect("to become a subreaper");
        let known = below(own_pid(), &proc::by_parent()).iter().map(|entry| (entry.pid, entry.start_time)).collect();
        Self { known, runners: Vec::new(), dead_since: Mutex::new(HashMap::new()) }
    }

    /// A Runner that this test has started: it is no survivor, everything below it may be one.
    pub fn watch_runner(&mut self, pid: i32) {
        if let Some(entry) = Entry::of(pid) {
            self.known.insert((entry.pid, entry.start_time));
            self.runners.push((entry.pid, entry.start_time));
        }
    }

    /// What is left now. `explained`: roots that a Runner's list names; they and what is below them are accounted for.
    pub fn left(&self, explained: &[i32]) -> Vec<Survivor> {
        let table = proc::by_parent();
        self.reap_dead(&table);
        let runners: HashSet<i32> = self
            .runners
            .iter()
            .filter(|(pid, start_time)| Entry::of(*pid).is_some_and(|entry| entry.start_time == *start_time))
            .map(|(pid, _)| *pid)
            .collect();
        let accounted: HashSet<i32> = explained
            .iter()
            .flat_map(|pid| below(*pid, &table).into_iter().map(|entry| entry.pid).chain([*pid]))
            .collect();
        let candidates = runners.iter().chain([&own_pid()]).flat_map(|pid| below(*pid, &table)).collect::<HashSet<_>>();
        let mut left: Vec<Survivor> = candidates
            .into_iter()
            .filter(|entry| !self.known.contains(&(entry.pid, entry.start_time)) && !accounted.contains(&entry.pid))
            // A zombie below a Runner is one that the Runner has forgotten; one that came here is only dead.
            .filter(|entry| !entry.is_dead() || runners.contains(&entry.ppid))
            // Looked at again: the table is as old as its reading took.
            .filter_map(|entry| Entry::of(entry.pid).filter(|now| now.start_time == entry.start_time))
            .filter(|entry| !entry.is_dead() || runners.contains(&entry.ppid))
            .map(|entry| Survivor {
                pid: entry.pid,
                parent: entry.ppid,
                state: entry.state,
                command_line: proc::command_line(entry.pid),
            })
            .collect();
        left.sort_by_key(|survivor| survivor.pid);
        left
    }

    /// Waits until nothing is left; returns what is, when the time is up.
    pub fn wait_until_nothing_is_left(&self, explained: &[i32], within: Duration) -> Vec<Survivor> {
        let until = Instant::now() + within;
        loop {
            let left = self.left(explained);
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            // The death of somebody else's child has no event.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends whatever is left, so that a test that has found something does not leave it to the next one.
    pub fn end_what_is_left(&self) {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.left(&[]);
            if left.is_empty() || Instant::now() >= until {
                return;
            }
            // The handles first, then the look: what a handle names cannot change after the look.
            let handles: Vec<_> = left.iter().map(|survivor| (survivor.pid, sys::PidFd::open(survivor.pid))).collect();
            let still_left: HashSet<i32> = self.left(&[]).iter().map(|survivor| survivor.pid).collect();
            for (pid, handle) in handles {
                if let (true, Ok(handle)) = (still_left.contains(&pid), handle) {
                    // One that has ended by now is as good.
                    handle.signal(libc::SIGKILL).ok();
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn reap_dead(&self, table: &HashMap<i32, Vec<Entry>>) {
        let mut dead_since = self.dead_since.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = table.get(&own_pid()).into_iter().flatten();
        let dead: HashSet<(i32, u64)> = mine
            .filter(|entry| entry.is_dead())
            .map(|entry| (entry.pid, entry.start_time))
            .filter(|entry| !self.known.contains(entry))
            .collect();
        dead_since.retain(|entry, _| dead.contains(entry));
        for entry in dead {
            let since = *dead_since.entry(entry).or_insert_with(Instant::now);
            if since.elapsed() > NOBODY_ELSES {
                sys::reap(entry.0);
                dead_since.remove(&entry);
            }
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

fn below(pid: i32, table: &HashMap<i32, Vec<Entry>>) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for entry in table.get(&parent).into_iter().flatten() {
            found.push(*entry);
            parents.push(entry.pid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the test needs processes of its own")]
    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn kill(survivor: &Survivor) {
        crate::sys::PidFd::open(survivor.pid).unwrap().signal(libc::SIGKILL).unwrap();
    }

    #[test]
    fn a_process_that_detached_itself_and_lost_its_parent_is_found_and_then_gone() {
        let _alone = alone();
        let survivors = Survivors::baseline();
        let mut parent = shell("setsid sleep 1000 & setsid sleep 1001 & sleep 0.05");
        parent.wait().unwrap();
        let left = survivors.wait_until_nothing_is_left(&[], Duration::from_millis(100));
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.iter().all(|survivor| survivor.parent == own_pid()), "{left:?}");
        assert!(left.iter().any(|survivor| survivor.command_line == "sleep 1001"), "{left:?}");
        // Explained, it is none.
        assert_eq!(survivors.left(&[left[0].pid]), [left[1].clone()]);
        left.iter().for_each(kill);
        assert_eq!(survivors.wait_until_nothing_is_left(&[], Duration::from_secs(2)), []);
    }

    #[test]
    fn what_was_there_before_is_no_survivor_and_what_a_runner_does_not_explain_is_one() {
        let _alone = alone();
        let mut runner = shell("sleep 1000 & sleep 1001 & wait");
        let pid = i32::try_from(runner.id()).unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while below(pid, &proc::by_parent()).len() < 2 {
            assert!(Instant::now() < until, "the sleeps never came");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Survivors::baseline().left(&[]), []);
        let mut survivors = Survivors { known: HashSet::new(), ..Survivors::baseline() };
        survivors.watch_runner(pid);
        let left = survivors.left(&[]);
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(survivors.left(&[left[0].pid]).len(), 1);
        // A zombie below a Runner is one that it has forgotten.
        crate::sys::PidFd::open(pid).unwrap().signal(libc::SIGSTOP).unwrap();
        kill(&left[0]);
        let until = Instant::now() + Duration::from_secs(5);
        while survivors.left(&[left[1].pid]).first().is_none_or(|zombie| zombie.state != 'Z') {
            assert!(Instant::now() < until, "no zombie was seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(&left[1]);
        runner.kill().unwrap();
        runner.wait().unwrap();
    }
}
