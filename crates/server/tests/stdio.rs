//! `codespace-mcp` over stdio: every tool, cancelled calls, progress, resources, and what is left of it.
#![cfg(target_os = "linux")]

mod gateway;

use std::time::{Duration, Instant};

use codespace_testkit::fixture::{RunnerProcess, WORKSPACE};
use codespace_testkit::programs;
use gateway::{Gateway, IN_PROCESS, Place, WORKER};
use serde_json::{Value, json};

fn shell(script: &str) -> Value {
    json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", script]})
}

fn with(mut value: Value, more: Value) -> Value {
    for (key, member) in more.as_object().expect("an object") {
        value[key] = member.clone();
    }
    value
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("words")
}

#[test]
fn every_tool_does_what_its_name_says_in_front_of_either_runner() {
    for flags in [IN_PROCESS, WORKER] {
        let Some(mut place) = Place::new() else { return };
        let mut mcp = place.greeted(flags);
        let listed = mcp.call("tools/list", &json!({}))["result"]["tools"].take();
        let names: Vec<&str> = listed.as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
        assert_eq!(names.len(), 11, "{names:?}");

        let info = mcp.done("workspace_info", &json!({}));
        assert_eq!(info["workspaces"][WORKSPACE]["execution"]["sandbox"], "bubblewrap", "{info}");
        let short = mcp.tool("exec_command", &shell("echo out; echo err >&2; exit 3"));
        let done = &short["structuredContent"];
        assert_eq!((&done["status"]["exit_code"], &done["output"]["eof"]), (&json!(3), &json!(true)), "{short}");
        assert_eq!(done["status"]["tree"]["confirmed"], true);
        assert!(["exited with code 3", "out\n", "err\n"].iter().all(|words| text(&short).contains(words)), "{short}");

        let cat = with(shell("cat"), json!({"stdin": "pipe", "wait_ms": 0}));
        let id = mcp.done("exec_command", &cat)["process_id"].take();
        assert_eq!(mcp.done("write_stdin", &json!({"process_id": id, "data": "line\n"}))["written"], 5);
        mcp.wait_for_output(&id, "line");
        mcp.done("close_stdin", &json!({"process_id": id}));
        assert_eq!(mcp.done("process_status", &json!({"process_id": id, "wait_ms": 10_000}))["exit_code"], 0);

        let tty = with(
            shell("trap 'echo stopped; exit 4' INT; echo ready; while :; do sleep 0.1; done"),
            json!({"tty": true, "wait_ms": 0}),
        );
        let id = mcp.done("exec_command", &tty)["process_id"].take();
        mcp.wait_for_output(&id, "ready");
        let size = mcp.done("process_resize", &json!({"process_id": id, "rows": 40, "cols": 100}));
        assert_eq!(size, json!({"rows": 40, "cols": 100}));
        mcp.done("write_stdin", &json!({"process_id": id, "data": "\u{3}"}));
        assert_eq!(mcp.done("process_status", &json!({"process_id": id, "wait_ms": 10_000}))["exit_code"], 4);

        let endless =
            with(shell("trap 'echo usr' USR1; echo ready; while :; do sleep 0.1; done"), json!({"wait_ms": 0}));
        let id = mcp.done("exec_command", &endless)["process_id"].take();
        mcp.wait_for_output(&id, "ready");
        mcp.done("signal_process", &json!({"process_id": id, "signal": "USR1"}));
        mcp.wait_for_output(&id, "usr");
        let running = mcp.done("list_processes", &json!({"state": "running"}));
        assert_eq!(running["processes"].as_array().map(Vec::len), Some(1), "{running}");
        let ended = mcp.done("terminate_process", &json!({"process_id": id}));
        assert_eq!((&ended["ended_by"], &ended["tree"]["confirmed"]), (&json!("terminate"), &json!(true)));
        mcp.done("exec_command", &with(shell("setsid sleep 1000 & sleep 1000"), json!({"wait_ms": 0})));
        let ended = mcp.done("terminate_workspace", &json!({"workspace_id": WORKSPACE}));
        assert_eq!(ended["ended"], 1, "{ended}");
        assert!(mcp.leave().success());
        place.assert_nothing_is_left("after the client left");
    }
}

#[test]
fn a_long_output_has_its_head_and_tail_in_the_result_and_the_rest_by_cursor() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let result = mcp.tool("exec_command", &shell("seq 1 20000"));
    let (head, tail) = (&result["structuredContent"]["output"], &result["structuredContent"]["output_tail"]);
    assert!(head["chunk"].as_str().is_some_and(|chunk| chunk.starts_with("1\n2\n")), "{head}");
    assert!(tail["chunk"].as_str().is_some_and(|chunk| chunk.ends_with("\n20000\n")), "{tail}");
    let words = text(&result);
    let hint = format!("read_process with cursor {}", head["cursor"]);
    assert!(words.contains("are left out here") && words.contains(&hint), "{words}");

    let id = &result["structuredContent"]["process_id"];
    let (mut whole, mut cursor) = (String::new(), json!(0));
    loop {
        let read = mcp.done("read_process", &json!({"process_id": id, "cursor": cursor}));
        whole.push_str(read["chunk"].as_str().expect("a chunk"));
        cursor = read["cursor"].clone();
        if read["eof"] == true {
            break;
        }
    }
    assert_eq!(whole, (1..=20_000).map(|n| format!("{n}\n")).collect::<String>());
}

