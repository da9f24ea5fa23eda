//! What keeps `codespace-mcp` from serving is said in one line, with the remedy in the next.
#![cfg(target_os = "linux")]

mod gateway;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use codespace_testkit::programs;
use gateway::Place;

/// The exit code and what was said, of one that is to end by itself.
#[expect(clippy::disallowed_methods, reason = "the gateway itself; it ends here")]
fn refused(place: &Place, program: &std::path::Path, flags: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(program);
    command.args(flags).arg("--config").arg(&place.config).envs(environment.iter().copied());
    command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("to start codespace-mcp");
    let until = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("to look at it").is_none() {
        if Instant::now() > until {
            child.kill().ok();
            panic!("{flags:?}: it goes on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its end");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_refusal_names_its_remedy() {
    let Some(place) = Place::new() else { return };
    let program = programs::built("codespace-mcp", "codespace-server", None);
    let private = place.ground.private();
    let path = |name: &str| private.join(name).to_str().expect("a path").to_owned();
    let token = path("token");
    fs::write(&token, "a-token-of-a-test-0123456789").expect("to write");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("to close it");
    let alone = private.join("alone");
    fs::create_dir(&alone).expect("a directory");
    let alone = alone.join("codespace-mcp");
    fs::copy(&program, &alone).expect("to copy it");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();

    let http =
        |address: &'static str, file: &str| ["--http", address, "--token-file", file].map(str::to_owned).to_vec();
    let uds = || ["--runner", "uds"].map(str::to_owned).to_vec();
    let cases = [
        (&program, vec!["--http".to_owned(), taken, "--token-file".to_owned(), token.clone()], "", 1, "another port"),
        (&program, http("192.0.2.1:0", &token), "", 1, "hint: give an address of this machine"),
        (&program, http("localhost:0", &token), "", 2, "for example 127.0.0.1:8931"),
        (&program, uds(), "/nonexistent", 1, "hint: let TMPDIR name"),
        (&alone, uds(), "", 1, "hint: install codespace-runner beside codespace-mcp"),
    ];
    for (program, flags, temporary, code, words) in cases {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let environment: &[_] = if temporary.is_empty() { &[] } else { &[("TMPDIR", temporary)] };
        let (ended, said) = refused(&place, program, &flags, environment);
        assert!(ended == code && said.contains(words), "{flags:?}: {ended}: {said}");
    }
}

#[test]
fn one_that_waits_for_its_token_can_be_asked_to_end() {
    let Some(mut place) = Place::new() else { return };
    let pipe = place.ground.private().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).expect("a pipe");
    let pipe = pipe.to_str().expect("a path");
    let mut mcp = place.start(&["--http", "127.0.0.1:0", "--token-file", pipe]);
    // It opens the pipe, so that it waits by now; nothing comes.
    let writer = fs::File::options().write(true).open(pipe).expect("to open it");
    let pid = mcp.pid().cast_signed();
    codespace_testkit::signal(pid, 15).expect("to ask it to end");
    let until = Instant::now() + Duration::from_secs(20);
    while mcp.is_running() {
        assert!(Instant::now() < until, "it waits on");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(writer);
}
