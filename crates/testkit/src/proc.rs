//! The host's table of processes, read from `/proc`.

use std::collections::HashMap;
use std::fs;

/// One process, named for ever by its pid and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) state: char,
    pub(crate) start_time: u64,
}

impl Entry {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        // The name may hold anything, also spaces, parentheses and bytes that are no UTF-8.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
        let fields: Vec<&str> = std::str::from_utf8(stat.get(after..)?).ok()?.split_whitespace().collect();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Everything that runs, by its parent.
pub(crate) fn by_parent() -> HashMap<i32, Vec<Entry>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut table: HashMap<i32, Vec<Entry>> = HashMap::new();
    for entry in pids.filter_map(Entry::of) {
        table.entry(entry.ppid).or_default().push(entry);
    }
    table
}

/// The command line for people.
pub(crate) fn command_line(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    match text.trim() {
        "" => fs::read_to_string(format!("/proc/{pid}/comm"))
            .map_or_else(|_| "?".into(), |comm| format!("[{}]", comm.trim())),
        line => line.chars().take(200).collect(),
    }
}