#[test]
fn whatever_is_wrong_is_a_result_that_says_code_message_and_hint() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let cases = [
        ("exec_command", json!({"workspace_id": "nobody", "command": ["true"]}), "WORKSPACE_NOT_FOUND"),
        ("exec_command", json!({"workspace_id": WORKSPACE}), "INVALID_COMMAND"),
        ("exec_command", json!({"workspace_id": WORKSPACE, "command": ["true"], "shell": true}), "INVALID_COMMAND"),
        ("exec_command", json!({"workspace_id": WORKSPACE, "command": ["no-such-program"]}), "PROCESS_SPAWN_FAILED"),
        ("read_process", json!({"process_id": "proc-00000000-0000-4000-8000-000000000000"}), "PROCESS_NOT_FOUND"),
        ("process_status", json!({"process_id": "7"}), "INVALID_COMMAND"),
    ];
    for (tool, arguments, code) in cases {
        let result = mcp.tool(tool, &arguments);
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["code"]),
            (&json!(true), &json!(code)),
            "{result}"
        );
        assert!(text(&result).starts_with(code), "{result}");
    }
    let unknown = mcp.call("tools/call", &json!({"name": "stop", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().is_some_and(|words| words.contains("stop")), "{unknown}");
}

#[test]
fn a_cancelled_call_gives_up_the_waiting_and_not_the_process() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let waits = with(shell("exec sleep 1000"), json!({"wait_ms": 600_000, "process_key": "kept"}));
    let id =
        mcp.ask("tools/call", &json!({"name": "exec_command", "arguments": waits, "_meta": {"progressToken": "p"}}));
    // It runs, and its client is told so.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !mcp.told.iter().any(|told| told["method"] == "notifications/progress") {
        assert!(Instant::now() < deadline, "no progress: {:?}", mcp.told);
        mcp.done("list_processes", &json!({}));
        std::thread::sleep(Duration::from_millis(50));
    }
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let running = mcp.done("list_processes", &json!({"state": "running"}));
    assert_eq!(running["processes"][0]["process_key"], "kept", "{running}");
    // A retry finds it again.
    let again = mcp.ask("tools/call", &json!({"name": "exec_command", "arguments": waits}));
    mcp.done("terminate_process", &json!({"workspace_id": WORKSPACE, "process_key": "kept"}));
    let again = mcp.answer(again)["result"]["structuredContent"].take();
    assert_eq!(again["process_id"], running["processes"][0]["process_id"], "{again}");
    assert_eq!(again["status"]["ended_by"], "terminate", "{again}");
    assert!(mcp.leave().success());
    place.assert_nothing_is_left("after the client left");
}

#[test]
fn more_calls_than_may_wait_are_refused_and_an_end_is_not() {
    for flags in [IN_PROCESS, WORKER] {
        let Some(mut place) = Place::new() else { return };
        let mut mcp = place.greeted(flags);
        let id = mcp.done("exec_command", &with(shell("exec sleep 1000"), json!({"wait_ms": 0})))["process_id"].take();
        let wait = json!({"name": "process_status", "arguments": {"process_id": id, "wait_ms": 600_000}});
        // One more than there are places, whichever of them that is.
        let waiting: Vec<u64> = (0..257).map(|_| mcp.ask("tools/call", &wait)).collect();
        let refused = mcp.next_answer();
        assert_eq!(refused["result"]["structuredContent"]["code"], "RESOURCE_UNAVAILABLE", "{refused}");
        let ended = mcp.done("terminate_process", &json!({"process_id": id}));
        assert_eq!(ended["ended_by"], "terminate", "{flags:?}: {ended}");
        for id in waiting.into_iter().filter(|id| refused["id"] != json!(id)) {
            assert_eq!(mcp.answer(id)["result"]["structuredContent"]["state"], "exited");
        }
        assert_eq!(mcp.done("process_status", &json!({"process_id": id}))["state"], "exited");
    }
}

#[test]
fn a_process_is_a_resource_and_a_subscriber_is_told_when_it_changes() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.greeted(IN_PROCESS);
    let cat = with(shell("cat"), json!({"stdin": "pipe", "wait_ms": 0}));
    let id = mcp.done("exec_command", &cat)["process_id"].take();
    let uri = format!("process://{}/output", id.as_str().expect("an id"));
    let listed = mcp.call("resources/list", &json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], uri, "{listed}");
    assert!(mcp.call("resources/subscribe", &json!({"uri": uri})).get("error").is_none());
    mcp.done("write_stdin", &json!({"process_id": id, "data": "written\n"}));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !mcp.told.iter().any(|told| told["method"] == "notifications/resources/updated") {
        assert!(Instant::now() < deadline, "not told: {:?}", mcp.told);
        mcp.call("ping", &json!({}));
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = mcp.call("resources/read", &json!({"uri": uri}));
    assert_eq!(read["result"]["contents"][0]["text"], "written\n", "{read}");
    let none = mcp.call("resources/read", &json!({"uri": "process://x/output"}));
    assert!(none.get("error").is_some(), "{none}");
}

