//! What a Runner occupies: descriptors, threads, memory, directories, cgroups. Read from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::child;

/// How much of the machine a process has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Also dead ones that it has not reaped.
    pub(crate) children: usize,
    /// Bytes.
    pub(crate) resident: u64,
}

impl Level {
    /// `None` when it is gone.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident = resident.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10;
        let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).ok().map(Iterator::count);
        Some(Self { descriptors: count("fd")?, threads: count("task")?, children: child::of(pid).len(), resident })
    }

    /// The most of each.
    pub(crate) fn peak(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            children: self.children.max(other.children),
            resident: self.resident.max(other.resident),
        }
    }
}

/// Everything below these directories.
pub(crate) fn files(directories: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = directories.to_vec();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

/// The cgroups that a Runner has made: the one with its pid in the name, and all below it.
pub(crate) fn cgroups(runner: i32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    let cgroup2 = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| PathBuf::from(before.split(' ').nth(4).unwrap_or_default()))
    });
    let Some(mount) = cgroup2 else { return Vec::new() };
    let mut found = Vec::new();
    let mut open = vec![(mount, false)];
    while let Some((directory, within)) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            let within = within || is_of(&entry.path(), runner);
            if within {
                found.push(entry.path());
            }
            open.push((entry.path(), within));
        }
    }
    found
}

/// Those of single processes: they are named after them.
pub(crate) fn leaves(runner: i32) -> Vec<PathBuf> {
    let of_a_process =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"proc-"));
    cgroups(runner).into_iter().filter(of_a_process).collect()
}

/// `codespace-runner.<pid>.<start time>.<number>`.
fn is_of(cgroup: &Path, runner: i32) -> bool {
    let name = cgroup.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("codespace-runner.").and_then(|rest| rest.split('.').next()) == Some(&runner.to_string())
}
