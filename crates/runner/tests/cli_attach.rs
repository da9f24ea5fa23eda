//! `codespace-runner attach`: a person's terminal at a process of the Runner. It is brought back whatever happens, and whatever
//! happens to the person's side, the process goes on.
#![cfg(target_os = "linux")]

mod cli;
#[path = "cli/screen.rs"]
mod screen;

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cli::{Cli, LONG, Running};
use codespace_pty::Size;
use codespace_testkit::signal;
use screen::{Screen, state};

/// A Runner of this place, which listens.
struct Served {
    serve: Running,
    cli: Cli,
}

impl Served {
    fn start() -> Option<Self> {
        let mut cli = Cli::new()?;
        let mut serve = Running::start(cli.command(&["serve", "--json"]));
        cli.ground.survivors.watch_runner(serve.pid());
        serve.wait_for("\n");
        Some(Self { serve, cli })
    }

    /// Starts a shell, with flags of `start`; its process id.
    fn shell(&self, flags: &[&str], script: &str) -> String {
        let command = ["--", "sh", "-c", script];
        let words: Vec<&str> = ["start"].iter().chain(flags).chain(&command).copied().collect();
        let ended = self.cli.run(&words);
        assert_eq!(ended.code(), 0, "{words:?}: {ended:?}");
        ended.stdout().trim().to_owned()
    }

    fn attach(&self, id: &str) -> Screen {
        Screen::open(&self.cli, &["attach", id])
    }

    fn is_running(&self, id: &str) -> bool {
        self.cli.run(&["status", "--json", id]).json()["state"] == "running"
    }

    fn stop(self) {
        assert_eq!(self.cli.run(&["stop"]).code(), 0);
        assert_eq!(self.serve.ended().code(), 0);
        self.cli.assert_nothing_is_left("after the stop");
    }
}

#[test]
fn keys_reach_the_process_its_output_the_screen_and_its_exit_code_is_ours() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "echo before; read line; echo got $line $(stty size); exit 7");
    let mut screen = served.attach(&id);
    // From before, so that the screen is not empty.
    screen.wait_for("before\r\n");
    screen.wait_until_raw();
    screen.type_keys(b"hello\r");
    screen.wait_for("hello\r\ngot hello 33 101\r\n");
    screen.wait_for_exit(7);

    let id = served.shell(&["--tty"], "echo ready; exec sleep 1000");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    screen.type_keys(b"\x03");
    screen.wait_for_exit(128 + libc::SIGINT);

    let id = served.shell(&["--tty"], "cat");
    let mut screen = served.attach(&id);
    screen.wait_until_raw();
    screen.type_keys(b"line\r\x04");
    screen.wait_for_exit(0);
    // One that has ended shows what is left of it.
    let mut screen = served.attach(&id);
    screen.wait_for("line\r\nline\r\n");
    screen.wait_for_exit(0);
    served.stop();
}

#[test]
fn a_change_of_size_reaches_the_process() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "trap 'stty size' WINCH; while :; do sleep 0.02; done");
    let mut screen = served.attach(&id);
    screen.wait_for("33 101\r\n");
    screen.resize(Size { rows: 40, cols: 120 });
    screen.wait_for("40 120\r\n");
    drop(screen);
    served.stop();
}

#[test]
fn a_detach_leaves_the_process_which_can_be_attached_to_again() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "stty -echo; echo ready; while read line; do echo got $line; done; exit 3");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    screen.wait_until_raw();
    // What was typed right before it counts.
    screen.type_keys(b"one\r\x10\x11");
    screen.wait_for(&format!("detached from {id}, which goes on\r\n"));
    screen.wait_for_exit(0);
    assert!(served.is_running(&id));

    let mut again = served.attach(&id);
    again.wait_for("got one");
    again.type_keys(b"two\r");
    again.wait_for("got two");
    again.type_keys(b"\x04");
    again.wait_for_exit(3);
    served.stop();
}

