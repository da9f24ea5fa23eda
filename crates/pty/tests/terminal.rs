//! What a program sees of the terminal that it is given.

#![cfg(unix)]

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use codespace_pty::{Pty, Size, end_of_file_char, leaves_a_line_open, make_controlling, resize, size};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

const SIZE: Size = Size { rows: 31, cols: 97 };

/// A shell with the slave as its standard descriptors and controlling terminal; the caller keeps only the master.
fn shell(pty: Pty, script: &str) -> (Child, OwnedFd) {
    shell_after(pty, script, || Ok(()))
}

/// The same, after an async-signal-safe `first` in the child.
#[expect(clippy::disallowed_methods, reason = "the test waits for the child, so nothing has to end it")]
fn shell_after(pty: Pty, script: &str, first: fn() -> io::Result<()>) -> (Child, OwnedFd) {
    let copy = || pty.slave.try_clone().expect("a copy of the slave");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(copy()).stdout(copy()).stderr(copy());
    let controlling = move || {
        first()?;
        // SAFETY: at this point of the child's start the slave is its descriptor 0, and stays open.
        make_controlling(unsafe { BorrowedFd::borrow_raw(0) })
    };
    // SAFETY: `first` and `make_controlling` are async-signal-safe.
    unsafe { command.pre_exec(controlling) };
    let child = command.spawn().expect("a shell");
    (child, pty.master)
}

/// All output until the end, as text without carriage returns. Waits for each byte.
fn output(master: &OwnedFd) -> String {
    let mut master = File::from(master.try_clone().expect("a copy of the master"));
    make_blocking(&master);
    let mut bytes = Vec::new();
    match master.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
        Err(error) => panic!("failed to read the master: {error}"),
    }
    String::from_utf8(bytes).expect("text").replace('\r', "")
}

fn make_blocking(file: &File) {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL).expect("flags"));
    fcntl(file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK)).expect("blocking");
}

#[test]
fn both_sides_are_close_on_exec_and_only_the_master_does_not_block() {
    let pty = Pty::open(SIZE).unwrap();
    assert!(pty.slave.is_terminal() && pty.master.is_terminal());
    for (side, nonblocking) in [(&pty.master, true), (&pty.slave, false)] {
        let descriptor = FdFlag::from_bits_retain(fcntl(side, FcntlArg::F_GETFD).unwrap());
        assert!(descriptor.contains(FdFlag::FD_CLOEXEC));
        let status = OFlag::from_bits_retain(fcntl(side, FcntlArg::F_GETFL).unwrap());
        assert_eq!(status.contains(OFlag::O_NONBLOCK), nonblocking);
    }
    let mut master = File::from(pty.master);
    let error = master.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_program_sees_the_size() {
    let (mut child, master) = shell(Pty::open(SIZE).unwrap(), "stty size");
    assert_eq!(output(&master), "31 97\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_resize_reaches_the_program_with_a_signal() {
    // The shell runs a trap when its command is over.
    let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done";
    let (mut child, master) = shell(Pty::open(SIZE).unwrap(), script);
    let mut reader = File::from(master.try_clone().unwrap());
    make_blocking(&reader);
    let mut seen = Vec::new();
    while !seen.ends_with(b"ready\r\n") {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let now = Size { rows: 10, cols: 20 };
    resize(master.as_fd(), now).unwrap();
    assert_eq!(size(master.as_fd()).unwrap(), now);
    assert_eq!(output(&master), "10 20\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_can_open_its_controlling_terminal() {
    let script = "echo through > /dev/tty && ps -o sid= -p $$ | tr -d ' ' && echo $$";
    let (mut child, master) = shell(Pty::open(SIZE).unwrap(), script);
    let pid = child.id();
    assert_eq!(output(&master), format!("through\n{pid}\n{pid}\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_session_leader_takes_a_controlling_terminal_too() {
    let lead_a_session = || nix::unistd::setsid().map(drop).map_err(io::Error::from);
    let pty = Pty::open(SIZE).unwrap();
    let (mut child, master) = shell_after(pty, "echo through > /dev/tty", lead_a_session);
    assert_eq!(output(&master), "through\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_end_of_file_character_ends_a_programs_input() {
    let pty = Pty::open(SIZE).unwrap();
    let end = end_of_file_char(pty.master.as_fd()).unwrap();
    assert_eq!(end, 4);
    let (mut child, master) = shell(pty, "stty -echo; cat; echo done");
    File::from(master.try_clone().unwrap()).write_all(&[b'h', b'i', b'\n', end]).unwrap();
    assert!(output(&master).ends_with("hi\ndone\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_line_stays_open_until_a_character_ends_or_drops_it_and_only_in_canonical_mode() {
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
    let pty = Pty::open(SIZE).unwrap();
    let open = |last| leaves_a_line_open(pty.master.as_fd(), last).unwrap();
    assert!(open(b'a') && open(0x80));
    for (ends, what) in [(b'\n', "newline"), (4, "end of file"), (3, "interrupt"), (0x15, "kill"), (0x1a, "suspend")] {
        assert!(!open(ends), "{what}");
    }
    let mut modes = tcgetattr(&pty.slave).unwrap();
    cfmakeraw(&mut modes);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).unwrap();
    assert!(!open(b'a'));
}

#[test]
fn what_is_no_terminal_is_refused() {
    let null = File::open("/dev/null").unwrap();
    let not_a_terminal = Some(libc::ENOTTY);
    assert_eq!(size(null.as_fd()).unwrap_err().raw_os_error(), not_a_terminal);
    assert_eq!(resize(null.as_fd(), SIZE).unwrap_err().raw_os_error(), not_a_terminal);
    assert_eq!(end_of_file_char(null.as_fd()).unwrap_err().raw_os_error(), not_a_terminal);
    assert_eq!(leaves_a_line_open(null.as_fd(), b'a').unwrap_err().raw_os_error(), not_a_terminal);
}
