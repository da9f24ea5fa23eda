//! `codespace-runner serve` and the verbs that use it over its socket.
#![cfg(target_os = "linux")]

mod cli;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cli::{Cli, Ended, Running};
use serde_json::{Value, json};

/// A Runner of this place, which listens.
struct Served {
    serve: Running,
    cli: Cli,
}

impl Served {
    fn start() -> Option<Self> {
        let mut cli = Cli::new()?;
        let serve = serve(&mut cli, &[]);
        Some(Self { serve, cli })
    }

    fn verb(&self, arguments: &[&str]) -> Ended {
        self.cli.run(arguments)
    }

    /// Starts a shell, with flags of `start`; its process id.
    fn shell(&self, flags: &[&str], script: &str) -> String {
        let command = ["--", "sh", "-c", script];
        let words: Vec<&str> = ["start"].iter().chain(flags).chain(&command).copied().collect();
        let ended = self.verb(&words);
        assert_eq!(ended.code(), 0, "{words:?}: {ended:?}");
        let id = ended.stdout().trim().to_owned();
        assert!(id.starts_with("proc-") && ended.stdout().lines().count() == 1, "{ended:?}");
        id
    }

    /// The status with the contract's names.
    fn status(&self, id: &str) -> Value {
        self.verb(&["status", "--json", id]).json()
    }

    /// Waits until the output of this process contains `text`.
    fn wait_for_output(&self, id: &str, text: &str) {
        let mut logs = Running::start(self.cli.command(&["logs", "-f", id]));
        logs.wait_for(text);
    }

    /// Nothing but what the Runner lists as running is left.
    fn assert_only_listed_are_left(&self, when: &str) {
        let list = self.verb(&["ps", "--json", "--state", "running"]).json();
        let processes = list["processes"].as_array().expect("a list");
        let roots: Vec<i32> = processes.iter().filter_map(|one| i32::try_from(one["pid"].as_i64()?).ok()).collect();
        let left = self.cli.ground.survivors.wait_until_nothing_is_left(&roots, Duration::from_secs(1));
        assert!(left.is_empty(), "{when}: left behind: {left:#?}");
    }

    /// Ends it by the stop command; it exits with 0 and nothing is left.
    fn stop(self) {
        let ended = self.verb(&["stop"]);
        assert_eq!(ended.code(), 0, "{ended:?}");
        let served = self.serve.ended();
        assert_eq!(served.code(), 0, "{served:?}");
        assert!(!self.cli.socket().exists(), "the socket is still there");
        self.cli.assert_nothing_is_left("after the stop");
    }
}

/// Starts `serve` and waits until it says that it listens.
fn serve(cli: &mut Cli, flags: &[&str]) -> Running {
    let words: Vec<&str> = ["serve", "--json"].iter().chain(flags).copied().collect();
    let mut serve = Running::start(cli.command(&words));
    cli.ground.survivors.watch_runner(serve.pid());
    serve.wait_for("\n");
    serve
}

#[test]
fn a_command_is_started_listed_shown_waited_for_and_its_exit_code_mirrored() {
    let Some(served) = Served::start() else { return };
    let long = served.shell(&["--key", "k"], "echo ready; exec sleep 1000");
    assert_eq!(served.shell(&["--key", "k"], "echo ready; exec sleep 1000"), long, "the same key, the same process");
    let id = served.shell(&[], "echo out; echo err >&2; exit 7");
    let waited = served.verb(&["wait", &id]);
    assert_eq!((waited.code(), waited.stdout().as_str()), (7, ""));

    let table = served.verb(&["ps"]).stdout();
    assert!(table.lines().count() == 3 && table.contains(&long) && table.contains(&id), "{table}");
    let row = |id: &str| table.lines().find(|line| line.contains(id)).unwrap_or_default().to_owned();
    assert!(row(&long).contains("running") && row(&id).contains("exit 7"), "{table}");
    let running = served.verb(&["ps", "--json", "--state", "running"]).json();
    assert_eq!(running["processes"].as_array().map(Vec::len), Some(1), "{running:#}");
    assert_eq!(running["processes"][0]["process_id"], json!(long));

    let status = served.status(&id);
    let told = (&status["state"], &status["exit_code"], &status["ended_by"], &status["tree"]["confirmed"]);
    assert_eq!(told, (&json!("exited"), &json!(7), &json!("command"), &json!(true)), "{status:#}");
    let text = served.verb(&["status", &id]).stdout();
    assert!(text.contains("exit_code: 7\n") && text.contains("termination: exited\n"), "{text}");

    let out = served.verb(&["logs", "--stream", "stdout", &id]);
    assert_eq!((out.code(), out.stdout().as_str()), (0, "out\n"));
    assert_eq!(served.verb(&["logs", "--stream", "stderr", &id]).stdout(), "err\n");
    let tail = served.verb(&["logs", "--stream", "stdout", "--tail", "2", &id]);
    assert_eq!(tail.stdout(), "t\n");
    served.stop();
}

