//! `codespace-runner run` as a job of a shell: Ctrl-Z stops the command and then `run`, `fg` continues both, in the background it
//! waits for its turn at the terminal, and a stopped one that is ended leaves nothing.
#![cfg(target_os = "linux")]

mod cli;
#[path = "cli/screen.rs"]
mod screen;

use cli::Cli;
use codespace_pty::Size;
use codespace_testkit::signal;
use screen::{Screen, find, state};

/// A shell with job control, as a person's; goes on at each Return.
const STOPPED_AND_CONTINUED: &str =
    r#"set -m; "$RUNNER" "$@"; echo "STOPPED $?"; read line; fg; echo "EXIT $?"; exec sleep 1000"#;

fn wait_for_states(screen: &mut Screen, pids: [i32; 2], wanted: &[char]) {
    screen.until(&format!("{wanted:?}"), |_| {
        pids.iter().all(|pid| state(*pid).is_some_and(|state| wanted.contains(&state)))
    });
}

/// Stopped by Ctrl-Z: the shell's screen, `run` and the command.
fn stopped(cli: &Cli, flags: &[&str], number: &str) -> (Screen, [i32; 2]) {
    let script = format!("echo ready; exec sleep {number}");
    let words: Vec<&str> = ["run"].iter().chain(flags).chain(&["--", "sh", "-c", &script]).copied().collect();
    let mut screen = Screen::shell(cli, STOPPED_AND_CONTINUED, &words);
    screen.wait_for("ready");
    screen.until("the command", |_| find(number).is_some());
    let pids = [screen.program(), find(number).expect("the command")];
    wait_for_states(&mut screen, pids, &['S']);
    screen.type_keys(b"\x1a");
    screen.wait_for(&format!("STOPPED {}", 128 + libc::SIGTSTP));
    wait_for_states(&mut screen, pids, &['T']);
    (screen, pids)
}

#[test]
fn ctrl_z_stops_the_command_and_run_and_fg_continues_both() {
    let Some(cli) = Cli::new() else { return };
    let flags: [&[&str]; 2] = [&[], &["--no-sandbox"]];
    for flags in flags {
        let (mut screen, pids) = stopped(&cli, flags, "98761");
        screen.type_keys(b"\r");
        wait_for_states(&mut screen, pids, &['S']);
        // A second time, and then its end by the keyboard.
        screen.type_keys(b"\x03");
        screen.wait_for_exit(128 + libc::SIGINT);
        cli.assert_nothing_is_left("after fg");
    }
}

#[test]
fn a_stopped_run_that_is_killed_leaves_nothing() {
    let Some(cli) = Cli::new() else { return };
    let flags: [&[&str]; 2] = [&[], &["--no-sandbox"]];
    for flags in flags {
        let (screen, [run, _]) = stopped(&cli, flags, "98762");
        signal(run, libc::SIGKILL).expect("to kill it");
        let left = || find("98762");
        let mut screen = screen;
        screen.until("the command's end", |_| left().is_none());
        drop(screen);
        cli.assert_nothing_is_left("killed while it was stopped");
    }
}

#[test]
fn a_stopped_run_that_is_told_to_end_and_continued_ends_its_tree() {
    let Some(cli) = Cli::new() else { return };
    let (mut screen, [run, _]) = stopped(&cli, &[], "98763");
    signal(run, libc::SIGTERM).expect("to signal it");
    signal(run, libc::SIGCONT).expect("to continue it");
    screen.until("the command's end", |_| find("98763").is_none());
    drop(screen);
    cli.assert_nothing_is_left("ended while it was stopped");
}

#[test]
fn a_run_with_a_terminal_gives_ours_back_while_it_is_stopped() {
    let Some(cli) = Cli::new() else { return };
    let script = "stty -echo; trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut screen = Screen::shell(&cli, STOPPED_AND_CONTINUED, &["run", "--tty", "--", "sh", "-c", script]);
    screen.wait_for("ready");
    screen.wait_until_raw();
    let run = screen.program();
    signal(run, libc::SIGTSTP).expect("to stop it");
    screen.wait_for(&format!("STOPPED {}", 128 + libc::SIGTSTP));
    screen.assert_restored();
    assert_eq!(state(run), Some('T'));
    // The size changes behind its back.
    screen.resize(Size { rows: 50, cols: 50 });
    screen.type_keys(b"\r");
    screen.wait_until_raw();
    screen.wait_for("50 50\r\n");
    screen.type_keys(b"\x03");
    screen.wait_for_exit(128 + libc::SIGINT);
    cli.assert_nothing_is_left("after its end");
}

