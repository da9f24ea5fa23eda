//! `codespace-linux-sandbox`, the sandbox helper. One thread, no async, nothing but three verbs:
//!
//! - `probe`: really runs `/bin/true` in a sandbox and prints what this host can enforce, as one JSON object.
//! - `run`: the Runner's child for one command. Takes its plan and its control socket as inherited descriptors (see
//!   `codespace_linux_sandbox_protocol`), and dies with the Runner.
//! - `inner`: the first process inside the sandbox; started by an engine only.
//!
//! It never sees policy (why something may be seen), never writes a file, and prints nothing but the probe's report.

#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod engines;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(target_os = "linux")]
mod first_process;
#[cfg(target_os = "linux")]
mod inner;
#[cfg(target_os = "linux")]
mod lifeline;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod sys;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::io::Write;
    use std::process::ExitCode;

    let mut args = std::env::args_os().skip(1);
    match (args.next().as_deref().and_then(|verb| verb.to_str()), args.next()) {
        (Some("run"), None) => run::main(),
        (Some("inner"), None) => inner::main(),
        (Some("probe"), None) => probe::main(),
        _ => {
            let usage = "usage: codespace-linux-sandbox probe (run and inner are for the Runner)\n";
            // Nobody to tell if even stderr is gone; the exit code says it.
            std::io::stderr().write_all(usage.as_bytes()).ok();
            ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(2)
}
