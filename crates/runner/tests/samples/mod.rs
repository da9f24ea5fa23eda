//! Messages, and whether they are good.

use serde_json::{Value, json};

const ID: &str = "proc-00000000-0000-4000-8000-00000000000a";

/// Method, params (null: none) and whether they are good.
pub(crate) fn requests() -> Vec<(&'static str, Value, bool)> {
    let mut all = Vec::new();
    let mut add = |method, good: bool, params: Vec<Value>| all.extend(params.into_iter().map(|p| (method, p, good)));
    add(
        "subscribe",
        true,
        vec![json!({"process_id": ID}), json!({"process_id": ID, "cursor": 5, "encoding": "base64"})],
    );
    add(
        "subscribe",
        false,
        vec![json!({}), json!({"process_id": ID, "cursor": -1}), json!({"process_id": ID, "stream": "stdout"})],
    );
    add(
        "hello",
        true,
        vec![
            json!({"protocol": 1, "client": {"name": "x"}}),
            json!({"protocol": 1, "client": {"name": "x", "version": "1", "more": 1}, "more": 1}),
        ],
    );
    add(
        "hello",
        false,
        vec![
            Value::Null,
            json!({"protocol": 2, "client": {"name": "x"}}),
            json!({"protocol": 1}),
            json!({"protocol": 1, "client": {}}),
        ],
    );
    add(
        "workspace_info",
        true,
        vec![Value::Null, json!({}), json!({"workspace_id": "a.b-c_1"}), json!({"workspace_id": null})],
    );
    add("workspace_info", false, vec![json!({"workspace": "a"}), json!({"workspace_id": ".a"}), json!([])]);
    add(
        "exec",
        true,
        vec![
            json!({"workspace_id": "w", "command": ["true"]}),
            json!({"workspace_id": "w", "command": [{"base64": "/w=="}, "", "é"], "cwd": "sub", "env": {"A": "1", "B": null,
            "C": {"base64": "/w=="}}, "tty": true, "rows": 1, "cols": 65535, "stdin": "pipe", "timeout_ms": 0,
            "grace_ms": 5, "linger_ms": 0, "lifetime": "connection", "background": "keep", "output_bytes": 0,
            "on_full": "wait", "limits": {"cpu_seconds": 1, "file_bytes": 0, "open_files": null}, "process_key": "k",
            "wait_ms": u64::MAX}),
            json!({"workspace_id": "w", "command": ["true"], "cwd": null, "rows": null, "timeout_ms": null}),
        ],
    );
    let exec = |name: &str, value: Value| {
        let mut params = json!({"workspace_id": "w", "command": ["true"]});
        params[name] = value;
        params
    };
    add(
        "exec",
        false,
        vec![
            Value::Null,
            json!({"workspace_id": "w"}),
            json!({"command": ["true"]}),
            exec("command", json!([])),
            exec("command", json!([""])),
            exec("command", json!("true")),
            exec("command", json!(["a\u{0}b"])),
            exec("command", json!(["true", 1])),
            exec("command", json!([{"base64": "/w="}])),
            exec("command", json!([{"base64": "/x=="}])),
            exec("command", json!([{"base64": "", "more": ""}])),
            exec("workspace_id", json!("a/b")),
            exec("workspace_id", json!("x".repeat(129))),
            exec("shell", json!(true)),
            exec("cwd", json!("a\u{0}")),
            exec("env", json!({"": "x"})),
            exec("env", json!({"A=B": "x"})),
            exec("env", json!({"A": 1})),
            exec("env", json!({"A": "\u{0}"})),
            exec("tty", json!(null)),
            exec("tty", json!("yes")),
            exec("rows", json!(0)),
            exec("cols", json!(65536)),
            exec("stdin", json!("file")),
            exec("timeout_ms", json!(-1)),
            exec("timeout_ms", json!(1.5)),
            exec("grace_ms", json!(null)),
            exec("lifetime", json!("forever")),
            exec("limits", json!({"pids": 0})),
            exec("limits", json!({"cores": 1})),
            exec("process_key", json!("")),
            exec("process_key", json!("k".repeat(257))),
        ],
    );
    add(
        "write_stdin",
        true,
        vec![
            json!({"process_id": ID, "data": ""}),
            json!({"process_id": ID, "data": "no base64", "encoding": "utf-8", "write_key": "k"}),
            json!({"process_id": ID, "data": "", "encoding": "base64"}),
            json!({"process_id": ID, "data": "AAH/", "encoding": "base64", "write_key": null}),
        ],
    );
    add(
        "write_stdin",
        false,
        vec![
            json!({"process_id": ID}),
            json!({"process_id": ID, "data": {"base64": ""}}),
            json!({"process_id": ID, "data": "", "encoding": "latin-1"}),
            json!({"process_id": ID, "data": "no base64", "encoding": "base64"}),
            json!({"process_id": ID, "data": "AAH", "encoding": "base64"}),
        ],
    );
    add("close_stdin", true, vec![json!({"process_id": ID})]);
    add(
        "close_stdin",
        false,
        vec![
            Value::Null,
            json!({"process_id": ID.to_uppercase()}),
            json!({"process_id": ID.replace('-', "")}),
            json!({"process_id": ID.replace("-4", "-1")}),
            json!({"process_id": ID.replace("-8", "-0")}),
            json!({"process_id": format!("{ID}0")}),
            json!({"process_id": ID, "wait_ms": 1}),
        ],
    );
    add(
        "read_process",
        true,
        vec![
            json!({"process_id": ID}),
            json!({"process_id": ID, "cursor": 5, "wait_ms": 1, "max_bytes": 4, "stream": "stderr", "tail_bytes": 0,
            "encoding": "base64"}),
            json!({"process_id": ID, "stream": "combined", "tail_bytes": null}),
        ],
    );
    add(
        "read_process",
        false,
        vec![
            json!({}),
            json!({"process_id": ID, "max_bytes": 3}),
            json!({"process_id": ID, "stream": "both"}),
            json!({"process_id": ID, "cursor": null}),
            json!({"process_id": ID, "offset": 1}),
        ],
    );
    add("process_status", true, vec![json!({"process_id": ID}), json!({"process_id": ID, "wait_ms": 1})]);
    add("process_status", false, vec![Value::Null, json!({"process_id": ID, "wait_ms": "1"})]);
    add("list_processes", true, vec![Value::Null, json!({"state": "exited", "workspace_id": "w"})]);
    add("list_processes", false, vec![json!({"state": "starting"}), json!({"all": true})]);
    add("process_resize", true, vec![json!({"process_id": ID, "rows": 1, "cols": 1})]);
    add(
        "process_resize",
        false,
        vec![json!({"process_id": ID, "rows": 0, "cols": 1}), json!({"process_id": ID, "rows": 1})],
    );
    add("signal_process", true, vec![json!({"process_id": ID, "signal": "USR1"})]);
    add(
        "signal_process",
        false,
        vec![
            json!({"process_id": ID, "signal": "SIGTERM"}),
            json!({"process_id": ID, "signal": "term"}),
            json!({"process_id": ID, "signal": 15}),
        ],
    );
    add(
        "terminate_process",
        true,
        vec![
            json!({"process_id": ID}),
            json!({"process_id": ID, "grace_ms": 5, "workspace_id": null}),
            json!({"workspace_id": "w", "process_key": "k", "grace_ms": null}),
        ],
    );
    add(
        "terminate_process",
        false,
        vec![
            Value::Null,
            json!({}),
            json!({"workspace_id": "w"}),
            json!({"process_key": "k"}),
            json!({"process_id": ID, "process_key": "k"}),
            json!({"process_id": ID, "workspace_id": "w", "process_key": "k"}),
            json!({"process_id": ID, "grace": 5}),
        ],
    );
    add("terminate_workspace", true, vec![json!({"workspace_id": "w"}), json!({"workspace_id": "w", "grace_ms": 1})]);
    add("terminate_workspace", false, vec![Value::Null, json!({"workspace_id": "w", "process_id": ID})]);
    add("stop", true, vec![Value::Null, json!({}), json!({"grace_ms": 0})]);
    add("stop", false, vec![json!({"grace_ms": -1}), json!({"now": true}), json!("now")]);
    all
}