#[test]
fn following_logs_shows_what_comes_and_ends_with_the_process() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&[], "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3");
    let mut logs = Running::start(served.cli.command(&["logs", "-f", &id]));
    logs.wait_for("one\n");
    assert!(logs.lives(), "more may come");
    fs::write(served.cli.ground.workspace().join("go"), "").unwrap();
    let ended = logs.ended();
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "one\ntwo\n"), "its own exit code, not the command's");
    // Also where a leftover holds the output open.
    let id = served.shell(&["--linger", "0"], "setsid sleep 1000 & echo last");
    let ended = served.verb(&["logs", "-f", &id]);
    assert_eq!(ended.stdout(), "last\n");
    // And at once where it was ended.
    let id = served.shell(&[], "echo ready; exec sleep 1000");
    let mut logs = Running::start(served.cli.command(&["logs", "-f", &id]));
    logs.wait_for("ready\n");
    served.verb(&["stop", &id]);
    assert_eq!(logs.ended().code(), 0);
    served.stop();
}

#[test]
fn stdin_is_written_in_pieces_and_from_a_pipe_and_ended() {
    let Some(served) = Served::start() else { return };
    let id = served.shell(&["--stdin"], "cat; echo end");
    let written = served.verb(&["write", &id, "one\n"]);
    assert_eq!((written.code(), written.stdout().as_str()), (0, "4 bytes written\n"));
    served.wait_for_output(&id, "one\n");
    let mut piped = served.cli.command(&["write", "--json", &id]);
    piped.stdin(Stdio::piped());
    let mut piped = Running::start(piped);
    piped.feed(b"two\n".to_vec());
    assert_eq!(piped.ended().json(), json!({"written": 4}));
    for text in ["once\n", "once\n"] {
        assert_eq!(served.verb(&["write", "--key", "w", &id, text]).code(), 0);
    }
    assert_eq!(served.verb(&["close-stdin", &id]).code(), 0);
    assert_eq!(served.verb(&["wait", &id]).code(), 0);
    assert_eq!(served.verb(&["logs", &id]).stdout(), "one\ntwo\nonce\nend\n");
    let late = served.verb(&["write", "--json", &id, "late"]);
    assert_eq!((late.code(), &late.json()["error"]["code"]), (1, &json!("PROCESS_NOT_RUNNING")));
    served.stop();
}

