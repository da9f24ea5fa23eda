//! `codespace-mcp` over HTTP: what is refused at the door, and a session behind it.
#![cfg(target_os = "linux")]

mod gateway;

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use codespace_testkit::fixture::WORKSPACE;
use gateway::http::{Server, TOKEN, call, raw};
use gateway::{IN_PROCESS, SOON, WORKER};
use serde_json::{Value, json};

#[test]
fn only_who_means_this_server_and_has_its_token_gets_in() {
    let Some(server) = Server::start(&[]) else { return };
    let host = server.host();
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(server.get("/healthz", &[("Host", &host)]).status, 200);
    let metrics = server.get("/metrics", &[("Host", &host), ("Authorization", &bearer)]);
    assert!(metrics.status == 200 && metrics.body.contains("codespace_starts_total 0"), "{metrics:?}");
    let cases: [(&[(&str, &str)], u16); 7] = [
        (&[("Host", &host)], 401),
        (&[("Host", &host), ("Authorization", "Bearer wrong")], 401),
        (&[("Host", &host), ("Authorization", &bearer), ("Authorization", &bearer)], 401),
        (&[("Host", "evil.example"), ("Authorization", &bearer)], 403),
        (&[("Host", "127.0.0.1:1"), ("Authorization", &bearer)], 403),
        (&[("Host", &host), ("Origin", "https://evil.example"), ("Authorization", &bearer)], 403),
        (&[("Host", &host), ("Origin", "null"), ("Authorization", &bearer)], 403),
    ];
    for (headers, status) in cases {
        for path in ["/metrics", "/mcp"] {
            let answer = server.get(path, headers);
            assert_eq!(answer.status, status, "{path} {headers:?}: {answer:?}");
            assert!(!answer.body.contains(TOKEN), "{answer:?}");
        }
    }
    let evil = server.get("/healthz", &[("Host", "evil.example")]);
    assert_eq!(evil.status, 403, "{evil:?}");
    let large = server.post(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(9 * 1024 * 1024)}));
    assert_eq!(large.status, 413, "{}", large.head);
    assert_eq!(server.get("/healthz", &[("Host", &host)]).status, 200);
}

#[test]
fn a_session_runs_commands_and_takes_its_own_with_it_when_it_is_closed() {
    let Some(server) = Server::start(&[]) else { return };
    let session = server.greeted();
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        server.post(Some(&session), &message).message(id)["result"]["structuredContent"].clone()
    };
    let quick = call(2, "exec_command", json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "echo hi; exit 3"]}));
    assert_eq!((&quick["status"]["exit_code"], &quick["output"]["chunk"]), (&json!(3), &json!("hi\n")), "{quick}");
    let tied = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "lifetime": "connection", "wait_ms": 0});
    assert_eq!(call(3, "exec_command", tied)["status"]["state"], "running");

    assert!(server.close(&session).status < 300);
    server.wait_for_metric("codespace_ends_total{ended_by=\"connection\"}", 1);
    assert_eq!(server.metric("codespace_unconfirmed_trees_total"), 0);
    server.place.assert_nothing_is_left("after the session was closed");
}

#[test]
fn a_request_that_stands_for_itself_ties_no_process_to_a_session_that_it_only_names() {
    let Some(server) = Server::start(&[]) else { return };
    let tied = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "lifetime": "connection", "wait_ms": 0});
    let body = call(1, "exec_command", &tied).to_string();
    for named in ["", "Mcp-Session-Id: made-up\r\n"] {
        let refused = server.raw(&format!("{}{named}", server.call_head("exec_command")), body.as_bytes()).message(1);
        assert_eq!(refused["result"]["structuredContent"]["code"], "INVALID_COMMAND", "{named:?}: {refused}");
    }
    assert_eq!(server.metric("codespace_starts_total"), 0);
}

#[test]
fn a_closed_response_stream_gives_up_the_waiting_and_not_the_process() {
    let Some(server) = Server::start(&[]) else { return };
    let waits = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "wait_ms": 600_000});
    let body = call(1, "exec_command", &waits).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    let head = server.call_head("exec_command");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("to send");
    server.wait_for_metric("codespace_live", 1);
    assert_eq!(server.metric("codespace_calls"), 1);
    drop(stream);
    server.wait_for_metric("codespace_calls", 0);
    assert_eq!(server.metric("codespace_live"), 1);

    let body = call(2, "terminate_workspace", &json!({"workspace_id": WORKSPACE}));
    let ended = server.raw(&server.call_head("terminate_workspace"), body.to_string().as_bytes()).message(2);
    assert_eq!(ended["result"]["structuredContent"]["ended"], 1, "{ended}");
    server.place.assert_nothing_is_left("after its workspace was ended");
}