/// Good in form, and refused when it takes effect: what the Runner's types hold and its policy does not take.
pub(crate) fn refused_when_it_takes_effect(message: &Value) -> bool {
    let params = &message["params"];
    let nul = |value: &Value| value.as_str().is_some_and(|text| text.contains('\0'));
    let argv = params["command"].as_array();
    let names = params["env"].as_object();
    message["method"] == "hello" && params["protocol"] != 1
        || argv.is_some_and(|argv| argv.first().is_none_or(|program| program == "") || argv.iter().any(nul))
        || nul(&params["cwd"])
        || names.is_some_and(|all| all.iter().any(|(name, value)| name.is_empty() || name.contains('=') || nul(value)))
        || ["rows", "cols"].iter().any(|size| params[size] == 0)
        || params["limits"]["pids"] == 0
        || params["max_bytes"].as_u64().is_some_and(|most| most < 4)
        || params["encoding"] == "base64"
            && params["data"].as_str().is_some_and(|data| ["no base64", "AAH"].contains(&data))
}

/// Whole messages, and whether they are requests.
pub(crate) fn messages() -> Vec<(Value, bool)> {
    vec![
        (json!({"jsonrpc": "2.0", "id": "a", "method": "stop"}), true),
        (json!({"jsonrpc": "2.0", "id": 1.5, "method": "stop", "more": 1}), true),
        (json!({"jsonrpc": "2.0", "method": "stop", "params": {}}), true),
        (json!({"jsonrpc": "2.0", "id": null, "method": "stop"}), false),
        (json!({"jsonrpc": "2.0", "id": [1], "method": "stop"}), false),
        (json!({"jsonrpc": "1.0", "id": 1, "method": "stop"}), false),
        (json!({"id": 1, "method": "stop"}), false),
        (json!({"jsonrpc": "2.0", "id": 1}), false),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "fork_bomb"}), false),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "stop", "params": null}), false),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "stop", "params": [5]}), false),
        (json!([{"jsonrpc": "2.0", "id": 1, "method": "stop"}]), false),
        (json!("stop"), false),
    ]
}