#[test]
fn a_signal_is_the_commands_and_a_stop_by_id_ends_these_and_no_others() {
    let Some(served) = Served::start() else { return };
    let handler = served.shell(&[], "trap 'echo heard; exit 4' USR1; echo ready; while :; do sleep 0.02; done");
    served.wait_for_output(&handler, "ready");
    assert_eq!(served.verb(&["signal", &handler, "USR1"]).code(), 0);
    assert_eq!(served.verb(&["wait", &handler]).code(), 4);

    let [one, two, stays] = [0, 1, 2].map(|_| served.shell(&[], "setsid sleep 1000 & echo ready; exec sleep 1000"));
    for id in [&one, &two, &stays] {
        served.wait_for_output(id, "ready");
    }
    let ended = served.verb(&["stop", "--json", &one, &two]);
    let told = ended.json();
    assert_eq!((ended.code(), &told["ended"]), (0, &json!(2)), "{told:#}");
    for status in told["processes"].as_array().expect("their statuses") {
        let of_it = (&status["ended_by"], &status["termination"], &status["tree"]["confirmed"]);
        assert_eq!(of_it, (&json!("terminate"), &json!("terminated"), &json!(true)), "{status:#}");
    }
    assert_eq!(served.status(&stays)["state"], "running");
    served.assert_only_listed_are_left("after the stop of two");
    assert_eq!(served.verb(&["wait", &one]).code(), 137);

    // One that is not there takes nothing away from the others, and each such one is named.
    let unknown = [1, 2].map(|n| format!("proc-00000000-0000-4000-8000-00000000000{n}"));
    let ended = served.verb(&["stop", &unknown[0], &stays, &unknown[1]]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (1, "1 process ended\n"), "{ended:?}");
    assert!(unknown.iter().all(|id| ended.stderr().contains(id)), "{ended:?}");
    served.assert_only_listed_are_left("after the stop of the last");
    served.stop();
}

#[test]
fn a_stop_of_a_workspace_ends_all_of_it_and_the_runner_goes_on() {
    let Some(served) = Served::start() else { return };
    for _ in 0..3 {
        let id = served.shell(&[], "trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done");
        served.wait_for_output(&id, "ready");
    }
    let began = Instant::now();
    let ended = served.verb(&["stop", "--workspace", "default", "--grace", "300ms"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "3 processes ended\n"));
    assert!(began.elapsed() >= Duration::from_millis(300), "they ignored the SIGTERM: {:?}", began.elapsed());
    served.assert_only_listed_are_left("after the workspace's end");
    let unknown = served.verb(&["stop", "--json", "--workspace", "other"]);
    assert_eq!((unknown.code(), &unknown.json()["error"]["code"]), (1, &json!("WORKSPACE_NOT_FOUND")));
    let id = served.shell(&[], "exit 0");
    assert_eq!(served.verb(&["wait", &id]).code(), 0);
    served.stop();
}

#[test]
fn a_stop_of_the_runner_ends_everything_and_so_do_its_signals() {
    let Some(mut served) = Served::start() else { return };
    for number in [None, Some(libc::SIGTERM), Some(libc::SIGINT)] {
        let id = served.shell(&[], "setsid sleep 1000 & echo ready; exec sleep 1000");
        served.wait_for_output(&id, "ready");
        match number {
            None => assert_eq!(served.verb(&["stop"]).stdout(), "1 process ended\n"),
            Some(number) => served.serve.signal(number),
        }
        let Served { serve: ending, mut cli } = served;
        let ended = ending.ended();
        assert_eq!(ended.code(), 0, "{number:?}: {ended:?}");
        cli.assert_nothing_is_left(&format!("{number:?}"));
        let again = serve(&mut cli, &[]);
        served = Served { serve: again, cli };
    }
    served.stop();
}

#[test]
fn a_socket_that_a_live_runner_holds_is_refused_and_a_stale_one_replaced() {
    let Some(served) = Served::start() else { return };
    let socket = served.cli.socket();
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let second = served.verb(&["serve"]);
    assert_eq!(second.code(), 1, "{second:?}");
    assert!(second.stderr().contains("a live Runner holds it"), "{}", second.stderr());
    let id = served.shell(&[], "exit 6");
    assert_eq!(served.verb(&["wait", &id]).code(), 6, "the first one is not disturbed");

    // Killed, it leaves its socket behind.
    let Served { serve: killed, mut cli } = served;
    drop(killed);
    assert!(socket.exists());
    let lost = cli.run(&["ps"]);
    assert_eq!(lost.code(), 3, "{lost:?}");
    let again = serve(&mut cli, &[]);
    let served = Served { serve: again, cli };
    assert_eq!(served.verb(&["ps"]).code(), 0);
    served.stop();
}

#[test]
fn a_socket_that_somebody_else_left_is_replaced_and_a_file_is_not() {
    let Some(mut cli) = Cli::new() else { return };
    let socket = cli.socket();
    drop(UnixListener::bind(&socket).unwrap());
    let serving = serve(&mut cli, &[]);
    Served { serve: serving, cli }.stop();

    let Some(cli) = Cli::new() else { return };
    fs::write(cli.socket(), "not a socket").unwrap();
    let ended = cli.run(&["serve"]);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert_eq!(fs::read(cli.socket()).unwrap(), b"not a socket");
}

