//! `codespace-mcp` over HTTP: what is refused at the door, and a session behind it.
#![cfg(target_os = "linux")]

mod gateway;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use codespace_testkit::fixture::WORKSPACE;
use gateway::{Gateway, Place, SOON};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A server of a place, which listens.
struct Server {
    port: u16,
    _gateway: Gateway,
    place: Place,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Server {
    fn start() -> Option<Self> {
        let mut place = Place::new()?;
        let token = place.ground.private().join("token");
        std::fs::write(&token, TOKEN).expect("to write the token");
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("to close it");
        // Free at this moment; nobody else here asks for this very one.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let (address, token) = (format!("127.0.0.1:{port}"), token.to_str().expect("a path").to_owned());
        let gateway = place.start(&["--http", &address, "--token-file", &token]);
        let until = Instant::now() + SOON;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "it does not listen");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Some(Self { port, _gateway: gateway, place })
    }

    /// Sends a request as it stands and reads the answer to the end of the connection.
    fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a deadline");
        let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).expect("to send");
        // One that is refused for its size may not be read to its end.
        stream.write_all(body).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{headers}"), b"")
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A message to `/mcp` by somebody who may.
    fn post(&self, session: Option<&str>, message: &Value) -> Answer {
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}",
            self.host()
        );
        self.raw(&head, message.to_string().as_bytes())
    }
}

impl Answer {
    /// The message in it that has this id, whether it came as JSON or as an event.
    fn message(&self, id: u64) -> Value {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: ").or(Some(line)));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message["id"] == json!(id)).unwrap_or_else(|| panic!("no answer to {id}: {self:?}"))
    }
}

#[test]
fn only_who_means_this_server_and_has_its_token_gets_in() {
    let Some(server) = Server::start() else { return };
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
    let Some(server) = Server::start() else { return };
    let client = json!({"name": "test", "version": "0"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let greeted = server.post(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
    assert_eq!(greeted.message(1)["result"]["protocolVersion"], "2025-06-18", "{greeted:?}");
    let session = greeted.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(Some(session), &initialized).status, 202);
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        server.post(Some(session), &message).message(id)["result"]["structuredContent"].clone()
    };
    let quick = call(2, "exec_command", json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "echo hi; exit 3"]}));
    assert_eq!((&quick["status"]["exit_code"], &quick["output"]["chunk"]), (&json!(3), &json!("hi\n")), "{quick}");
    let tied = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "lifetime": "connection", "wait_ms": 0});
    assert_eq!(call(3, "exec_command", tied)["status"]["state"], "running");

    let bearer = format!("Bearer {TOKEN}");
    let head = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nMcp-Session-Id: {session}\r\n",
        server.host()
    );
    assert!(server.raw(&head, b"").status < 300);
    let until = Instant::now() + SOON;
    loop {
        let metrics = server.get("/metrics", &[("Host", &server.host()), ("Authorization", &bearer)]).body;
        if metrics.contains("codespace_ends_total{ended_by=\"connection\"} 1") {
            assert!(metrics.contains("codespace_unconfirmed_trees_total 0"), "{metrics}");
            break;
        }
        assert!(Instant::now() < until, "its end was not counted: {metrics}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.place.assert_nothing_is_left("after the session was closed");
}
