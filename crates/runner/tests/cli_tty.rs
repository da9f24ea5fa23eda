//! `codespace-runner run --tty`: the command has a terminal of its own, which is the person's in all but name; the person's is
//! brought back whatever happens.
#![cfg(target_os = "linux")]

mod cli;
#[path = "cli/screen.rs"]
mod screen;

use std::process::Stdio;

use cli::{Cli, Running, run_shell};
use codespace_pty::Size;
use screen::Screen;

fn run_tty(cli: &Cli, script: &str) -> Screen {
    Screen::open(cli, &["run", "--tty", "--", "sh", "-c", script])
}

#[test]
fn the_command_has_a_terminal_of_our_size_and_kind_and_its_exit_code_is_ours() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = run_tty(&cli, "test -t 0 && echo terminal $TERM $(stty size); read line; echo got $line; exit 7");
    screen.wait_for("terminal codespace-test 33 101\r\n");
    screen.wait_until_raw();
    screen.type_keys(b"hello\r");
    // Once, by the command's own terminal, and not by ours as well.
    screen.wait_for("hello\r\ngot hello\r\n");
    screen.wait_for_exit(7);
    cli.assert_nothing_is_left("after its end");
}

#[test]
fn keys_that_mean_signals_reach_the_job_in_the_foreground_inside() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = run_tty(&cli, "trap 'echo outer; exit 5' INT; echo ready; while :; do sleep 0.02; done");
    screen.wait_for("ready");
    screen.type_keys(b"\x03");
    screen.wait_for("outer");
    screen.wait_for_exit(5);

    let mut screen = run_tty(&cli, "echo ready; exec sleep 1000");
    screen.wait_for("ready");
    screen.type_keys(b"\x1c");
    screen.wait_for_exit(128 + libc::SIGQUIT);

    let mut screen = run_tty(&cli, "set -m; sh -c 'echo ready; exec sleep 1000'; echo stopped $?; fg");
    screen.wait_for("ready");
    screen.type_keys(b"\x1a");
    screen.wait_for(&format!("stopped {}", 128 + libc::SIGTSTP));
    screen.wait_for("exec sleep 1000");
    screen.type_keys(b"\x03");
    // A shell dies of it as its job did.
    screen.wait_for_exit(128 + libc::SIGINT);
    cli.assert_nothing_is_left("after all");
}

#[test]
fn the_end_of_file_key_ends_a_cat_and_the_keys_of_a_detach_are_the_commands() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = run_tty(&cli, "stty -echo; echo ready; cat -v");
    screen.wait_for("ready");
    screen.type_keys(b"\x10\x11x\r");
    // Its terminal takes ^Q for itself.
    screen.wait_for("^Px\r\n");
    screen.type_keys(b"\x04");
    screen.wait_for_exit(0);
    cli.assert_nothing_is_left("after its end");
}

#[test]
fn a_change_of_size_reaches_the_commands_terminal() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = run_tty(&cli, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done");
    screen.wait_for("ready");
    for (rows, cols) in [(40, 120), (24, 80)] {
        screen.resize(Size { rows, cols });
        screen.wait_for(&format!("{rows} {cols}\r\n"));
    }
    screen.type_keys(b"\x03");
    screen.wait_for_exit(128 + libc::SIGINT);
}

#[test]
fn a_signal_from_outside_ends_the_tree_and_the_terminal_is_brought_back() {
    let Some(cli) = Cli::new() else { return };
    for number in [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGINT] {
        let mut screen = run_tty(&cli, "setsid sleep 1000 & echo ready; exec sleep 1000");
        screen.wait_for("ready");
        screen.wait_until_raw();
        codespace_testkit::signal(screen.program(), number).expect("to signal it");
        screen.wait_for_exit(128 + number);
        cli.assert_nothing_is_left(&format!("signal {number}"));
    }
    // Also where the command wants none of it.
    let mut screen = run_tty(&cli, "trap '' TERM HUP; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done");
    screen.wait_for("ready");
    codespace_testkit::signal(screen.program(), libc::SIGTERM).expect("to signal it");
    screen.wait_for_exit(128 + libc::SIGTERM);
    cli.assert_nothing_is_left("a stubborn one");
}

#[test]
fn a_start_that_fails_is_told_in_a_terminal_as_it_was() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = Screen::open(&cli, &["run", "--tty", "--", "no-such-program"]);
    screen.wait_for("failed to execute \"no-such-program\"");
    screen.wait_for_exit(127);
    let screen = Screen::open(&cli, &["run", "--tty", "--timeout", "300ms", "--", "sleep", "1000"]);
    screen.wait_for_exit(124);
}

#[test]
fn a_stdin_that_is_no_terminal_is_typed_and_then_ends() {
    let Some(cli) = Cli::new() else { return };
    // The second one's last line has no end, so that one end-of-file character would not be enough.
    for typed in ["one\ntwo\n", "one\ntwo", ""] {
        let mut command = cli.command(&run_shell(&["--tty"], "stty -echo -onlcr; echo ready; cat; echo end; exit 6"));
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        let mut stdin = running.stdin();
        running.wait_for("ready\n");
        std::io::Write::write_all(&mut stdin, typed.as_bytes()).expect("to write");
        drop(stdin);
        let ended = running.ended();
        assert_eq!((ended.code(), ended.stdout()), (6, format!("ready\n{typed}end\n")), "{typed:?}: {ended:?}");
    }
    cli.assert_nothing_is_left("after the last");
}

#[test]
fn with_json_nothing_is_streamed_and_the_terminals_mode_stays() {
    let Some(cli) = Cli::new() else { return };
    let mut screen = Screen::open(&cli, &["run", "--tty", "--json", "--", "sh", "-c", "echo 4$((1+1)); read line"]);
    screen.type_keys(b"x\r");
    screen.wait_for("42\\r\\n");
    screen.wait_for_exit(0);
}

#[test]
fn the_last_bytes_are_never_lost() {
    let Some(cli) = Cli::new() else { return };
    for number in 0..200 {
        let ended = cli.shell(&["--tty"], &format!("printf 'last words {number}.'; exit 9"));
        assert_eq!((ended.code(), ended.stdout()), (9, format!("last words {number}.")), "{ended:?}");
    }
    // And more than any buffer on the way holds, to a terminal.
    let mut screen = run_tty(&cli, "seq 100000; printf marker");
    screen.wait_for("99999\r\n100000\r\nmarker");
    screen.wait_for_exit(0);
    cli.assert_nothing_is_left("after all");
}
