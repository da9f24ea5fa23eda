//! Looks for the descriptors by which the sandbox tells the Runner how the command ended, and forges an end with each
//! that it can open. Prints what it opened; nothing is as it should be.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::FromRawFd;

const FORGED: &[u8] =
    br#"{"exited":{"end":{"code":0},"usage":{"user_ms":0,"system_ms":0,"max_rss_bytes":0},"leftovers":0}}"#;

fn main() {
    let mut opened = Vec::new();
    // Inherited ones.
    for number in 3..256 {
        // SAFETY: this process opened nothing itself so far, so nobody else owns the number; it is never closed here.
        let mut file = std::mem::ManuallyDrop::new(unsafe { fs::File::from_raw_fd(number) });
        if file.write_all(FORGED).is_ok() {
            opened.push(format!("fd {number}"));
        }
    }
    // Those of everybody else.
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id()) {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            // Root may list the numbers of everybody of its namespace, which is not yet a descriptor.
            if let Ok(mut file) = OpenOptions::new().write(true).open(entry.path()) {
                opened.push(entry.path().display().to_string());
                file.write_all(FORGED).ok();
            } else if fs::read_link(entry.path()).is_ok() || fs::File::open(entry.path()).is_ok() {
                opened.push(entry.path().display().to_string());
            }
        }
    }
    std::io::stdout().write_all(format!("opened {opened:?}\n").as_bytes()).expect("to write");
}
