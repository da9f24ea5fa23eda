//! The built `codespace-runner` as a person's shell runs it: arguments, standard streams, signals, an exit code. Shared by
//! the tests of the command line; what is right is said there.
//!
//! Each program has a process group of its own, dies with the test's thread, and is ended by its guard.
#![allow(dead_code, reason = "each test binary that shares this uses another part of it")]

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use codespace_testkit::fixture::Ground;
use codespace_testkit::{programs, tell};
use serde_json::Value;

/// Nothing takes longer, unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const HELPER: &str = "CODESPACE_LINUX_SANDBOX_BIN";

/// A place to run the program in: a workspace, a home directory and nothing else of the caller's.
pub(crate) struct Cli {
    pub(crate) ground: Ground,
    runner: PathBuf,
    helper: PathBuf,
}

impl Cli {
    /// `None` is a skip, which has been told: this host has no sandbox, and none is required.
    pub(crate) fn new() -> Option<Self> {
        let runner = programs::built("codespace-runner", "codespace-runner", Some("CODESPACE_RUNNER_BIN"));
        let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", Some(HELPER));
        let cli = Self { ground: Ground::new(), runner, helper };
        let doctor = cli.run(&["doctor", "--json"]);
        if doctor.json()["works"] == true {
            return Some(cli);
        }
        let required = std::env::var_os("CODESPACE_REQUIRE_LINUX_SANDBOX").is_some_and(|value| value == "1");
        assert!(!required, "no sandbox can be had here: {doctor:?}");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        tell(&format!("SKIPPED {test}: no sandbox can be had here: {doctor:?}"));
        None
    }

    /// The program with these arguments, not yet started, in the workspace. Its streams are pipes, its stdin is empty.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.runner);
        command.args(arguments).current_dir(self.ground.workspace()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.ground.home());
        command.env(HELPER, &self.helper);
        command.env("CODESPACE_RUNNER_SOCKET", self.socket());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(as_a_shell_starts_it) };
        command
    }

    /// Where a Runner of this place listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.ground.private().join("runner.sock")
    }

    /// The program from its start to its end.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ended {
        Running::start(self.command(arguments)).ended()
    }

    /// `run` of a shell, with flags before it.
    pub(crate) fn shell(&self, flags: &[&str], script: &str) -> Ended {
        self.run(&run_shell(flags, script))
    }

    /// Nothing is left.
    pub(crate) fn assert_nothing_is_left(&self, when: &str) {
        let left = self.ground.survivors.wait_until_nothing_is_left(&[], Duration::from_secs(1));
        assert!(left.is_empty(), "{when}: left behind: {left:#?}");
    }
}

/// The arguments of a `run` of a shell.
pub(crate) fn run_shell(flags: &[&str], script: &str) -> Vec<OsString> {
    let command = ["--", "sh", "-c", script];
    ["run"].iter().chain(flags).chain(&command).map(OsString::from).collect()
}

/// How it ended, and everything that it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
}

impl Ended {
    /// The exit code; a death by a signal is none.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("it died of signal {:?}: {self:?}", self.status.signal()))
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Its stdout is one JSON object in one line.
    pub(crate) fn json(&self) -> Value {
        let text = self.stdout();
        assert_eq!(text.lines().count(), 1, "one line expected: {text:?}: {}", self.stderr());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}: {}", self.stderr()))
    }
}

/// What a stream has brought so far.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..length]);
            }
        });
        Self { bytes, reader }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The program while it runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    began: Instant,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
}

impl Running {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program under test; it ends with the test's thread or this guard"
    )]
    pub(crate) fn start(mut command: Command) -> Self {
        // SAFETY: between fork and exec it makes one system call.
        unsafe { command.pre_exec(die_with_the_test) };
        let began = Instant::now();
        let mut child = command.spawn().expect("to start codespace-runner");
        let stdout = child.stdout.take().map(Stream::read);
        let stderr = child.stderr.take().map(Stream::read);
        Self { child, began, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Its stdin, where the command was given a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("a stdin")
    }

    /// Writes all of it to its stdin, from a thread of its own, and ends the stdin.
    pub(crate) fn feed(&mut self, bytes: Vec<u8>) {
        let mut stdin = self.stdin();
        // A program that does not want all of it closes its end.
        std::thread::spawn(move || stdin.write_all(&bytes).ok());
    }

    /// Waits until its stdout contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(&format!("{text:?}"), |said| said.contains(text));
    }

    /// Waits until its stdout has so many lines.
    pub(crate) fn wait_for_lines(&mut self, count: usize) {
        self.wait_until(&format!("{count} lines"), |said| said.matches('\n').count() >= count);
    }

    fn wait_until(&mut self, what: &str, enough: impl Fn(&str) -> bool) {
        let until = Instant::now() + LONG;
        loop {
            let said = self.stdout.as_ref().map(Stream::so_far).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            if enough(&said) {
                return;
            }
            let ended = self.child.try_wait().expect("to look at it");
            let complaint = self.stderr.as_ref().map(Stream::so_far).unwrap_or_default();
            let complaint = String::from_utf8_lossy(&complaint);
            // What it said last may still be on its way.
            let over = ended.is_some() && self.stdout.as_ref().is_none_or(|stream| stream.reader.is_finished());
            assert!(!over && Instant::now() < until, "{what} did not come: {said:?} ({ended:?}): {complaint}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal to it alone.
    pub(crate) fn signal(&self, number: i32) {
        codespace_testkit::signal(self.pid(), number).expect("to signal codespace-runner");
    }

    /// Sends a signal to its process group, as the terminal does at Ctrl-C.
    #[expect(
        clippy::disallowed_methods,
        reason = "the group's leader is a child that is not reaped while this is called"
    )]
    pub(crate) fn signal_group(&self, number: i32) {
        // SAFETY: plain numbers.
        let done = unsafe { libc::killpg(self.pid(), number) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// Whether it still runs.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().expect("to look at it").is_none()
    }

    /// Waits for its end and for the end of its streams.
    pub(crate) fn ended(mut self) -> Ended {
        let until = Instant::now() + LONG;
        let status = loop {
            match self.child.try_wait().expect("to look at it") {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it does not end: {:?}", self.said()),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.began.elapsed();
        for stream in [&self.stdout, &self.stderr].into_iter().flatten() {
            while !stream.reader.is_finished() {
                assert!(Instant::now() < until, "somebody holds its output open: {:?}", self.said());
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let (stdout, stderr) = self.said();
        Ended { status, stdout, stderr, took }
    }

    fn said(&self) -> (Vec<u8>, Vec<u8>) {
        let said = |stream: &Option<Stream>| stream.as_ref().map(Stream::so_far).unwrap_or_default();
        (said(&self.stdout), said(&self.stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// No signal is ignored, whoever has started the tests: in the background of a script, INT and QUIT are, and what is
/// ignored at its beginning the program under test leaves so.
pub(crate) fn as_a_shell_starts_it() -> std::io::Result<()> {
    for number in
        [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]
    {
        // SAFETY: it sets a disposition to the default, and nothing else.
        if unsafe { libc::signal(number, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

fn die_with_the_test() -> std::io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer, and nothing is allocated.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
