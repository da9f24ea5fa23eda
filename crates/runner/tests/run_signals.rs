//! `codespace-runner run` and the signals that it is sent: the command's own handler has the first word, `run` the last,
//! and whatever `run` dies of, nothing is left.
#![cfg(target_os = "linux")]

mod cli;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

use cli::{Cli, LONG, Running, run_shell};
use codespace_pty::{Pty, Size, make_controlling};

const SIGNALS: [(&str, i32); 4] =
    [("INT", libc::SIGINT), ("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("QUIT", libc::SIGQUIT)];

/// Ignores all four, with a child in a session of its own.
const STUBBORN: &str = "trap '' INT TERM HUP QUIT; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done";

fn start(cli: &Cli, flags: &[&str], script: &str) -> Running {
    let mut running = Running::start(cli.command(&run_shell(flags, script)));
    running.wait_for("ready");
    running
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_commands_own_handler_which_decides() {
    let Some(cli) = Cli::new() else { return };
    for (name, number) in SIGNALS {
        // A shell says on stderr what its own children have died of.
        let script =
            format!("exec 2>/dev/null; trap 'echo heard; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let running = start(&cli, &[], &script);
        running.signal_group(number);
        let ended = running.ended();
        assert_eq!(
            (ended.code(), ended.stdout().as_str(), ended.stderr().as_str()),
            (9, "ready\nheard\n", ""),
            "{name}"
        );
        cli.assert_nothing_is_left(name);
    }
}

#[test]
fn a_command_without_a_handler_dies_of_it_and_the_exit_code_is_that_signals() {
    let Some(cli) = Cli::new() else { return };
    for (name, number) in SIGNALS {
        let running = start(&cli, &[], "echo ready; exec sleep 1000");
        running.signal_group(number);
        assert_eq!(running.ended().code(), 128 + number, "{name}");
        cli.assert_nothing_is_left(name);
    }
}

#[test]
fn a_second_signal_ends_the_tree_and_the_exit_code_is_the_firsts() {
    let Some(cli) = Cli::new() else { return };
    // INT has no grace: a program may handle it and go on.
    let script = "trap 'echo heard' INT; trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done";
    for second in [libc::SIGINT, libc::SIGTERM] {
        let mut running = start(&cli, &[], script);
        running.signal_group(libc::SIGINT);
        running.wait_for("heard");
        if second == libc::SIGINT {
            // Longer than the grace that the others have.
            std::thread::sleep(Duration::from_millis(1300));
            assert!(running.lives());
        }
        running.signal_group(second);
        assert_eq!(running.ended().code(), 128 + libc::SIGINT);
        cli.assert_nothing_is_left("after the second");
    }
}

#[test]
fn a_command_that_ignores_it_is_ended_when_the_grace_is_over() {
    let Some(cli) = Cli::new() else { return };
    let second = Duration::from_secs(1);
    let cases: [(&[&str], i32, Duration); 5] = [
        (&[], libc::SIGTERM, second),
        (&[], libc::SIGHUP, second),
        (&["--grace", "200ms"], libc::SIGQUIT, second / 5),
        (&["--grace", "200ms"], libc::SIGINT, second / 5),
        (&["--grace", "0"], libc::SIGTERM, Duration::ZERO),
    ];
    for (flags, number, grace) in cases {
        let running = start(&cli, flags, STUBBORN);
        let began = Instant::now();
        running.signal_group(number);
        assert_eq!(running.ended().code(), 128 + number, "{flags:?} {number}");
        let took = began.elapsed();
        assert!(took >= grace && took < grace + Duration::from_secs(5), "{flags:?} {number}: {took:?}");
        cli.assert_nothing_is_left(&format!("{flags:?} {number}"));
    }
}

#[test]
fn what_the_caller_ignores_stays_ignored_and_what_it_blocks_does_no_harm() {
    let Some(cli) = Cli::new() else { return };
    let mut command = cli.command(&run_shell(&[], "trap 'exit 8' USR1; echo ready; read line; exit 4"));
    command.stdin(std::process::Stdio::piped());
    // SAFETY: system calls only, on a signal set that lives here.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            Ok(())
        });
    }
    let mut running = Running::start(command);
    let stdin = running.stdin();
    running.wait_for("ready");
    // As of `nohup`.
    running.signal_group(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(100));
    assert!(running.lives());
    drop(stdin);
    assert_eq!(running.ended().code(), 4, "ends and exit codes are seen all the same");
    cli.assert_nothing_is_left("after its end");
}

#[test]
fn a_signal_before_the_command_runs_ends_its_start() {
    let Some(cli) = Cli::new() else { return };
    for delay in [0, 5, 10, 20, 40] {
        let mut running = Running::start(cli.command(&run_shell(&[], "exec sleep 1000")));
        std::thread::sleep(Duration::from_millis(delay));
        // Before it catches signals it dies of them like any program.
        running.signal_group(libc::SIGTERM);
        let until = Instant::now() + LONG;
        while running.lives() {
            assert!(Instant::now() < until, "{delay} ms: it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = running.ended();
        let code = ended.status.code().unwrap_or(128 + libc::SIGTERM);
        assert_eq!(code, 128 + libc::SIGTERM, "{delay} ms: {ended:?}");
        cli.assert_nothing_is_left(&format!("{delay} ms"));
    }
}

#[test]
fn a_run_that_is_killed_leaves_nothing() {
    let Some(cli) = Cli::new() else { return };
    let flags: [&[&str]; 2] = [&[], &["--no-sandbox"]];
    for flags in flags {
        let running = start(&cli, flags, STUBBORN);
        running.signal(libc::SIGKILL);
        cli.assert_nothing_is_left(&format!("{flags:?}: killed"));
        drop(running);
        // And while it is being started.
        for delay in [3, 15, 30] {
            let running = Running::start(cli.command(&run_shell(flags, STUBBORN)));
            std::thread::sleep(Duration::from_millis(delay));
            drop(running);
            cli.assert_nothing_is_left(&format!("{flags:?}: killed after {delay} ms"));
        }
    }
}

#[test]
fn a_terminal_that_is_lost_ends_the_run_and_its_tree() {
    let Some(cli) = Cli::new() else { return };
    for script in ["setsid sleep 1000 & echo ready; exec sleep 1000", STUBBORN] {
        let Pty { master, slave } = Pty::open(Size { rows: 24, cols: 80 }).expect("a terminal");
        let mut command = cli.command(&run_shell(&[], script));
        let copy = || slave.try_clone().expect("a copy of the terminal");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // The terminal's session is the group too; `setsid` fails for one that leads a group already.
        let terminal = slave.as_raw_fd();
        // Undoes `process_group(0)`: 0 would be set before.
        command.process_group(own_group());
        // SAFETY: two system calls between fork and exec; the terminal is open in the parent until after the start.
        unsafe {
            command.pre_exec(move || make_controlling(std::os::fd::BorrowedFd::borrow_raw(terminal)));
        }
        let mut running = Running::start(command);
        drop(slave);
        wait_for(&master, "ready");
        drop(master);
        let until = Instant::now() + LONG;
        while running.lives() {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        cli.assert_nothing_is_left(script);
    }
}

fn own_group() -> i32 {
    nix::unistd::getpgrp().as_raw()
}

/// Reads the terminal's screen until it shows `text`.
fn wait_for(master: &std::os::fd::OwnedFd, text: &str) {
    let until = Instant::now() + LONG;
    let mut screen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&screen).contains(text) {
        match nix::unistd::read(master.as_fd(), &mut piece) {
            Ok(length) => screen.extend_from_slice(&piece[..length]),
            Err(nix::Error::EAGAIN | nix::Error::EIO) => std::thread::sleep(Duration::from_millis(2)),
            Err(errno) => panic!("failed to read the terminal: {errno}"),
        }
        assert!(Instant::now() < until, "{text:?} did not come: {:?}", String::from_utf8_lossy(&screen));
    }
}