/// A name in the schema, what a Runner might send there, and whether it does.
pub(crate) fn sent() -> Vec<(&'static str, Value, bool)> {
    let error = |code: i64, data: Value| {
        let mut error = json!({"code": code, "message": "find it"});
        if !data.is_null() {
            error["data"] = data;
        }
        json!({"jsonrpc": "2.0", "id": 1, "error": error})
    };
    let status = json!({"process_id": ID, "workspace_id": "w", "command": ["x"], "tty": false, "state": "exited",
        "started_at": "2026-11-30T03:23:59.058Z", "output_total": 0, "output_retained_from": 0, "eof": true,
        "lifetime": "workspace", "sandbox": "bubblewrap", "termination": "exited", "ended_by": "command", "exit_code": 0,
        "tree": {"confirmed": true, "leftovers": 0, "took_ms": 1}, "later": "a member of a later version"});
    let with = |name: &str, value: Value| {
        let mut status = status.clone();
        status[name] = value;
        status
    };
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": "x", "result": result});
    vec![
        ("process_status.result", status.clone(), true),
        ("process_status.result", with("phase", Value::Null), false),
        ("process_status.result", with("exit_code", Value::Null), false),
        ("process_status.result", with("state", json!("gone")), false),
        ("process_status.result", with("tree", json!({"confirmed": true})), false),
        ("process_status.result", json!({"process_id": ID}), false),
        ("process_status.response", answer(status.clone()), true),
        ("process_status.response", answer(json!({})), false),
        ("process_status.response", json!({"jsonrpc": "2.0", "id": null, "result": status}), false),
        ("process_status.response", json!({"jsonrpc": "2.0", "id": 1}), false),
        ("close_stdin.response", answer(json!({})), true),
        ("close_stdin.response", answer(Value::Null), false),
        ("stop.response", error(-32000, json!({"code": "TIMEOUT", "message": "find it"})), true),
        ("stop.response", error(-32000, json!({"code": "TIMEOUT", "message": "x", "hint": "y", "errno": 2})), true),
        ("stop.response", error(-32000, json!({"code": "OUT_OF_LUCK", "message": "x"})), false),
        ("stop.response", error(-32000, Value::Null), false),
        ("stop.response", error(-32601, Value::Null), true),
        ("stop.response", error(-32601, json!({"code": "TIMEOUT", "message": "x"})), false),
        ("stop.response", error(-1, Value::Null), false),
        ("Response", error(-32600, Value::Null), true),
        ("Response", json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "x"}}), true),
        ("exec.result", json!({"process_id": ID, "dispatch_status": "confirmed"}), true),
        ("exec.result", json!({"process_id": ID, "dispatch_status": "maybe"}), false),
        ("workspace_info.result", json!({"workspaces": {}}), true),
        ("workspace_info.result", json!({"workspaces": {"/": {}}}), false),
    ]
}
