//! What is no request, over stdio: each line is answered or dropped, and the conversation goes on.
#![cfg(target_os = "linux")]

mod gateway;

use codespace_testkit::fixture::WORKSPACE;
use gateway::{IN_PROCESS, Place, WORKER};
use serde_json::{Value, json};

#[test]
fn lines_that_are_no_requests_do_not_end_the_conversation() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}", "[".repeat(100_000));
    let lines: [&[u8]; 12] = [
        b"",
        b"\r",
        b"{",
        b"null",
        b"[]",
        b"\"x\"",
        b"\xff\xfe\x00",
        deep.as_bytes(),
        br#"{"jsonrpc":"2.0"}"#,
        br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nothing"}}"#,
    ];
    for line in lines {
        mcp.send_line(line);
        let pong = mcp.call("ping", &json!({}));
        assert_eq!(pong["result"], json!({}), "after {}: {pong}", String::from_utf8_lossy(&line[..line.len().min(80)]));
    }
    let unknown = mcp.call("no/such", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert!(mcp.leave().success());
}

#[test]
fn a_line_without_end_is_dropped_and_costs_no_memory() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..256 {
        mcp.send_bytes(&chunk);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", mcp.pid())).expect("its status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 128 * 1024, "{peak} KiB");
    mcp.send_line(b"");
    let done = mcp.done("exec_command", &json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "exit 3"]}));
    assert_eq!(done["status"]["exit_code"], 3, "{done}");
}

#[test]
fn nothing_is_done_for_whoever_has_not_said_hello() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.start(IN_PROCESS);
    let arguments = json!({"workspace_id": WORKSPACE, "command": ["touch", "done"]});
    mcp.ask("tools/call", &json!({"name": "exec_command", "arguments": arguments}));
    let told: Vec<Value> = mcp.rest();
    assert!(told.iter().all(|told| told.get("result").is_none()), "{told:?}");
    assert_eq!(place.ground.files("done"), Vec::<String>::new());
}

#[test]
fn waits_that_were_given_up_do_not_keep_a_session_from_its_runner() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(WORKER);
    let start = json!({"workspace_id": WORKSPACE, "command": ["sleep", "1000"], "wait_ms": 0});
    let id = mcp.done("exec_command", &start)["process_id"].take();
    // More in all than may be pending on a connection to a Runner, for longer than any test takes.
    for round in 0..6 {
        let tool = if round % 2 == 0 { "process_status" } else { "read_process" };
        let arguments = json!({"process_id": id, "wait_ms": 600_000});
        let calls: Vec<_> =
            (0..200).map(|_| mcp.ask("tools/call", &json!({"name": tool, "arguments": arguments}))).collect();
        mcp.tool("list_processes", &json!({}));
        for call in calls {
            mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}));
        }
        mcp.tool("list_processes", &json!({}));
    }
    assert_eq!(mcp.done("terminate_process", &json!({"process_id": id}))["state"], "exited");
    assert!(mcp.leave().success());
}