#[test]
fn a_client_that_only_listens_is_told_of_changes_and_leaves_without_a_wait() {
    let Some(mut place) = Place::new() else { return };
    let mut mcp = place.start(IN_PROCESS);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let cat = with(shell("cat"), json!({"stdin": "pipe", "wait_ms": 0}));
    let started = mcp.call("tools/call", &json!({"name": "exec_command", "arguments": cat, "_meta": meta}));
    let id = &started["result"]["structuredContent"]["process_id"];
    let uri = format!("process://{}/output", id.as_str().expect("an id"));
    let listen = json!({"notifications": {"resourceSubscriptions": [uri]}, "_meta": meta});
    let listening = mcp.ask("subscriptions/listen", &listen);
    let write = json!({"name": "write_stdin", "arguments": {"process_id": id, "data": "x"}, "_meta": meta});
    let deadline = Instant::now() + Duration::from_secs(30);
    while !mcp.told.iter().any(|told| told["method"] == "notifications/resources/updated") {
        assert!(Instant::now() < deadline, "not told: {:?}", mcp.told);
        mcp.call("tools/call", &write);
        std::thread::sleep(Duration::from_millis(50));
    }
    // Its end is an answer, where a listener that was given up has none.
    let rest = mcp.rest();
    assert!(rest.iter().any(|told| told["id"] == json!(listening) && told.get("result").is_some()), "{rest:?}");
}

#[test]
fn a_gateway_that_is_killed_leaves_nothing_of_its_own() {
    for flags in [IN_PROCESS, WORKER] {
        let Some(mut place) = Place::new() else { return };
        let mut mcp = place.greeted(flags);
        for script in ["setsid sleep 1000 & exec sleep 1000", "(trap '' TERM HUP INT; sleep 1000) & wait"] {
            mcp.done("exec_command", &with(shell(script), json!({"wait_ms": 0})));
        }
        mcp.ask("tools/call", &json!({"name": "exec_command", "arguments": shell("exec sleep 1000")}));
        mcp.kill();
        place.assert_nothing_is_left("after the gateway's SIGKILL");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_on_an_independent_runner_goes_on_and_is_found_again() {
    let Some(runner) = RunnerProcess::start().await else { return };
    let (socket, workspace) = (runner.socket(), std::env::temp_dir());
    let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
    let flags = ["--runner-socket", socket.to_str().expect("a path")];
    tokio::task::block_in_place(|| {
        let mut mcp = Gateway::start(&flags, &workspace, &helper).greeted();
        let command = with(shell("echo first; exec sleep 1000"), json!({"wait_ms": 0}));
        let id = mcp.done("exec_command", &command)["process_id"].take();
        mcp.wait_for_output(&id, "first");
        let tied = with(command, json!({"lifetime": "connection"}));
        let tied = mcp.done("exec_command", &tied)["process_id"].take();
        mcp.kill();

        let mut again = Gateway::start(&flags, &workspace, &helper).greeted();
        let read = again.done("read_process", &json!({"process_id": id}));
        assert_eq!((&read["chunk"], &read["state"]), (&json!("first\n"), &json!("running")), "{read}");
        let ended = again.done("process_status", &json!({"process_id": tied, "wait_ms": 10_000}));
        assert_eq!(ended["ended_by"], "connection", "{ended}");
        again.done("terminate_process", &json!({"process_id": id}));
        assert!(again.leave().success());
    });
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_was_restarted_is_found_by_the_next_call() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (socket, workspace) = (runner.socket(), std::env::temp_dir());
    let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
    let flags = ["--runner-socket", socket.to_str().expect("a path")];
    let mut mcp = tokio::task::block_in_place(|| {
        let mut mcp = Gateway::start(&flags, &workspace, &helper).greeted();
        mcp.done("exec_command", &with(shell("exec sleep 1000"), json!({"wait_ms": 0})));
        mcp
    });
    runner.kill();
    tokio::task::block_in_place(|| {
        let lost = mcp.tool("list_processes", &json!({}));
        assert_eq!(lost["structuredContent"]["code"], "RESOURCE_UNAVAILABLE", "{lost}");
    });
    runner.restart().await;
    tokio::task::block_in_place(|| {
        assert_eq!(mcp.done("list_processes", &json!({})), json!({"processes": []}));
        assert_eq!(mcp.done("exec_command", &shell("exit 5"))["status"]["exit_code"], 5);
        assert!(mcp.leave().success());
    });
    runner.assert_nothing_is_left(&[], "after the end");
}