#[test]
fn the_first_key_of_a_detach_is_passed_on_with_the_next_key_and_the_keys_can_be_chosen() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "stty -echo; echo ready; exec cat -v");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    screen.type_keys(b"a\x10b\r");
    screen.wait_for("a^Pb\r\n");
    screen.type_keys(b"\x10");
    screen.type_keys(b"\x10\x11");
    screen.wait_for_exit(0);

    let mut screen = Screen::open(&served.cli, &["attach", "--detach-keys", "~,.", &id]);
    screen.wait_until_raw();
    screen.type_keys(b"~x\r");
    screen.wait_for("~x\r\n");
    screen.type_keys(b"~.");
    screen.wait_for_exit(0);
    assert!(served.is_running(&id));
    served.stop();
}

#[test]
fn a_signal_to_the_client_brings_the_terminal_back_and_the_process_goes_on() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "echo ready; exec sleep 1000");
    for number in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        let mut screen = served.attach(&id);
        screen.wait_for("ready");
        screen.wait_until_raw();
        signal(screen.program(), number).expect("to signal it");
        screen.wait_for_exit(128 + number);
        assert!(served.is_running(&id), "signal {number}");
    }
    served.stop();
}

#[test]
fn a_lost_runner_brings_the_terminal_back_and_is_told() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "echo ready; exec sleep 1000");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    screen.wait_until_raw();
    served.serve.signal(libc::SIGKILL);
    screen.wait_for("failed to get an answer over the connection to the Runner: the Runner has closed it\r\n");
    screen.wait_for_exit(1);
}

#[test]
fn a_client_that_is_stopped_gives_the_terminal_back_and_takes_it_again() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done");
    let script = r#"set -m; "$RUNNER" "$@"; echo "STOPPED $?"; read line; fg; echo "EXIT $?"; exec sleep 1000"#;
    let mut screen = Screen::shell(&served.cli, script, &["attach", &id]);
    screen.wait_for("ready");
    screen.wait_until_raw();
    let client = screen.program();
    signal(client, libc::SIGTSTP).expect("to stop it");
    screen.wait_for(&format!("STOPPED {}", 128 + libc::SIGTSTP));
    screen.assert_restored();
    assert_eq!(state(client), Some('T'));
    screen.resize(Size { rows: 50, cols: 50 });
    screen.type_keys(b"\r");
    screen.wait_until_raw();
    screen.wait_for("50 50\r\n");
    screen.type_keys(b"\x10\x11");
    screen.wait_for_exit(0);
    assert!(served.is_running(&id));
    served.stop();
}

#[test]
fn a_process_that_reads_nothing_stops_neither_its_output_nor_the_detach() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "stty raw -echo; echo ready; while :; do echo tick; sleep 0.02; done");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    // More than all buffers on the way hold.
    screen.type_keys(&[b'x'; 1_000_000]);
    screen.until("what was shown is forgotten", |screen| {
        screen.wait_for("tick");
        screen.shown().len() < 6
    });
    screen.wait_for("tick");
    screen.type_keys(b"\x10\x11");
    screen.wait_for("typed bytes were dropped: the process did not read its input\r\n");
    screen.wait_for("detached");
    screen.wait_for_exit(0);
    assert!(served.is_running(&id));
    served.stop();
}

#[test]
fn a_terminal_that_takes_no_output_makes_the_process_wait_and_keeps_nobody_from_leaving() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty", "--wait-when-full", "--output-bytes", "64K"], "exec yes");
    let mut screen = served.attach(&id);
    screen.wait_until_raw();
    let client = screen.program();
    // Nobody looks at the screen from here on. What was written is what is kept, and what is under way to us.
    let written = || served.cli.run(&["status", "--json", &id]).json()["output_total"].as_u64().expect("a number");
    let until = Instant::now() + LONG;
    let mut before = 0;
    loop {
        let now = written();
        assert!(now < 4 << 20, "{now} bytes for a terminal that takes none");
        if now == before && now > 64 << 10 {
            break;
        }
        assert!(Instant::now() < until, "it does not come to rest");
        before = now;
    }
    signal(client, libc::SIGTERM).expect("to signal it");
    let until = Instant::now() + LONG;
    while state(client).is_some_and(|state| state != 'Z') {
        assert!(Instant::now() < until, "the client does not leave");
        std::thread::sleep(Duration::from_millis(2));
    }
    screen.wait_for_exit(128 + libc::SIGTERM);
    assert!(served.is_running(&id));
    served.stop();
}