#[test]
fn a_shutdown_lets_the_calls_that_are_under_way_be_answered_and_then_ends_all() {
    for has_session in [true, false] {
        let Some(mut server) = Server::start(&[]) else { return };
        let endless =
            call(1, "exec_command", &json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "wait_ms": 0}));
        server.raw(&server.call_head("exec_command"), endless.to_string().as_bytes()).message(1);
        let arguments = json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "sleep 1; echo done"]});
        let mut slow = call(2, "exec_command", &arguments);
        let mut head = server.call_head("exec_command");
        if has_session {
            slow["params"].as_object_mut().expect("params").remove("_meta");
            head = server.post_head(Some(&server.greeted()));
        }
        let (port, slow) = (server.port, slow.to_string());
        let answer = thread::scope(|scope| {
            let asked = scope.spawn(|| raw(port, &head, slow.as_bytes()).message(2));
            server.wait_for_metric("codespace_calls", 1);
            codespace_testkit::signal(server.gateway.pid().cast_signed(), 15).expect("to ask it to end");
            asked.join().expect("an answer")
        });
        let result = &answer["result"]["structuredContent"];
        assert_eq!(
            (&result["status"]["exit_code"], &result["output"]["chunk"]),
            (&json!(0), &json!("done\n")),
            "{answer}"
        );
        assert!(server.gateway.ended().success());
        server.place.assert_nothing_is_left("after its end");
    }
}

/// Sends a message of a session and leaves its answer unread.
fn ask(server: &Server, session: &str, id: u64, tool: &str, arguments: &Value) -> TcpStream {
    let params = json!({"name": tool, "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    let head = server.post_head(Some(session));
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("to send");
    stream
}

#[test]
fn a_session_that_is_closed_with_calls_under_way_ends_at_once_with_what_is_its_own() {
    for flags in [IN_PROCESS, WORKER] {
        let Some(server) = Server::start(flags) else { return };
        let sleep = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "wait_ms": 0});
        let other =
            server.raw(&server.call_head("exec_command"), call(1, "exec_command", &sleep).to_string().as_bytes());
        let other = &other.message(1)["result"]["structuredContent"]["process_id"];

        // The first call of the session makes its way to the Runner, and waits; the next ones find it.
        let session = server.greeted();
        let waits = json!({"process_id": other, "wait_ms": 600_000});
        let first = ask(&server, &session, 2, "process_status", &waits);
        server.wait_for_metric("codespace_calls", 1);
        let tied = json!({
            "workspace_id": WORKSPACE, "command": ["sleep", "1000"], "lifetime": "connection", "wait_ms": 600_000
        });
        let second = ask(&server, &session, 3, "exec_command", &tied);
        server.wait_for_metric("codespace_live", 2);
        let closed = Instant::now();
        assert!(server.close(&session).status < 300);
        server.wait_for_metric("codespace_ends_total{ended_by=\"connection\"}", 1);
        let took = closed.elapsed();
        assert!(took < Duration::from_secs(3), "{flags:?}: it ended {took:?} after its session");
        assert_eq!(server.metric("codespace_calls"), 0, "{flags:?}");
        drop((first, second));
    }
}

#[test]
fn calls_that_were_given_up_keep_no_way_to_the_runner_open() {
    let Some(server) = Server::start(WORKER) else { return };
    let sleep = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "wait_ms": 0});
    let started = server.raw(&server.call_head("exec_command"), call(1, "exec_command", &sleep).to_string().as_bytes());
    let id = &started.message(1)["result"]["structuredContent"]["process_id"];
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.gateway.pid())).expect("its own").count();
    let before = descriptors();
    let body = call(2, "process_status", &json!({"process_id": id, "wait_ms": 600_000})).to_string();
    let waiting: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
            let head = server.call_head("process_status");
            write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("to send");
            stream
        })
        .collect();
    server.wait_for_metric("codespace_calls", 20);
    drop(waiting);
    let until = Instant::now() + SOON;
    while descriptors() > before {
        assert!(Instant::now() < until, "{} descriptors, {before} before", descriptors());
        std::thread::sleep(Duration::from_millis(10));
    }
}