#[test]
fn an_error_in_the_registry_names_its_key_and_nothing_listens() {
    let Some(cli) = Cli::new() else { return };
    let root = cli.ground.workspace();
    let config = cli.ground.private().join("registry.json");
    let cases = [
        (json!({"workspaces": {"w": {"root": root, "sandboxed": true}}}).to_string(), "workspaces.w", "sandboxed"),
        (json!({"workspaces": {"w": {"root": "relative"}}}).to_string(), "workspaces.w.root", "relative"),
        (json!({"workspaces": {"w": {"root": "/no/such/root"}}}).to_string(), "workspaces.w.root", "/no/such/root"),
        (
            json!({"workspaces": {"w": {"root": root, "limits": {"pids": 0}}}}).to_string(),
            "workspaces.w.limits.pids",
            "",
        ),
        (json!({"workspaces": {"w": {"root": "/usr"}}}).to_string(), "workspaces.w.root", "system directory"),
        (format!(r#"{{"workspaces": {{"w": {{"root": {root:?}}}, "w": {{"root": {root:?}}}}}}}"#), "workspaces", "w"),
        (r#"{"workspaces": "#.to_owned(), "registry.json", ""),
    ];
    for (text, key, what) in cases {
        fs::write(&config, &text).unwrap();
        let ended = cli.run(&["serve", "--config", config.to_str().unwrap()]);
        assert_eq!(ended.code(), 1, "{text}: {ended:?}");
        let complaint = ended.stderr();
        assert!(complaint.contains(key) && complaint.contains(what), "{text}: {complaint}");
        assert!(complaint.contains("registry.json"), "{text}: {complaint}");
        assert!(!cli.socket().exists(), "{text}");
    }
    cli.assert_nothing_is_left("after all");
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    let Some(cli) = Cli::new() else { return };
    let unknown = "proc-00000000-0000-4000-8000-000000000000";
    for verb in [vec!["ps"], vec!["status", unknown], vec!["stop"], vec!["start", "--", "true"], vec!["logs", unknown]]
    {
        let ended = cli.run(&verb);
        assert_eq!(ended.code(), 3, "{verb:?}: no Runner: {ended:?}");
        assert!(ended.stderr().contains("hint: "), "{verb:?}: {}", ended.stderr());
    }
    let mut cli = cli;
    let serving = serve(&mut cli, &[]);
    let served = Served { serve: serving, cli };
    let cases: [(&[&str], i32, &str); 9] = [
        (&["status", unknown], 1, "PROCESS_NOT_FOUND"),
        (&["logs", unknown], 1, "PROCESS_NOT_FOUND"),
        (&["wait", unknown], 1, "PROCESS_NOT_FOUND"),
        (&["signal", unknown, "TERM"], 1, "PROCESS_NOT_FOUND"),
        (&["stop", unknown], 1, "PROCESS_NOT_FOUND"),
        (&["start", "--workspace", "other", "--", "true"], 1, "WORKSPACE_NOT_FOUND"),
        (&["start", "--", "no-such-program"], 1, "PROCESS_SPAWN_FAILED"),
        (&["start", "--cwd", "..", "--", "true"], 1, "PATH_ESCAPE"),
        (&["start", "--limit-memory", "1G", "--", "true"], 1, "LIMIT_UNSUPPORTED"),
    ];
    for (arguments, code, error) in cases {
        let words: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        let ended = served.verb(&words);
        assert_eq!((ended.code(), &ended.json()["error"]["code"]), (code, &json!(error)), "{arguments:?}");
        assert_eq!(ended.stderr(), "", "{arguments:?}");
    }
    for bad in [&["status", "7"][..], &["start", "--"], &["signal", unknown, "SEGV"], &["nonsense"], &[]] {
        assert_eq!(served.verb(bad).code(), 2, "{bad:?}");
    }
    served.stop();
}