#[test]
fn a_run_with_a_terminal_in_the_background_is_stopped_until_it_is_brought_to_the_front() {
    let Some(cli) = Cli::new() else { return };
    let script = r#"set -m; "$RUNNER" "$@" & read line; echo "SHELL $line"; fg; echo "EXIT $?"; exec sleep 1000"#;
    let words = ["run", "--tty", "--", "sh", "-c", "echo ready; read line; echo got $line"];
    let mut screen = Screen::shell(&cli, script, &words);
    let run = screen.program();
    screen.until("it to be stopped", |_| state(run) == Some('T'));
    screen.assert_restored();
    screen.type_keys(b"one\r");
    screen.wait_for("SHELL one");
    screen.wait_until_raw();
    screen.wait_for("ready");
    screen.type_keys(b"two\r");
    screen.wait_for("got two");
    screen.wait_for_exit(0);

    // Told to end while it stands still: it does not come back for the terminal.
    let mut screen = Screen::shell(&cli, script, &words);
    let run = screen.program();
    screen.until("it to be stopped", |_| state(run) == Some('T'));
    signal(run, libc::SIGTERM).expect("to signal it");
    signal(run, libc::SIGCONT).expect("to continue it");
    screen.until("its end", |_| state(run).is_none_or(|state| state == 'Z'));
    screen.assert_restored();
    drop(screen);
    cli.assert_nothing_is_left("ended in the background");
}

#[test]
fn a_terminal_that_no_shell_could_give_it_is_refused_and_not_waited_for() {
    let Some(cli) = Cli::new() else { return };
    // A background job whose shell has gone: the kernel stops nobody in such a group.
    let script = r#"sh -mc '(while kill -0 $$; do sleep 0.02; done; "$RUNNER" "$@"; echo "CODE $?") 2>&1 &' sh "$@"
        exec sleep 1000"#;
    let mut screen = Screen::shell(&cli, script, &["run", "--tty", "--", "sleep", "98764"]);
    screen.wait_for("failed to take the terminal: it belongs to another job");
    screen.wait_for("CODE 125");
    screen.assert_restored();
    drop(screen);
    cli.assert_nothing_is_left("refused");
}

#[test]
fn a_run_in_the_background_goes_on_and_reads_the_terminal_only_when_it_is_its_turn() {
    let Some(cli) = Cli::new() else { return };
    let script =
        r#"set -m; "$RUNNER" "$@" & read line; echo "SHELL $line"; read line; fg; echo "EXIT $?"; exec sleep 1000"#;
    let command = "echo begun; until [ -e go ]; do sleep 0.02; done; echo went on; read line; echo got $line";
    let mut screen = Screen::shell(&cli, script, &["run", "--", "sh", "-c", command]);
    screen.wait_for("begun");
    screen.type_keys(b"one\r");
    screen.wait_for("SHELL one");
    // What was typed has not stopped it.
    std::fs::write(cli.ground.workspace().join("go"), "").expect("to write");
    screen.wait_for("went on");
    screen.type_keys(b"\r");
    // The shell says which job it has brought to the front.
    screen.wait_for("{@}");
    screen.type_keys(b"two\r");
    screen.wait_for("got two");
    screen.wait_for_exit(0);
    cli.assert_nothing_is_left("after its end");
}

#[test]
fn a_change_of_size_is_told_to_a_command_without_a_terminal_too() {
    let Some(cli) = Cli::new() else { return };
    let script = "trap 'echo changed; exit 4' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut screen = Screen::open(&cli, &["run", "--", "sh", "-c", script]);
    screen.wait_for("ready");
    screen.resize(Size { rows: 50, cols: 50 });
    screen.wait_for("changed");
    screen.wait_for_exit(4);
}

#[test]
fn ctrl_z_is_nothing_where_no_shell_could_continue_it() {
    let Some(cli) = Cli::new() else { return };
    // The session's leader is `run` itself.
    let script = r#"exec "$RUNNER" "$@""#;
    let words = ["run", "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went on"];
    let mut screen = Screen::shell(&cli, script, &words);
    screen.wait_for("ready");
    screen.type_keys(b"\x1a");
    // Whatever it makes of that, it must go on by itself.
    std::fs::write(cli.ground.workspace().join("go"), "").expect("to write");
    screen.wait_for("went on");
    drop(screen);
    cli.assert_nothing_is_left("after its end");
}
