//! The verb `probe`: what this host can enforce, each thing tried for real.
//!
//! It plays the Runner's part for one start of `true`, through the very same `run`, and gives it five seconds.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use codespace_linux_sandbox_protocol::{
    Access, CONTROL_FD, CommandEnd, CommandSpec, Engine, Finding, FromSandbox, MAX_MESSAGE, Network, PLAN_FD,
    PLAN_PROTOCOL, Plan, ProbeReport, RUNNER_PIDFD, Rlimits, Rule, ToSandbox, View,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, sendmsg, socketpair};

use crate::sys;

const DEADLINE: Duration = Duration::from_secs(5);

/// Prints a [`ProbeReport`]. Exit code 0: a sandbox works here.
pub(crate) fn main() -> ExitCode {
    let report = report();
    let mut line = serde_json::to_vec(&report).unwrap_or_default();
    line.push(b'\n');
    let printed = io::stdout().write_all(&line);
    if report.works && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report() -> ProbeReport {
    let Some(program) = find_bubblewrap() else {
        let what = "bubblewrap is not installed: no bwrap in /usr/bin, /bin, /usr/local/bin or PATH".to_owned();
        let remedy =
            "install it: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)".to_owned();
        return ProbeReport {
            protocol: PLAN_PROTOCOL,
            works: false,
            network_enforced: false,
            engine_program: None,
            engine_version: None,
            findings: vec![Finding { what, remedy }],
        };
    };
    let mut findings = Vec::new();
    let works = match try_true(&program) {
        Ok(()) => true,
        Err(seen) => {
            findings.push(Finding { what: format!("a sandbox could not be set up: {seen}"), remedy: remedy() });
            false
        }
    };
    ProbeReport {
        protocol: PLAN_PROTOCOL,
        works,
        // The trial has its own network namespace; it works as a whole or not at all.
        network_enforced: works,
        engine_version: version(&program),
        engine_program: Some(program.into()),
        findings,
    }
}

fn find_bubblewrap() -> Option<PathBuf> {
    let fixed = ["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = fixed.into_iter().chain(std::env::split_paths(&path)).filter(|dir| dir.is_absolute());
    candidates.map(|dir| dir.join("bwrap")).find(|bwrap| {
        std::fs::metadata(bwrap).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[expect(clippy::disallowed_methods, reason = "asks bwrap for its version; it starts nothing and ends by itself")]
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).env_clear().output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}

/// What usually is in the way, as far as this host tells.
fn remedy() -> String {
    let is = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    let steps = [
        (
            is("/proc/sys/user/max_user_namespaces", "0"),
            "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000",
        ),
        (
            is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
            "user namespaces are for root only: sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            "AppArmor restricts user namespaces: give the helper a profile with `userns,`, or sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists(),
            "this is a container: let it make namespaces, for instance docker run --security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined --security-opt systempaths=unconfined",
        ),
    ];
    let found: Vec<&str> = steps.iter().filter(|(seen, _)| *seen).map(|(_, step)| *step).collect();
    if found.is_empty() {
        "run `bwrap --unshare-all --ro-bind / / true` by hand; what it says names the cause".to_owned()
    } else {
        found.join("; ")
    }
}

/// One whole start of `true`, in the Runner's part. The error says what was seen instead of exit code 0.
fn try_true(bubblewrap: &Path) -> Result<(), String> {
    let told = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|e| told("make a socket pair")(e.into()))?;
    let mut helper = start_helper(bubblewrap, theirs).map_err(told("start the helper"))?;
    let outcome = play_runner(&ours);
    // The helper ends by itself when all went well. It dies with this process's end of the socket in any case; this
    // makes it sure, and reaps it.
    drop(ours);
    helper.kill().map_err(told("end the helper"))?;
    helper.wait().map_err(told("wait for the helper"))?;
    outcome
}

#[expect(clippy::disallowed_methods, reason = "the probe has one thread, which lives until the helper is reaped")]
fn start_helper(bubblewrap: &Path, control: OwnedFd) -> io::Result<Child> {
    let plan = serde_json::to_vec(&trial(bubblewrap))?;
    let plan = crate::engines::memfd("plan", &plan).map_err(|e| io::Error::other(e.message))?;
    let pidfd = sys::own_pidfd()?;
    let give = [(control, CONTROL_FD), (plan, PLAN_FD), (pidfd, RUNNER_PIDFD)];
    let mut command = Command::new("/proc/self/exe");
    command.arg("run").env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure only makes fcntl and dup2 calls, on descriptors that it owns.
    unsafe {
        command.pre_exec(move || {
            // Out of the way first: a source may have the number of another's destination.
            let high = give.iter().map(|(fd, to)| Ok((duplicate_above(fd.as_raw_fd(), 10)?, *to)));
            for (fd, to) in high.collect::<io::Result<Vec<_>>>()? {
                sys::dup_to(std::os::fd::AsFd::as_fd(&fd), to)?;
            }
            Ok(())
        });
    }
    command.spawn()
}

fn duplicate_above(fd: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and returns a new descriptor or -1.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn trial(bubblewrap: &Path) -> Plan {
    let system = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"];
    let rules = system.iter().filter_map(|path| {
        let access = match std::fs::read_link(path) {
            Ok(target) => Access::Symlink { target: target.into() },
            // A rule's path has no link in it.
            Err(_) if std::fs::canonicalize(path).is_ok_and(|resolved| resolved == Path::new(path)) => Access::Read,
            Err(_) => return None,
        };
        Some(Rule { path: (*path).into(), access })
    });
    Plan {
        protocol: PLAN_PROTOCOL,
        engine: Engine::Bubblewrap { program: bubblewrap.into() },
        view: View { rules: rules.collect() },
        network: Network::Isolated,
        command: CommandSpec {
            argv: vec!["true".into()],
            env: vec![("PATH".into(), "/usr/bin:/bin:/run/current-system/sw/bin".into())],
            cwd: "/".into(),
            tty: false,
            rlimits: Rlimits::default(),
        },
    }
}

fn play_runner(control: &OwnedFd) -> Result<(), String> {
    let until = Instant::now() + DEADLINE;
    let mut buffer = vec![0; MAX_MESSAGE];
    let mut ended = Err("the helper left without a word".to_owned());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(control), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::ZERO);
        match poll(&mut fds, timeout) {
            Ok(0) => return Err(format!("nothing was heard for {} s", DEADLINE.as_secs())),
            Err(nix::Error::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(format!("wait for the helper: {error}")),
        }
        // Descriptors that come along are of no use here; without space for them the kernel closes them.
        let length = recv(control.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap_or(0);
        if length == 0 {
            return ended;
        }
        let message = serde_json::from_slice(&buffer[..length]).map_err(|e| format!("understand the helper: {e}"))?;
        match message {
            FromSandbox::Armed => say(control, &ToSandbox::Go, &[])?,
            FromSandbox::Ready => say(control, &ToSandbox::Start, &[0, 1, 2])?,
            FromSandbox::Exited { end: CommandEnd::Code(0), .. } => ended = Ok(()),
            FromSandbox::Exited { end, .. } => ended = Err(format!("`true` ended with {end:?}")),
            FromSandbox::Failed(failure) => ended = Err(failure.message),
            FromSandbox::EngineEnded { said, end } if ended.is_err() => ended = Err(format!("{said} ({end:?})")),
            FromSandbox::EngineEnded { .. }
            | FromSandbox::FirstProcess
            | FromSandbox::Supervised
            | FromSandbox::Started
            | FromSandbox::Gone { .. } => {}
        }
    }
}

fn say(control: &OwnedFd, message: &ToSandbox, fds: &[RawFd]) -> Result<(), String> {
    let bytes = serde_json::to_vec(message).map_err(|e| e.to_string())?;
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<()>(control.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::MSG_NOSIGNAL, None)
        .map(drop)
        .map_err(|e| format!("answer the helper: {e}"))
}
