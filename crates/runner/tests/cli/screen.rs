//! A person at a terminal: a shell with the program under test in it, a keyboard, a screen, and a look at the terminal's
//! mode. Shared by the tests of what the program does at a terminal; what is right is said there.
//!
//! The session's leader is a shell that stays when the program has ended: with its leader a terminal loses its mode too, so
//! nobody could tell whether the program had brought it back.
#![allow(dead_code, reason = "each test binary that shares this uses another part of it")]

use std::fs;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use codespace_pty::{Pty, Size, make_controlling, resize};
use nix::errno::Errno;
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};

use crate::cli::{Cli, LONG, Running};

/// What a terminal of these tests begins with.
pub(crate) const SIZE: Size = Size { rows: 33, cols: 101 };

/// Says how the program ended, and leaves the terminal as it is. A Ctrl-C is for the program alone.
const ONE: &str = r#"trap : INT; "$RUNNER" "$@"; echo "EXIT $?"; exec sleep 1000"#;

pub(crate) struct Screen {
    master: OwnedFd,
    shell: Running,
    shown: Vec<u8>,
    before: Termios,
}

impl Screen {
    /// The program with these arguments at a terminal; "EXIT n" is shown when it has ended.
    pub(crate) fn open(cli: &Cli, arguments: &[&str]) -> Self {
        Self::shell(cli, ONE, arguments)
    }

    /// A shell script that finds the program in `$RUNNER`.
    pub(crate) fn shell(cli: &Cli, script: &str, arguments: &[&str]) -> Self {
        let Pty { master, slave } = Pty::open(SIZE).expect("a terminal");
        // A mode that no terminal begins with, so that only the very same one counts as brought back.
        let mut before = tcgetattr(&slave).expect("its mode");
        before.local_flags.remove(LocalFlags::ECHOCTL);
        before.control_chars[SpecialCharacterIndices::VERASE as usize] = b'#';
        tcsetattr(&slave, SetArg::TCSANOW, &before).expect("to set its mode");

        let runner = cli.command(&[] as &[&str]);
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(arguments).current_dir(cli.ground.workspace()).env_clear();
        command.envs(runner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("RUNNER", runner.get_program()).env("TERM", "codespace-test");
        let copy = || slave.try_clone().expect("a copy of the terminal");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let terminal = slave.as_raw_fd();
        // SAFETY: some system calls between fork and exec; the terminal is open in the parent until after the start.
        unsafe {
            command.pre_exec(crate::cli::as_a_shell_starts_it);
            command.pre_exec(move || make_controlling(BorrowedFd::borrow_raw(terminal)));
        }
        let shell = Running::start(command);
        Self { master, shell, shown: Vec::new(), before }
    }

    /// Keys.
    pub(crate) fn type_keys(&mut self, keys: &[u8]) {
        let mut rest = keys;
        self.until("the keys to be taken", |screen| {
            match nix::unistd::write(&screen.master, rest) {
                Ok(taken) => rest = &rest[taken..],
                Err(Errno::EAGAIN) => {}
                Err(errno) => panic!("failed to type: {errno}"),
            }
            rest.is_empty()
        });
    }

    /// Waits until this is shown, and forgets what was shown up to it.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut end = 0;
        self.until(text, |screen| {
            let found = screen.shown.windows(text.len()).position(|shown| shown == text.as_bytes());
            end = found.map_or(0, |at| at + text.len());
            found.is_some()
        });
        self.shown.drain(..end);
    }

    /// What is shown and was not waited for.
    pub(crate) fn shown(&mut self) -> String {
        self.look();
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Waits until the terminal is in raw mode.
    pub(crate) fn wait_until_raw(&mut self) {
        self.until("raw mode", |screen| !screen.mode().local_flags.contains(LocalFlags::ICANON));
    }

    /// Waits until the program has ended with this code, after which the terminal must be as it was. Ends the shell.
    pub(crate) fn wait_for_exit(mut self, code: i32) {
        self.until("EXIT", |screen| screen.said_after("EXIT ").is_some());
        assert_eq!(self.said_after("EXIT "), Some(code.to_string()), "{}", self.shown());
        self.assert_restored();
    }

    /// The terminal is as it was before the program was started.
    pub(crate) fn assert_restored(&self) {
        assert_eq!(self.mode(), self.before);
    }

    pub(crate) fn resize(&self, size: Size) {
        use std::os::fd::AsFd as _;
        resize(self.master.as_fd(), size).expect("to resize the terminal");
    }

    /// The program under test, which is the shell's only child.
    pub(crate) fn program(&mut self) -> i32 {
        let shell = self.shell.pid();
        let mut child = None;
        self.until("a child of the shell", |_| {
            let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap_or_default();
            child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
            child.is_some()
        });
        child.expect("a child")
    }

    /// Waits until something holds.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let until = Instant::now() + LONG;
        loop {
            self.look();
            if holds(self) {
                return;
            }
            assert!(Instant::now() < until, "{what:?} did not come: {:?}", String::from_utf8_lossy(&self.shown));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The rest of the line that begins so, when the line is there.
    fn said_after(&self, beginning: &str) -> Option<String> {
        let shown = String::from_utf8_lossy(&self.shown);
        let line = &shown[shown.find(beginning)? + beginning.len()..];
        line.split_once("\r\n").map(|(line, _)| line.to_owned())
    }

    fn mode(&self) -> Termios {
        tcgetattr(&self.master).expect("the terminal's mode")
    }

    /// Takes what the terminal has to show.
    fn look(&mut self) {
        let mut piece = [0; 16 * 1024];
        loop {
            match nix::unistd::read(&self.master, &mut piece) {
                Ok(length @ 1..) => self.shown.extend_from_slice(&piece[..length]),
                Ok(0) | Err(Errno::EAGAIN | Errno::EIO) => return,
                Err(errno) => panic!("failed to read the terminal: {errno}"),
            }
        }
    }
}

/// The state letter of a process, as `/proc` has it.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The process whose command line ends with this word, as the host sees it.
pub(crate) fn find(word: &str) -> Option<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        words.first().is_some_and(|program| *program == b"sleep") && words.last() == Some(&word.as_bytes())
    })
}
