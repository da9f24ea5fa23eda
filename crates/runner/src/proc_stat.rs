//! Reads `/proc/<pid>/stat` and its relatives: state, parent, threads, children.

use std::fs;

/// What is wanted of a process's or thread's `stat` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R`, `S`, `D`, `T`, `t`, `Z`, ...
    pub(crate) state: u8,
    /// The process that gets its end told.
    pub(crate) ppid: i32,
    /// When it started, in clock ticks since boot: with the pid, it names one process for ever.
    pub(crate) start_time: u64,
}

impl Stat {
    /// Of a process (its first thread). `None`: there is none with this pid.
    pub(crate) fn of_process(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Of one thread.
    pub(crate) fn of_thread(pid: i32, tid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }
}

/// The threads of a process; empty when it is gone.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of every thread of a process. The kernel's own list where it has one: its cost follows the tree and not
/// the host, and it is exact while the process stands still.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for tid in threads(pid) {
        match fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")) {
            Ok(list) => all.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            Err(_) if kernel_lists_children() => {}
            Err(_) => return scan_for_children(pid),
        }
    }
    all
}

/// CONFIG_PROC_CHILDREN.
fn kernel_lists_children() -> bool {
    let own = std::process::id();
    fs::metadata(format!("/proc/{own}/task/{own}/children")).is_ok()
}

pub(crate) fn scan_for_children(parent: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| Stat::of_process(*pid).is_some_and(|stat| stat.ppid == parent)).collect()
}

/// The name in the second field stands in parentheses and may hold anything, also parentheses, spaces and newlines; what
/// follows the **last** closing one is plain.
pub(crate) fn parse(line: &[u8]) -> Option<Stat> {
    let after = line.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(line.get(after..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let ppid = fields.next()?.parse().ok()?;
    // Field 22 of the line, as proc(5) counts them; the state is field 3.
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, ppid, start_time })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_reads_as_itself() {
        let own = Stat::of_process(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(own.ppid, i32::try_from(std::os::unix::process::parent_id()).unwrap());
        assert!(own.start_time > 0);
    }

    proptest! {
        #[test]
        fn any_name_parses(name in proptest::collection::vec(any::<u8>(), 0..16), ppid in 0..i32::MAX, start in any::<u64>()) {
            let mut line = b"4242 (".to_vec();
            line.extend(&name);
            line.extend(format!(") S {ppid} 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 9 9 9\n").bytes());
            prop_assert_eq!(parse(&line), Some(Stat { state: b'S', ppid, start_time: start }));
        }

        #[test]
        fn garbage_is_no_stat_line_and_no_panic(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            parse(&line);
        }
    }
}
