//! A real `codespace-mcp` of a test, spoken to as an agent's client speaks to it: JSON-RPC in lines over its stdio.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod http;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use codespace_testkit::fixture::{Ground, WORKSPACE};
use codespace_testkit::programs;
use serde_json::{Value, json};

/// Nothing in a test takes longer, unless it hangs.
pub const SOON: Duration = Duration::from_secs(60);

pub const WORKER: &[&str] = &["--runner", "uds"];
pub const IN_PROCESS: &[&str] = &["--runner", "in-process"];

/// The program, which may be running.
pub struct Gateway {
    child: Child,
    /// Its stdin and stdout, as some clients give it: both ends of it go at once with [`Gateway::vanish`].
    stdio: UnixStream,
    lines: Receiver<Value>,
    next_id: u64,
    /// What came while something else was waited for.
    pub told: Vec<Value>,
}

/// Where it runs: a workspace with a registry.
pub struct Place {
    pub ground: Ground,
    pub config: PathBuf,
    helper: PathBuf,
}

impl Place {
    /// `None` is a skip, which has been told.
    pub fn new() -> Option<Self> {
        let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
        programs::built("codespace-runner", "codespace-runner", None);
        let ground = Ground::new();
        let config = ground.private().join("registry.json");
        let registry = json!({"workspaces": {WORKSPACE: {"root": ground.workspace(), "max_processes": 600}}});
        std::fs::write(&config, registry.to_string()).expect("to write the registry");
        Some(Self { ground, config, helper })
    }

    /// Starts one with these flags and the registry, not greeted yet.
    pub fn start(&mut self, flags: &[&str]) -> Gateway {
        self.start_with(flags, Stdio::null())
    }

    /// The same; what it logs goes to `stderr`.
    pub fn start_with(&mut self, flags: &[&str], stderr: Stdio) -> Gateway {
        self.start_in(flags, stderr, &[])
    }

    /// The same, with this in its environment.
    pub fn start_in(&mut self, flags: &[&str], stderr: Stdio, environment: &[(&str, &str)]) -> Gateway {
        let config = self.config.to_str().expect("a path");
        let flags = [flags, &["--config", config]].concat();
        let gateway = Gateway::start_in(&flags, &self.ground.workspace(), &self.helper, stderr, environment);
        self.ground.survivors.watch_runner(i32::try_from(gateway.pid()).expect("a pid"));
        gateway
    }

    /// Starts and greets one.
    pub fn greeted(&mut self, flags: &[&str]) -> Gateway {
        self.start(flags).greeted()
    }

    pub fn assert_nothing_is_left(&self, when: &str) {
        self.assert_only(&[], when);
    }

    /// Nothing but these and what is below them.
    pub fn assert_only(&self, explained: &[i32], when: &str) {
        let left = self.ground.survivors.wait_until_nothing_is_left(explained, Duration::from_secs(2));
        assert!(left.is_empty(), "{when}: left behind: {left:#?}");
    }
}

impl Gateway {
    /// Starts one, not greeted yet.
    pub fn start(flags: &[&str], directory: &Path, helper: &Path) -> Self {
        Self::start_in(flags, directory, helper, Stdio::null(), &[])
    }