#[test]
fn a_process_with_pipes_has_both_its_streams_and_our_stdin_to_its_end() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--stdin"], "echo out; echo err >&2; cat; echo end; exit 5");
    let mut command = served.cli.command(&["attach", "--from-start", &id]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.stdin();
    running.wait_for("out\n");
    let bytes = b"any\x10\x11\x03\xff\n";
    stdin.write_all(bytes).expect("to write");
    running.wait_for("any");
    drop(stdin);
    let ended = running.ended();
    let wanted = [b"out\n".as_slice(), bytes, b"end\n"].concat();
    assert_eq!((ended.code(), ended.stdout, ended.stderr), (5, wanted, b"err\n".to_vec()));

    // At a terminal it stays the terminal's own keyboard: no raw mode, and Ctrl-C is the client's.
    let id = served.shell(&["--stdin"], "echo ready; cat; exit 5");
    let mut screen = served.attach(&id);
    screen.wait_for("ready");
    screen.assert_restored();
    screen.type_keys(b"line\r");
    screen.wait_for("line\r\nline\r\n");
    screen.type_keys(b"\x03");
    screen.wait_for_exit(128 + libc::SIGINT);
    assert!(served.is_running(&id));
    let mut screen = served.attach(&id);
    screen.type_keys(b"\x04");
    screen.wait_for_exit(5);
    // One without a stdin is only watched.
    let id = served.shell(&[], "echo seen; exit 2");
    let ended = served.cli.run(&["attach", &id]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (2, "seen\n"));
    served.stop();
}

#[test]
fn a_stdin_that_is_no_terminal_is_typed_as_it_is_and_then_ends() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--tty"], "stty -echo -onlcr; echo ready; cat -v; exit 6");
    let mut command = served.cli.command(&["attach", "--from-start", &id]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.stdin();
    running.wait_for("ready\n");
    // The keys of a detach are none here, and the last line has no end.
    stdin.write_all(b"one\x10\x01two").expect("to write");
    drop(stdin);
    let ended = running.ended();
    assert_eq!((ended.code(), ended.stdout().as_str()), (6, "ready\none^P^Atwo"));
    served.stop();
}

#[test]
fn a_long_output_begins_with_a_whole_line_or_from_its_start() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&[], "seq 10001");
    assert_eq!(served.cli.run(&["wait", &id]).code(), 0);
    let all: String = (1..=10_001).map(|number| format!("{number}\n")).collect();
    assert_eq!(served.cli.run(&["attach", "--from-start", &id]).stdout(), all);
    let tail = served.cli.run(&["attach", &id]).stdout();
    assert!(tail.len() > 4000 && tail.len() <= 4096 && all.ends_with(&format!("\n{tail}")), "{tail}");
    assert_eq!(served.cli.run(&["attach", "--tail", "0", &id]).stdout(), "");
    served.stop();
}

#[test]
fn the_last_bytes_are_never_lost() {
    let Some(served) = Served::start() else { return };
    for number in 0..100 {
        let id = served.shell(&["--tty"], &format!("printf 'last words {number}.'; exit 9"));
        let ended = served.cli.run(&["attach", &id]);
        assert_eq!((ended.code(), ended.stdout()), (9, format!("last words {number}.")), "{ended:?}");
    }
    served.stop();
}

#[test]
fn with_json_there_is_one_object_at_the_end() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--stdin"], "cat; exit 4");
    let ended = served.cli.run(&["attach", "--json", &id]);
    assert_eq!((ended.code(), &ended.json()["exit_code"]), (4, &serde_json::json!(4)));
    let missing = served.cli.run(&["attach", "--json", "proc-00000000-0000-4000-8000-000000000000"]);
    assert_eq!((missing.code(), &missing.json()["error"]["code"]), (1, &serde_json::json!("PROCESS_NOT_FOUND")));
    served.stop();
}
