//! Finds and counts what a command has left running.

use std::fs;

/// Live processes of this PID namespace, without this one, `command`, and those that only wait to be reaped. Read from
/// `/proc`, which inside shows just this namespace; 0 where it cannot be read.
pub(super) fn count(command: i32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mine = i32::try_from(std::process::id()).unwrap_or_default();
    pids.filter(|pid| *pid != mine && *pid != command && lives(*pid)).count() as u64
}

/// Live processes below this one, wherever they have detached themselves to, without `command`.
pub(super) fn count_descendants(command: i32) -> u64 {
    descendants().into_iter().filter(|pid| *pid != command && lives(*pid)).count() as u64
}

/// The children of this process.
pub(super) fn own_children() -> Vec<i32> {
    children(i32::try_from(std::process::id()).unwrap_or_default())
}

/// Everything below this process, parents before their children. As a subreaper it keeps whatever loses its parent.
fn descendants() -> Vec<i32> {
    let mut found = own_children();
    let mut next = 0;
    while next < found.len() {
        for pid in children(found[next]) {
            // A process that changes its parent while this looks may be met twice.
            if !found.contains(&pid) {
                found.push(pid);
            }
        }
        next += 1;
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A process whose first thread has ended is shown as a zombie while other threads of it go on.
fn lives(pid: i32) -> bool {
    match state(&format!("/proc/{pid}/stat")) {
        None => false,
        Some(b'Z' | b'X') => {
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
            let states = threads.flatten().filter_map(|thread| state(thread.path().join("stat").to_str()?));
            states.into_iter().any(|state| !matches!(state, b'Z' | b'X'))
        }
        Some(_) => true,
    }
}

/// The name stands in parentheses and may hold anything, also a parenthesis; the state follows the last one.
fn state(path: &str) -> Option<u8> {
    let stat = fs::read(path).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(after + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a live and a dead process of its own")]
    fn a_zombie_does_not_count_as_alive() {
        let mut live = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(live.id()).unwrap();
        assert!(lives(pid));
        drop(live.stdin.take());
        // Wait until it has ended, without reaping it.
        nix::sys::wait::waitid(
            nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(pid)),
            nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT,
        )
        .unwrap();
        assert!(!lives(pid));
        live.wait().unwrap();
        assert!(!lives(pid));
    }
}