    /// The same; what it logs goes to `stderr`, and this is in its environment.
    #[expect(clippy::disallowed_methods, reason = "the gateway itself; it ends with this fixture")]
    pub fn start_in(
        flags: &[&str],
        directory: &Path,
        helper: &Path,
        stderr: Stdio,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(programs::built("codespace-mcp", "codespace-server", None));
        command.args(flags).env("CODESPACE_LINUX_SANDBOX_BIN", helper).current_dir(directory);
        command.envs(environment.iter().copied());
        let (stdio, its) = UnixStream::pair().expect("a pair of sockets");
        let same = its.try_clone().expect("a copy");
        command.stdin(OwnedFd::from(its)).stdout(OwnedFd::from(same)).stderr(stderr);
        let child = command.spawn().expect("to start codespace-mcp");
        // Ours of its ends, or we would never see that it has closed them.
        drop(command);
        let (sender, lines) = channel();
        let output = BufReader::new(stdio.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line).expect("a line of JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { child, stdio, lines, next_id: 1, told: Vec::new() }
    }

    /// Greets it.
    pub fn greeted(mut self) -> Self {
        let client = json!({"name": "test", "version": "0"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let init = self.call("initialize", &hello);
        assert_eq!(init["result"]["protocolVersion"], "2025-06-18", "{init}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    /// A line as it stands.
    pub fn send_line(&mut self, line: &[u8]) {
        self.send_bytes(line);
        self.send_bytes(b"\n");
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdio.write_all(bytes).expect("to write to codespace-mcp");
    }

    /// Closes its stdin and returns all that it still says.
    pub fn rest(self) -> Vec<Value> {
        self.stdio.shutdown(Shutdown::Write).expect("to close its stdin");
        self.lines.iter().collect()
    }

    /// Sends a request; its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Waits for the answer to `id`, which may have come already.
    pub fn answer(&mut self, id: u64) -> Value {
        if let Some(at) = self.told.iter().position(|message| message["id"] == json!(id)) {
            return self.told.remove(at);
        }
        loop {
            let message = self.lines.recv_timeout(SOON).expect("an answer in time");
            if message["id"] == json!(id) {
                return message;
            }
            self.told.push(message);
        }
    }

    /// The next message that comes.
    pub fn next_answer(&mut self) -> Value {
        self.lines.recv_timeout(SOON).expect("an answer in time")
    }

    /// Calls a tool; the whole result.
    pub fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.call("tools/call", &json!({"name": name, "arguments": arguments}));
        assert!(answer.get("error").is_none(), "{name}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool that is to succeed; its structured result.
    pub fn done(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.tool(name, arguments);
        assert_ne!(result["isError"], true, "{name}: {result}");
        result["structuredContent"].clone()
    }

    /// Waits until the output of a process has `text`.
    pub fn wait_for_output(&mut self, process_id: &Value, text: &str) {
        let mut cursor = json!(0);
        let mut seen = String::new();
        while !seen.contains(text) {
            let read = json!({"process_id": process_id, "cursor": cursor, "wait_ms": 10_000});
            let read = self.done("read_process", &read);
            seen.push_str(read["chunk"].as_str().expect("a chunk"));
            assert!(read["eof"] == false || seen.contains(text), "{seen:?} has no {text:?}");
            cursor = read["cursor"].clone();
        }
    }

    /// Closes its stdin, as a client does that leaves, and waits for its end.
    pub fn leave(mut self) -> std::process::ExitStatus {
        self.stdio.shutdown(Shutdown::Write).expect("to close its stdin");
        self.child.wait().expect("its end")
    }

    /// What it sees of a client that was killed: both its stdin and its stdout are gone. Waits for its end.
    pub fn vanish(mut self) -> std::process::ExitStatus {
        self.stdio.shutdown(Shutdown::Both).expect("to close its stdio");
        self.child.wait().expect("its end")
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("its end")
    }

    /// The same, where its end may not come.
    pub fn vanish_within(mut self, time: Duration) -> std::process::ExitStatus {
        self.stdio.shutdown(Shutdown::Both).expect("to close its stdio");
        let until = Instant::now() + time;
        loop {
            if let Some(status) = self.child.try_wait().expect("to look at it") {
                return status;
            }
            assert!(Instant::now() < until, "it has not ended within {time:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// False once it has ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("to look at it").is_none()
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.child.kill().expect("to end codespace-mcp");
        self.child.wait().expect("its end");
    }
}

/// Also where a test fails, and over HTTP, where the end of its stdin says nothing to it.
impl Drop for Gateway {
    fn drop(&mut self) {
        // One that has ended is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
