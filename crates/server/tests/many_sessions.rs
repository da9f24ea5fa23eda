//! Many clients at once, each with processes of its own.
#![cfg(target_os = "linux")]

mod gateway;

use std::thread;

use codespace_testkit::fixture::WORKSPACE;
use gateway::http::{Server, TOKEN, raw};
use serde_json::{Value, json};

const SESSIONS: usize = 50;
const PROCESSES: usize = 10;

#[test]
fn fifty_sessions_run_ten_processes_each_and_see_their_own_output() {
    let Some(server) = Server::start(&[]) else { return };
    let sessions: Vec<String> = (0..SESSIONS).map(|_| server.greeted()).collect();
    let heads: Vec<String> = sessions.iter().map(|session| server.post_head(Some(session))).collect();
    let port = server.port;

    // All at once; every second one dies with its session.
    let started: Vec<Vec<Value>> = thread::scope(|scope| {
        let run = |n: usize, head| {
            scope.spawn(move || {
                let lifetime = ["connection", "workspace"][n % 2];
                (0..PROCESSES)
                    .map(|process| start(port, head, &format!("session {n} process {process}"), lifetime))
                    .collect()
            })
        };
        let threads: Vec<_> = heads.iter().enumerate().map(|(n, head)| run(n, head)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a session")).collect()
    });
    let mut ids: Vec<&str> = started.iter().flatten().filter_map(Value::as_str).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), SESSIONS * PROCESSES);
    assert_eq!(server.metric("codespace_live"), ids.len() as u64);

    thread::scope(|scope| {
        for (n, (head, processes)) in heads.iter().zip(&started).enumerate() {
            scope.spawn(move || {
                for (process, id) in processes.iter().enumerate() {
                    let read = call(port, head, "read_process", &json!({"process_id": id, "wait_ms": 60_000}));
                    assert_eq!(read["chunk"], format!("session {n} process {process}\n"), "{read}");
                }
            });
        }
    });
    let half = (SESSIONS * PROCESSES / 2) as u64;
    for session in &sessions {
        assert!(server.close(session).status < 300);
    }
    server.wait_for_metric("codespace_ends_total{ended_by=\"connection\"}", half);
    assert_eq!(server.metric("codespace_live"), half);
    let last = server.greeted();
    let ended = call(port, &server.post_head(Some(&last)), "terminate_workspace", &json!({"workspace_id": WORKSPACE}));
    assert_eq!(ended["ended"], half);
    assert_eq!(server.metric("codespace_unconfirmed_trees_total"), 0);
    server.place.assert_nothing_is_left("after all were ended");
}

/// Starts one that says its name and stays; its id.
fn start(port: u16, head: &str, name: &str, lifetime: &str) -> Value {
    let script = format!("echo {name}; sleep 1000 & exec sleep 1000");
    let arguments =
        json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", script], "wait_ms": 0, "lifetime": lifetime});
    call(port, head, "exec_command", &arguments)["process_id"].take()
}

fn call(port: u16, head: &str, tool: &str, arguments: &Value) -> Value {
    assert!(head.contains(TOKEN));
    let params = json!({"name": tool, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let mut answer = raw(port, head, message.to_string().as_bytes()).message(5);
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["structuredContent"].take()
}
