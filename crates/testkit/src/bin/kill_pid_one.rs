//! Tries to stop, kill, trace and write to pid 1, and prints one `what: outcome` line for each. Ends by itself when pid 1
//! is still there to let it.

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "signalling pid 1 is its misbehaviour")]
fn main() {
    use std::fs::OpenOptions;
    use std::io::Write;

    let mut said = String::new();
    let mut tried = |what: &str, result: std::io::Result<()>| {
        let outcome = result.map_or_else(|e| format!("errno {}", e.raw_os_error().unwrap_or(0)), |()| "done".into());
        said += &format!("{what}: {outcome}\n");
    };
    let outcome = |code: i64| if code < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) };
    for number in [libc::SIGSTOP, libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGTSTP] {
        // SAFETY: plain numbers.
        tried(&format!("signal {number}"), outcome(unsafe { libc::kill(1, number) }.into()));
    }
    for (what, request) in [("attach", libc::PTRACE_ATTACH), ("seize", libc::PTRACE_SEIZE)] {
        // SAFETY: both requests take no memory.
        tried(what, outcome(unsafe { libc::ptrace(request, 1, 0, 0) }));
    }
    let (mut byte, remote) = (0u8, 0x10000 as *mut libc::c_void);
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: remote, iov_len: 1 };
    // SAFETY: the local vector is one byte that lives here; the remote one is the kernel's to check.
    tried("process_vm_writev", outcome(unsafe { libc::process_vm_writev(1, &here, 1, &there, 1, 0) } as i64));
    for name in ["mem", "oom_score_adj", "coredump_filter", "comm", "clear_refs"] {
        let opened = OpenOptions::new().write(true).open(format!("/proc/1/{name}"));
        tried(&format!("write {name}"), opened.and_then(|mut file| file.write_all(b"0")));
    }
    // Time for a signal to work, if it does: a pid 1 that is gone takes this process with it.
    std::thread::sleep(std::time::Duration::from_millis(50));
    said += "still here\n";
    std::io::stdout().write_all(said.as_bytes()).expect("to write");
}

#[cfg(not(target_os = "linux"))]
fn main() {}
