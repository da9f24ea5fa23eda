//! Peers that mean harm, or do not know what they do, over HTTP: each gets a clear answer or is cut off, and the server
//! goes on with what it had before.
#![cfg(target_os = "linux")]

mod gateway;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use codespace_testkit::fixture::WORKSPACE;
use gateway::SOON;
use gateway::http::{Server, TOKEN, call, raw};
use serde_json::{Value, json};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a deadline");
    stream
}

fn assert_it_works(server: &Server) {
    let body = call(7, "exec_command", &json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "exit 5"]}));
    let done = server.raw(&server.call_head("exec_command"), body.to_string().as_bytes()).message(7);
    assert_eq!(done["result"]["structuredContent"]["status"]["exit_code"], 5, "{done}");
}

#[test]
fn what_is_no_request_is_refused_in_words() {
    let Some(server) = Server::start(&[]) else { return };
    let deep = "[".repeat(100_000);
    let deep_member = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}{}}}"#, "]".repeat(100_000));
    let bodies: [&[u8]; 14] = [
        b"",
        b"{",
        b"null",
        b"7",
        b"\"x\"",
        b"[]",
        b"{}",
        deep.as_bytes(),
        deep_member.as_bytes(),
        b"\xff\xfe\x00",
        br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#,
        br#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec_command","arguments":[1]}}"#,
    ];
    let session = server.greeted();
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        for session in [None, Some(session.as_str())] {
            let answer = server.raw(&server.post_head(session), body);
            let is_refused = (400..500).contains(&answer.status) || answer.body.contains("\"error\"");
            assert!(is_refused && answer.body.len() > 10, "{shown}: {answer:?}");
        }
    }
    let cut = server.raw(&server.post_head(None), b"{\"jsonrpc\": \"2.0\",\n \"secret\": x}");
    let error = &serde_json::from_str::<Value>(&cut.body).expect("JSON")["error"];
    assert_eq!((cut.status, &error["code"]), (400, &json!(-32700)), "{cut:?}");
    assert!(
        error["message"].as_str().is_some_and(|words| words.contains("line 2") && !words.contains("secret")),
        "{cut:?}"
    );
    for session in ["no-such-session", "", "../../etc/passwd"] {
        let answer = server.post(Some(session), &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
        assert!((400..500).contains(&answer.status), "{session:?}: {answer:?}");
    }
    assert_it_works(&server);
}

#[test]
fn a_name_that_was_made_to_point_here_opens_nothing_in_whatever_form() {
    let Some(server) = Server::start(&[]) else { return };
    let (port, host) = (server.port, server.host());
    let heads = [
        format!("GET /metrics HTTP/1.1\r\nHost: rebound.example:{port}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nHost: rebound.example:{port}\r\n"),
        format!("GET http://rebound.example/metrics HTTP/1.1\r\nHost: {host}\r\n"),
        format!("GET http://{host}/metrics HTTP/1.1\r\nHost: rebound.example\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.rebound.example:{port}\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nHost: rebound.example\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nOrigin: http://rebound.example:{port}\r\n"),
        format!("OPTIONS /mcp HTTP/1.1\r\nHost: {host}\r\nOrigin: http://rebound.example:{port}\r\n"),
        "GET /metrics HTTP/1.1\r\n".to_owned(),
        "GET /metrics HTTP/1.0\r\n".to_owned(),
    ];
    for head in heads {
        let answer = server.raw(&format!("{head}Authorization: Bearer {TOKEN}\r\n"), b"");
        assert!([400, 403].contains(&answer.status), "{head}: {answer:?}");
        assert!(!answer.head.contains("access-control-allow-origin"), "{head}: {answer:?}");
    }
    assert_it_works(&server);
}

#[test]
fn two_lengths_for_one_body_are_never_two_requests() {
    let Some(server) = Server::start(&[]) else { return };
    let hidden = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n", server.host());
    for lengths in [
        format!("Content-Length: {}\r\nContent-Length: 5\r\n", hidden.len()),
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".to_owned(),
        "Transfer-Encoding: identity, chunked, x\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
    ] {
        let mut stream = connect(&server);
        write!(stream, "{}{lengths}\r\n0\r\n\r\n{hidden}", server.post_head(None)).expect("to send");
        stream.shutdown(std::net::Shutdown::Write).expect("to end it");
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).ok();
        let answers = String::from_utf8_lossy(&answers);
        let refused = answers.starts_with("HTTP/1.1 400");
        assert!(refused || !answers.contains("codespace_starts_total"), "{lengths}: {answers}");
    }
    assert_it_works(&server);
}

