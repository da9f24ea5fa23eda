//! What makes the command line pleasant: colour only where it is seen, tables that fit, a `ps` that goes on, help that is
//! right, and a word about whatever is wrong with our own streams.
#![cfg(target_os = "linux")]

mod cli;

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cli::{Cli, Ended, LONG, Running};
use codespace_pty::{Pty, Size};
use serde_json::{Value, json};

/// Escape sequences begin with it.
const ESCAPE: char = '\u{1b}';

fn serve(cli: &mut Cli) -> Running {
    let mut serve = Running::start(cli.command(&["serve", "--json"]));
    cli.ground.survivors.watch_runner(serve.pid());
    serve.wait_for("\n");
    serve
}

fn start(cli: &Cli, script: &str) -> String {
    let ended = cli.run(&["start", "--", "sh", "-c", script]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.stdout().trim().to_owned()
}

fn stop(cli: Cli, serve: Running) {
    assert_eq!(cli.run(&["stop"]).code(), 0);
    assert_eq!(serve.ended().code(), 0);
    cli.assert_nothing_is_left("after the stop");
}

/// What came out of a terminal until `done` says that it is enough.
fn from_terminal(master: &mut File, done: impl Fn(&str) -> bool) -> String {
    let until = Instant::now() + LONG;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match master.read(&mut piece) {
            Ok(length @ 1..) => bytes.extend_from_slice(&piece[..length]),
            // Nothing now, or for good: the program has closed its side.
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if done(&text) {
            return text;
        }
        assert!(Instant::now() < until, "it did not come: {text:?}");
    }
}

/// The program with its stdout and stderr on a terminal of its own.
fn on_terminal(mut command: Command, columns: u16) -> (Running, File) {
    let Pty { master, slave } = Pty::open(Size { rows: 24, cols: columns }).expect("a terminal");
    command.env("TERM", "xterm").stdout(slave.try_clone().expect("a copy")).stderr(slave);
    let running = Running::start(command);
    (running, master.into())
}

fn with_descriptor_closed(mut command: Command, fd: i32) -> Ended {
    // SAFETY: between fork and exec it makes one system call with a plain number.
    unsafe {
        command.pre_exec(move || match libc::close(fd) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    Running::start(command).ended()
}

#[test]
fn a_run_whose_output_would_be_lost_is_an_error_and_runs_nothing() {
    let Some(cli) = Cli::new() else { return };
    for (fd, name) in [(1, "stdout"), (2, "stderr")] {
        let ended = with_descriptor_closed(cli.command(&["run", "--", "sh", "-c", "echo lost; touch ran"]), fd);
        assert_eq!(ended.code(), 125, "{name}: {ended:?}");
        assert!(!cli.ground.workspace().join("ran").exists(), "{name}: it ran");
        if fd == 1 {
            assert!(ended.stderr().contains("write to stdout: it is closed"), "{}", ended.stderr());
            assert!(ended.stderr().contains("hint: "), "{}", ended.stderr());
        }
    }
    // As one object, nothing goes to stderr.
    let ended = with_descriptor_closed(cli.command(&["run", "--json", "--", "true"]), 2);
    assert_eq!((ended.code(), &ended.json()["status"]["exit_code"]), (0, &json!(0)));
    let ended = with_descriptor_closed(cli.command(&["run", "--", "cat"]), 0);
    assert_eq!(ended.code(), 0, "a closed stdin is an empty one: {ended:?}");
    let ended = with_descriptor_closed(cli.command(&["doctor"]), 1);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.stderr().contains("it is closed"), "{}", ended.stderr());
    cli.assert_nothing_is_left("after all");
}

#[test]
fn too_few_descriptors_are_an_error_with_advice_and_never_a_panic() {
    let Some(cli) = Cli::new() else { return };
    let with_limit = |arguments: &[&str], limit: u64| {
        let mut command = cli.command(arguments);
        // SAFETY: between fork and exec it makes one system call, with a value of its own.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        Running::start(command).ended()
    };
    for limit in [4, 6, 8, 12, 16, 20, 24, 28, 32] {
        let ended = with_limit(&["run", "--", "true"], limit);
        assert_eq!(ended.code(), 125, "{limit}: {ended:?}");
        assert!(!ended.stderr().contains("panicked"), "{limit}: {}", ended.stderr());
        assert!(ended.stderr().contains("ulimit -n") || limit > 35, "{limit}: {}", ended.stderr());
    }
    for limit in [4, 6, 8, 10] {
        let ended = with_limit(&["ps"], limit);
        assert_eq!(ended.code(), 1, "{limit}: {ended:?}");
        assert!(ended.stderr().contains("ulimit -n"), "{limit}: {}", ended.stderr());
    }
    let ended = with_limit(&["run", "--json", "--", "true"], 6);
    assert_eq!((ended.code(), &ended.json()["error"]["code"]), (125, &json!("RESOURCE_UNAVAILABLE")));
    assert_eq!(with_limit(&["run", "--", "true"], 64).code(), 0);
    cli.assert_nothing_is_left("after all");
}

#[test]
fn a_stdin_that_cannot_be_read_is_told_and_is_the_end_of_the_input() {
    let Some(cli) = Cli::new() else { return };
    let with_directory = |script: &str| {
        let mut command = cli.command(&cli::run_shell(&[], script));
        command.stdin(Stdio::from(File::open("/").unwrap()));
        Running::start(command).ended()
    };
    let ended = with_directory("cat; echo end; exit 7");
    assert_eq!((ended.code(), ended.stdout().as_str()), (7, "end\n"), "{ended:?}");
    assert!(ended.stderr().contains("failed to read stdin: Is a directory"), "{}", ended.stderr());
    cli.assert_nothing_is_left("after it");
}

#[test]
fn durations_and_sizes_are_taken_as_people_write_them() {
    let Some(cli) = Cli::new() else { return };
    for (flag, value) in
        [("--timeout", "1m30s"), ("--timeout", "1.5m"), ("--limit-file-size", "1.5G"), ("--output-bytes", "64K")]
    {
        let ended = cli.run(&["run", flag, value, "--", "true"]);
        assert_eq!(ended.code(), 0, "{flag} {value}: {ended:?}");
    }
    let ended = cli.run(&["run", "--timeout", "1.5s", "--json", "--", "true"]);
    assert_eq!(ended.json()["status"]["timeout_ms"], 1500);
    let ended = cli.run(&["run", "--timeout", "90", "--", "true"]);
    assert_eq!(ended.code(), 2);
    assert!(ended.stderr().contains("90s"), "{}", ended.stderr());
    let ended = cli.run(&["run", "--limit-file-size", "1.5X", "--", "true"]);
    assert!(ended.code() == 2 && ended.stderr().contains("1.5G"), "{}", ended.stderr());
}

#[test]
fn completions_and_manual_pages_come_from_the_command_line_itself() {
    let Some(cli) = Cli::new() else { return };
    let verbs = ["run", "serve", "start", "ps", "status", "logs", "write", "wait", "stop", "doctor", "explain"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = cli.run(&["completions", shell]);
        assert_eq!((ended.code(), ended.stderr().as_str()), (0, ""), "{shell}");
        assert!(verbs.iter().all(|verb| ended.stdout().contains(verb)), "{shell}");
    }
    // As bash asks for them.
    let script = cli.ground.home().join("completions.bash");
    fs::write(&script, cli.run(&["completions", "bash"]).stdout).unwrap();
    for (typed, last, expected) in
        [("", "exp", "explain"), ("run", "--netw", "--network"), ("close-stdin", "--so", "--socket")]
    {
        let words = ["codespace-runner", typed, last];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let ask = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; ask=$(complete -p codespace-runner); ask=${{ask#*-F }}; \
             ${{ask%% *}} codespace-runner {last} {}; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 2]
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &ask]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = Running::start(bash).ended();
        assert_eq!(ended.stdout().trim(), expected, "{typed} {last}: {ended:?}");
    }
    let script = cli.run(&["completions", "bash", "--json"]).json();
    assert!(script["script"].as_str().unwrap().contains("explain"));
    assert_eq!(cli.run(&["completions", "tcsh"]).code(), 2);

    let dir = cli.ground.home().join("man/man1");
    let ended = cli.run(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    for verb in verbs {
        let page = fs::read_to_string(dir.join(format!("codespace-runner-{verb}.1"))).expect(verb);
        assert!(page.contains(".SH EXAMPLES"), "{verb}: {page}");
    }
    let whole = cli.run(&["man"]).stdout();
    assert_eq!(whole, fs::read_to_string(dir.join("codespace-runner.1")).unwrap());
    let ended = cli.run(&["man", "--dir", "/proc/nowhere"]);
    assert!(ended.code() == 1 && ended.stderr().contains("/proc/nowhere"), "{ended:?}");
}

#[test]
fn colour_is_for_a_terminal_and_only_where_it_is_wanted() {
    let Some(cli) = Cli::new() else { return };
    // An error, and the help.
    let verbs: [&[&str]; 2] = [&["run", "--", "no-such-program"], &["--help"]];
    for arguments in verbs {
        let with = |variables: &[(&str, &str)], terminal: bool| {
            let mut command = cli.command(arguments);
            if !terminal {
                command.envs(variables.iter().copied());
                let ended = Running::start(command).ended();
                return ended.stdout() + &ended.stderr();
            }
            let Pty { master, slave } = Pty::open(Size { rows: 24, cols: 80 }).expect("a terminal");
            command.env("TERM", "xterm");
            command.envs(variables.iter().copied());
            command.stdout(slave.try_clone().expect("a copy")).stderr(slave);
            let mut running = Running::start(command);
            let mut master = File::from(master);
            let said = from_terminal(&mut master, |said| said.contains("hint") || said.contains("141"));
            while running.lives() {
                std::thread::sleep(Duration::from_millis(2));
            }
            said
        };
        assert!(with(&[], true).contains(ESCAPE), "{arguments:?}: a terminal has colour");
        assert!(with(&[("NO_COLOR", "")], true).contains(ESCAPE), "{arguments:?}: an empty NO_COLOR says nothing");
        for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")], [("CLICOLOR", "0")]] {
            assert!(!with(&variables, true).contains(ESCAPE), "{arguments:?}: {variables:?}");
        }
        assert!(!with(&[("TERM", "dumb"), ("CLICOLOR", "1"), ("CI", "1")], true).contains(ESCAPE), "{arguments:?}");
        assert!(!with(&[("TERM", "xterm"), ("CLICOLOR", "1"), ("CI", "1")], false).contains(ESCAPE), "{arguments:?}");
        assert!(with(&[("CLICOLOR_FORCE", "1")], false).contains(ESCAPE), "{arguments:?}: asked for");
        assert!(!with(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false).contains(ESCAPE), "{arguments:?}");
    }
    // Never in an object.
    let mut command = cli.command(&["run", "--json", "--", "no-such-program"]);
    command.env("CLICOLOR_FORCE", "1");
    assert!(!Running::start(command).ended().stdout().contains(ESCAPE));
}

#[test]
fn a_table_fits_its_terminal_and_is_whole_elsewhere() {
    let Some(mut cli) = Cli::new() else { return };
    let serving = serve(&mut cli);
    let word = "일이삼사 ".repeat(60);
    let id = start(&cli, &format!("exit 3; : \u{7} {word}"));
    assert_eq!(cli.run(&["wait", &id]).code(), 3);
    let table = cli.run(&["ps"]).stdout();
    assert!(table.contains("exit 3") && table.matches("일이삼사").count() == 60, "{table}");
    assert!(!table.contains('\u{7}') && table.contains(r"\u{7}"), "{table}");

    let (mut running, mut master) = on_terminal(cli.command(&["ps"]), 100);
    let shown = from_terminal(&mut master, |shown| shown.matches('\n').count() == 2);
    assert!(shown.contains('…') && shown.contains(&id), "{shown:?}");
    assert!(!shown.contains('\u{7}') && shown.matches("일이삼사").count() < 10, "{shown:?}");
    while running.lives() {
        std::thread::sleep(Duration::from_millis(2));
    }
    stop(cli, serving);
}

#[test]
fn a_watch_without_a_terminal_says_only_what_is_new() {
    let Some(mut cli) = Cli::new() else { return };
    let serving = serve(&mut cli);
    let id = start(&cli, "until [ -e go ]; do echo; sleep 0.05; done; exit 3");
    let mut nothing_new = Running::start(cli.command(&["ps", "--watch", "--state", "exited"]));
    nothing_new.wait_for("PROCESS");
    // Each look of this one has something new: it counts the looks of the other.
    let mut objects = Running::start(cli.command(&["ps", "--watch", "--json"]));
    objects.wait_for_lines(4);
    fs::write(cli.ground.workspace().join("go"), "").unwrap();
    nothing_new.wait_for("exit 3");
    objects.wait_for(r#""exit_code":3"#);
    for watch in [&nothing_new, &objects] {
        watch.signal(libc::SIGINT);
    }
    let ended = nothing_new.ended();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let said = ended.stdout();
    assert!(!said.contains(ESCAPE), "{said:?}");
    assert_eq!(said.matches("PROCESS").count(), 2, "one table for each change: {said}");
    let ended = objects.ended();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let objects: Vec<Value> = ended.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(objects.iter().all(|object| object["processes"][0]["process_id"] == json!(id)), "{objects:#?}");
    assert!(objects.windows(2).all(|pair| pair[0] != pair[1]), "{objects:#?}");
    stop(cli, serving);
}

#[test]
fn a_watch_on_a_terminal_is_drawn_again_and_gives_the_terminal_back() {
    let Some(mut cli) = Cli::new() else { return };
    let serving = serve(&mut cli);
    let id = start(&cli, "exec sleep 1000");
    let (running, mut master) = on_terminal(cli.command(&["ps", "--watch"]), 120);
    let drawn = from_terminal(&mut master, |drawn| drawn.matches("\u{1b}[H").count() >= 2 && drawn.contains(&id));
    assert!(drawn.starts_with("\u{1b}[?1049h") && drawn.contains("\u{1b}[?25l"), "{drawn:?}");
    running.signal(libc::SIGINT);
    let after = from_terminal(&mut master, |after| {
        after.split_once("\u{1b}[?1049l").is_some_and(|(_, after)| after.contains(&id) && after.ends_with('\n'))
    });
    assert!(after.contains("\u{1b}[?25h"), "the cursor is there again: {after:?}");
    assert_eq!(running.ended().code(), 0);

    // Also when the Runner goes away, which is told afterwards.
    let (running, mut master) = on_terminal(cli.command(&["ps", "--watch"]), 120);
    from_terminal(&mut master, |drawn| drawn.contains(&id));
    stop(cli, serving);
    let after = from_terminal(&mut master, |after| after.contains("failed to"));
    let (restored, told) = after.split_once("\u{1b}[?1049l").expect("the screen was given back");
    assert!(restored.contains("\u{1b}[?25h") && told.contains("failed to"), "{after:?}");
    assert_ne!(running.ended().code(), 0);
}

#[test]
fn a_watch_whose_reader_has_gone_ends_although_nothing_changes() {
    let Some(mut cli) = Cli::new() else { return };
    let serving = serve(&mut cli);
    let mut command = cli.command(&["ps", "--watch"]);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(writer);
    let running = Running::start(command);
    let mut first = [0; 7];
    reader.read_exact(&mut first).expect("a table");
    assert_eq!(&first, b"PROCESS");
    drop(reader);
    assert_eq!(running.ended().code(), 141);
    stop(cli, serving);
}
