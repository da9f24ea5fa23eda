//! What the gateway costs: a tool call that runs `true`, beside the same through the Runner's socket. All ways take turns
//! in one run, since machines are noisy. Prints the median and the 95th percentile of each.
//!
//! ```text
//! cargo build --release --workspace --bins && cargo bench -p codespace-server --bench tool_calls [-- ROUNDS]
//! ```
#![expect(clippy::print_stdout, reason = "the result")]

#[path = "../tests/gateway/mod.rs"]
mod gateway;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use codespace_runner::Runner as _;
use codespace_runner::domain::ExecRequest;
use codespace_runner::uds::UdsClient;
use codespace_testkit::fixture::ask;
use codespace_testkit::programs;
use gateway::http::{Server, call};
use gateway::{Gateway, IN_PROCESS, Place};
use serde_json::{Value, json};

const SANDBOXED: &str = "w";
const PLAIN: &str = "plain";

/// A way to run `true` in a workspace, and its name.
type Way<'a> = (&'a str, &'a mut dyn FnMut(&str));

/// Ends with this program's life, or before.
struct Independent(Child);

impl Independent {
    #[expect(clippy::disallowed_methods, reason = "the Runner itself; it ends with this program")]
    fn start(config: &Path, socket: &Path) -> Self {
        let mut command = Command::new(programs::built("codespace-runner", "codespace-runner", None));
        command.args(["serve", "--until-stdin-closes", "--config"]).arg(config).arg("--socket").arg(socket);
        Self(command.stdin(Stdio::piped()).spawn().expect("to start codespace-runner"))
    }
}

impl Drop for Independent {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(200);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");

    let Some(mut server) = Server::start_with(&[], two_workspaces) else { return };
    let config = server.place.config.clone();
    let socket: PathBuf = server.place.ground.private().join("independent/runner.sock");
    let _runner = Independent::start(&config, &socket);
    let client = runtime.block_on(async {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match UdsClient::connect(&socket, ask::client()).await {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut in_process = server.place.greeted(IN_PROCESS);
    let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
    let flags = ["--runner-socket", socket.to_str().expect("a path")];
    let mut independent = Gateway::start(&flags, &server.place.ground.workspace(), &helper).greeted();

    let mut by_socket = |workspace: &str| {
        let request = ExecRequest { wait_ms: 10_000, ..ExecRequest::new(workspace.parse().expect("an id"), ["true"]) };
        let reply = runtime.block_on(client.exec(request)).expect("an answer");
        assert_eq!(reply.status.expect("a status").exit_code, Some(0));
    };
    let arguments = |workspace: &str| json!({"workspace_id": workspace, "command": ["true"]});
    let mut stdio_in_process = |workspace: &str| ended(&in_process.done("exec_command", &arguments(workspace)));
    let mut stdio_independent = |workspace: &str| ended(&independent.done("exec_command", &arguments(workspace)));
    let mut http = |workspace: &str| {
        let body = call(1, "exec_command", &arguments(workspace)).to_string();
        let answer = server.raw(&server.call_head("exec_command"), body.as_bytes()).message(1);
        ended(&answer["result"]["structuredContent"]);
    };
    let mut ways: [Way<'_>; 4] = [
        ("socket", &mut by_socket),
        ("stdio, independent Runner", &mut stdio_independent),
        ("stdio, Runner in process", &mut stdio_in_process),
        ("HTTP, Runner in process", &mut http),
    ];
    let mut times = vec![[Vec::new(), Vec::new()]; ways.len()];
    for round in 0..rounds + 10 {
        for (way, (_, call)) in ways.iter_mut().enumerate() {
            for (which, workspace) in [PLAIN, SANDBOXED].into_iter().enumerate() {
                let began = Instant::now();
                call(workspace);
                // The first ones warm up.
                if round >= 10 {
                    times[way][which].push(began.elapsed());
                }
            }
        }
    }
    println!("milliseconds of {rounds} calls each, in turns      unsandboxed       sandboxed");
    println!("                                                   p50     p95     p50     p95");
    for ((name, _), [plain, sandboxed]) in ways.iter().zip(&mut times) {
        plain.sort();
        sandboxed.sort();
        let [a, b, c, d] =
            [(&*plain, 50), (plain, 95), (&*sandboxed, 50), (sandboxed, 95)].map(|(all, p)| percentile(all, p));
        println!("{name:<46}{a:>8.2}{b:>8.2}{c:>8.2}{d:>8.2}");
    }
}

fn two_workspaces(place: &Place) {
    let workspace = place.ground.workspace();
    let registry = json!({"workspaces": {
        SANDBOXED: {"root": workspace, "max_processes": 600},
        PLAIN: {"root": workspace, "sandbox": "none", "max_processes": 600},
    }});
    std::fs::write(&place.config, registry.to_string()).expect("to write the registry");
}

fn ended(result: &Value) {
    assert_eq!(result["status"]["exit_code"], 0, "{result}");
}

/// Of sorted times, in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)].as_secs_f64() * 1000.0
}