#[test]
fn who_sends_a_head_byte_by_byte_or_nothing_at_all_is_cut_off_and_keeps_nobody_out() {
    let Some(server) = Server::start(&[]) else { return };
    let mut slow: Vec<TcpStream> = (0..200).map(|_| connect(&server)).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        if n % 2 == 0 {
            write!(stream, "POST /mcp HTTP/1.1\r\nHost: {}\r\nX-Slow: ", server.host()).expect("to send");
        }
    }
    assert_it_works(&server);
    // One byte more now and then is no progress.
    let until = Instant::now() + SOON;
    let mut open: Vec<usize> = (0..slow.len()).collect();
    while !open.is_empty() {
        assert!(Instant::now() < until, "{} of them are still connected", open.len());
        std::thread::sleep(Duration::from_millis(200));
        open.retain(|n| {
            let stream = &mut slow[*n];
            if n % 2 == 0 {
                stream.write_all(b"x").ok();
            }
            stream.set_nonblocking(true).expect("to set it");
            let mut answer = [0; 512];
            !matches!(stream.read(&mut answer), Ok(0))
                && !stream.read(&mut answer).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        });
    }
    assert_it_works(&server);
}

#[test]
fn more_sessions_than_there_are_places_are_refused_until_one_is_closed() {
    let Some(server) = Server::start(&[]) else { return };
    let sessions: Vec<String> = (0..256).map(|_| server.greeted()).collect();
    let client = json!({"name": "test", "version": "0"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    let refused = server.post(None, &hello);
    assert!(refused.status == 503 && refused.body.contains("too many sessions"), "{refused:?}");
    // Who needs none is served.
    assert_it_works(&server);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(server.post(Some(&sessions[7]), &ping).message(2)["result"], json!({}));
    assert!(server.close(&sessions[0]).status < 300);
    let until = Instant::now() + SOON;
    while server.post(None, &hello).status != 200 {
        assert!(Instant::now() < until, "its place is not free");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ten_thousand_requests_good_and_bad_leave_nothing_behind() {
    let Some(server) = Server::start(&[]) else { return };
    let pid = server.gateway.pid();
    let session = server.greeted();
    // Each has an id of its own: a client that uses one twice at a time cannot tell which answer is whose.
    let ids = AtomicU64::new(100);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}).to_string();
    let info = call(7, "workspace_info", &json!({})).to_string();
    let (host, in_session) = (server.host(), server.post_head(Some(&session)));
    let wrong = in_session.replace(TOKEN, "wrong");
    let foreign = in_session.replace(&host, "rebound.example");
    // The head, the body, and what the answer begins with.
    let kinds = [
        (server.call_head("workspace_info"), info.as_str(), "HTTP/1.1 200"),
        (in_session.clone(), list.as_str(), "HTTP/1.1 200"),
        (wrong, list.as_str(), "HTTP/1.1 401"),
        (foreign, list.as_str(), "HTTP/1.1 403"),
        (in_session, "{", "HTTP/1.1 4"),
        (format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"), "", "HTTP/1.1 404"),
    ];
    let round = |requests: usize| {
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (port, kinds, ids) = (server.port, &kinds, &ids);
                scope.spawn(move || {
                    for n in 0..requests / 4 {
                        let (head, body, expected) = &kinds[(n + worker) % kinds.len()];
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let answer = raw(port, head, body.replace("\"id\":7", &format!("\"id\":{id}")).as_bytes());
                        assert!(answer.head.starts_with(&expected.to_ascii_lowercase()), "{head}: {answer:?}");
                    }
                });
            }
        });
    };
    // After the first ones it has what it will keep.
    round(2000);
    let before = (descriptors(pid), resident_kib(pid));
    round(8000);
    let until = Instant::now() + SOON;
    while descriptors(pid) > before.0 {
        assert!(Instant::now() < until, "{} descriptors, {} before", descriptors(pid), before.0);
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = resident_kib(pid);
    assert!(after < before.1 + 16 * 1024, "{after} KiB, {} before", before.1);
    assert_it_works(&server);
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").count()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
