//! What is in the log of `codespace-mcp`, however much of it was asked for: never what commands are given or say.
#![cfg(target_os = "linux")]

mod gateway;

use std::fs::File;

use codespace_testkit::fixture::WORKSPACE;
use gateway::{IN_PROCESS, Place, WORKER};
use serde_json::json;

#[test]
fn no_environment_input_or_output_of_a_command_is_in_the_log() {
    // Each level that can be asked for, also of one crate or module alone.
    for level in ["trace", "rmcp::service=trace,codespace_server=info"] {
        for flags in [IN_PROCESS, WORKER] {
            let Some(mut place) = Place::new() else { return };
            let log = place.ground.private().join("log-of-mcp");
            let stderr = File::create(&log).expect("a file");
            let mut mcp = place.start_in(flags, stderr.into(), &[("RUST_LOG", level)]).greeted();
            let started = mcp.done(
                "exec_command",
                &json!({
                    "workspace_id": WORKSPACE, "command": ["sh", "-c", "printf 'out-%s\\n' put; cat"],
                    "env": {"SECRET": "secret-of-env"}, "stdin": "pipe", "wait_ms": 0
                }),
            );
            let id = &started["process_id"];
            mcp.wait_for_output(id, "out-put");
            mcp.done("write_stdin", &json!({"process_id": id, "data": "secret-of-stdin\n"}));
            mcp.wait_for_output(id, "secret-of-stdin");
            mcp.call("resources/read", &json!({"uri": format!("process://{}/output", id.as_str().expect("an id"))}));
            assert!(mcp.leave().success());
            let logged = std::fs::read_to_string(&log).expect("the log");
            for secret in ["secret-of-env", "secret-of-stdin", "out-put"] {
                assert!(!logged.contains(secret), "{level}, {flags:?}: {secret}: {logged}");
            }
        }
    }
}
