//! No argument, environment value, input or output byte is in a log line, also where everything is logged.
#![cfg(target_os = "linux")]

mod cli;

use cli::{Cli, Running};
use serde_json::Value;

/// Distinct, and found by a search for their common part.
const MARK: &str = "s3cr3t";

/// Everything that a client can hand over, and everything that can go wrong with it.
fn let_secrets_through(cli: &Cli) {
    let secret = |name: &str| format!("{MARK}-{name}");
    let env = format!("NAME={}", secret("env"));
    let start = |flags: &[&str], command: &[&str]| {
        let words: Vec<&str> =
            ["start", "--json", "--env", &env].iter().chain(flags).chain(&["--"]).chain(command).copied().collect();
        cli.run(&words)
    };
    let said = secret("out");
    let script = format!("echo {said}; echo {said} >&2; cat; exit 3 # {}", secret("script"));
    for flags in [&["--stdin"][..], &["--tty"], &["--stdin", "--wait-when-full", "--output-bytes", "100"]] {
        let started = start(flags, &["sh", "-c", &script, &secret("argument")]);
        let id = started.json()["process_id"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned();
        assert_eq!(cli.run(&["write", &id, &format!("{}\n", secret("in"))]).code(), 0);
        // One that a shell does not die of.
        cli.run(&["signal", &id, "WINCH"]);
        cli.run(&["close-stdin", &id]);
        let said = cli.run(&["logs", "-f", &id]);
        assert!(said.stdout().contains(MARK), "the test shows nothing: {said:?}");
        cli.run(&["wait", &id]);
        // Too late, and each is an error.
        cli.run(&["write", &id, &secret("late")]);
        cli.run(&["resize", &id, "10", "10"]);
        cli.run(&["status", &id]);
    }
    let failing: [&[&str]; 4] =
        [&["/no/such/s3cr3t-program"], &["/etc/passwd", "s3cr3t"], &["", "s3cr3t"], &["sh", "s3cr3t-script"]];
    for command in failing {
        start(&[], command);
    }
    start(&["--cwd", "no/s3cr3t-directory"], &["true"]);
    start(&["--cwd", "../s3cr3t"], &["true"]);
    start(&["--limit-memory", "1G"], &["s3cr3t"]);
    start(&["--workspace", "other"], &["s3cr3t"]);
    start(&["--timeout", "30ms"], &["sh", "-c", "sleep 1000", "s3cr3t"]);
    cli.run(&["ps"]);
    garbage(cli);
}

/// Requests that cannot be taken, with secrets in them.
fn garbage(cli: &Cli) {
    use std::io::{Read as _, Write as _};
    let bodies = [
        r#"{"s3cr3t": "s3cr3t"#,
        r#"{"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1, "client": {"name": "s3cr3t"}}}"#,
        r#"{"jsonrpc": "2.0", "id": "s3cr3t", "method": "exec", "params": {"command": "s3cr3t", "env": {"A": "s3cr3t"}}}"#,
        r#"{"jsonrpc": "2.0", "id": 2, "method": "s3cr3t", "params": {"s3cr3t": "s3cr3t"}}"#,
        r#"["s3cr3t"]"#,
    ];
    for order in [&bodies[1..], &bodies[..1]] {
        let mut stream = std::os::unix::net::UnixStream::connect(cli.socket()).unwrap();
        for body in order {
            let length = u32::try_from(body.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length[..], body.as_bytes()].concat()).unwrap();
        }
        stream.write_all(&[0xff; 100]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).unwrap();
        assert!(!answers.is_empty());
    }
}

#[test]
fn nothing_that_passes_through_a_runner_is_in_its_log_at_any_level() {
    let Some(mut cli) = Cli::new() else { return };
    for format in ["text", "json"] {
        let mut command = cli.command(&["serve", "--json", "--log-format", format]);
        command.env("RUST_LOG", "trace");
        let mut serving = Running::start(command);
        cli.ground.survivors.watch_runner(serving.pid());
        serving.wait_for("\n");
        let_secrets_through(&cli);
        assert_eq!(cli.run(&["stop"]).code(), 0);
        let log = serving.ended().stderr();
        assert!(
            log.lines().count() > 50 && log.contains("DEBUG") && log.contains("a connection was opened"),
            "{format}: {log}"
        );
        if format == "json" {
            log.lines().for_each(|line| assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}"));
        }
        let told: Vec<&str> = log.lines().filter(|line| line.contains(MARK)).collect();
        assert!(told.is_empty(), "{format}: {told:#?}");
    }
    cli.assert_nothing_is_left("after all");
}
