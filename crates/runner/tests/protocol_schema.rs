//! `docs/schema/protocol.json` is what the types say, and a stock validator takes by it what the Runner takes.

use codespace_runner::domain::SubscribeRequest;
use codespace_runner::wire::message::Call;
use codespace_runner::wire::schema::protocol_schema;
use jsonschema::Validator;
use serde_json::{Value, json};

mod samples;

const COMMITTED: &str = include_str!("../../../docs/schema/protocol.json");
const UPDATE: &str = "CODESPACE_UPDATE_SCHEMA=1 cargo test -p codespace-runner --test protocol_schema";

fn committed() -> Value {
    serde_json::from_str(COMMITTED).expect("docs/schema/protocol.json is JSON")
}

/// What the committed schema has of this name.
fn validator(name: &str) -> Validator {
    let mut schema = committed();
    schema.as_object_mut().expect("an object").remove("anyOf");
    assert!(schema["$defs"].get(name).is_some(), "docs/schema/protocol.json has no {name}");
    schema["$ref"] = format!("#/$defs/{name}").into();
    jsonschema::draft202012::new(&schema).expect("a schema of draft 2020-12")
}

fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_committed_schema_is_what_the_types_say() {
    let made = protocol_schema();
    if std::env::var_os("CODESPACE_UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/protocol.json");
        std::fs::write(path, format!("{made:#}\n")).expect("to write docs/schema/protocol.json");
    } else {
        assert!(made == committed(), "docs/schema/protocol.json is stale; make it anew with: {UPDATE}");
    }
}

#[test]
fn the_committed_schema_is_one_by_its_own_rules() {
    let meta = jsonschema::meta::validate(&committed()).map_err(|error| error.to_string());
    assert_eq!(meta, Ok(()));
}

#[test]
fn every_method_is_found_by_its_name() {
    let schema = committed();
    for told in codespace_runner::domain::Notification::METHODS {
        for kind in ["params", "notification"] {
            assert!(schema["$defs"][format!("{told}.{kind}")]["description"].is_string(), "{told}.{kind}");
        }
    }
    for method in codespace_runner::domain::Request::METHODS.into_iter().chain([SubscribeRequest::METHOD]) {
        for kind in ["params", "result", "request", "response"] {
            let name = format!("{method}.{kind}");
            assert!(schema["$defs"][&name]["description"].is_string(), "{name}");
        }
    }
}

#[test]
fn the_schema_and_the_runner_take_the_same_requests_and_refuse_the_same() {
    let any = validator("Request");
    for (method, params, good) in samples::requests() {
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        if params.is_null() {
            message.as_object_mut().expect("an object").remove("params");
        }
        let faults = faults(&validator(&format!("{method}.request")), &message);
        assert_eq!(faults.is_empty(), good, "{message}: {faults:?}");
        assert_eq!(any.is_valid(&message), good, "{message}");
        let taken = Call::parse(message.to_string().as_bytes()).and_then(Call::into_asked).is_ok();
        let refused_later = samples::refused_when_it_takes_effect(&message);
        assert_eq!(taken && !refused_later, good, "the Runner's own reading of {message}");
    }
}

#[test]
fn the_schema_and_the_runner_take_the_same_messages_whatever_their_method() {
    let any = validator("Request");
    for (message, good) in samples::messages() {
        assert_eq!(any.is_valid(&message), good, "{message}");
        let taken = Call::parse(message.to_string().as_bytes()).and_then(Call::into_asked).is_ok();
        assert_eq!(taken, good, "the Runner's own reading of {message}");
    }
}

#[test]
fn results_and_errors_are_told_from_what_is_none() {
    for (name, value, good) in samples::sent() {
        let faults = faults(&validator(name), &value);
        assert_eq!(faults.is_empty(), good, "{name}: {value}: {faults:?}");
    }
}

#[cfg(target_os = "linux")]
mod live {
    use std::time::Duration;

    use codespace_runner::wire::frame::{FrameReader, write_frame};
    use codespace_testkit::fixture::{RunnerProcess, WORKSPACE};
    use tokio::net::UnixStream;
    use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
    use tokio::time::timeout;

    use super::*;

    struct Client {
        input: FrameReader<OwnedReadHalf>,
        output: OwnedWriteHalf,
        seen: Vec<&'static str>,
    }

    impl Client {
        /// Sends a request that the schema takes, and gives an answer that the schema takes.
        async fn call(&mut self, method: &'static str, params: Value) -> Value {
            let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let wrong = faults(&validator(&format!("{method}.request")), &message);
            assert!(wrong.is_empty(), "{message}: {wrong:?}");
            write_frame(&mut self.output, message.to_string().as_bytes()).await.expect("to send");
            let frame = timeout(Duration::from_secs(60), self.input.next()).await.expect("an answer in time");
            let answer: Value = serde_json::from_slice(&frame.expect("a frame").expect("an answer")).expect("JSON");
            let wrong = faults(&validator(&format!("{method}.response")), &answer);
            assert!(wrong.is_empty(), "{method}: {answer}: {wrong:?}");
            assert_eq!(answer["id"], 7);
            self.seen.push(method);
            answer
        }

        /// Takes notifications that the schema takes, to the one of the end.
        async fn told_to_the_end(&mut self) {
            loop {
                let frame = timeout(Duration::from_secs(60), self.input.next()).await.expect("told in time");
                let told: Value = serde_json::from_slice(&frame.expect("a frame").expect("a message")).expect("JSON");
                let wrong = faults(&validator("Notification"), &told);
                assert!(wrong.is_empty(), "{told}: {wrong:?}");
                if told["method"] == "exited" {
                    return;
                }
            }
        }

        async fn result(&mut self, method: &'static str, params: Value) -> Value {
            let mut answer = self.call(method, params).await;
            assert!(answer.get("error").is_none(), "{method}: {answer}");
            answer["result"].take()
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_live_runner_answers_to_every_method_is_what_the_schema_says() {
        let limits = json!({"limits": {"open_files": 512}, "timeout_ms": {"default": 60_000, "max": 90_000}});
        let Some(mut runner) = RunnerProcess::with(limits, &[]).await else { return };
        let stream = UnixStream::connect(runner.socket()).await.expect("a connection");
        let (input, output) = stream.into_split();
        let mut client = Client { input: FrameReader::new(input), output, seen: Vec::new() };
        client.result("hello", json!({"protocol": 1, "client": {"name": "schema"}})).await;
        client.result("workspace_info", json!({})).await;
        client.result("workspace_info", json!({"workspace_id": WORKSPACE})).await;
        client.call("workspace_info", json!({"workspace_id": "nobody"})).await;

        let shell = |script: &str| json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", script]});
        let mut waited = shell("echo out; echo err >&2; exit 3");
        waited["wait_ms"] = 60_000.into();
        let ended = client.result("exec", waited).await;
        assert_eq!(ended["status"]["exit_code"], 3);
        let mut killed = shell("kill -SEGV $$");
        killed["wait_ms"] = 60_000.into();
        killed["limits"] = json!({"cpu_seconds": 5});
        assert_eq!(client.result("exec", killed).await["status"]["termination"], "signaled");
        let failed = client.call("exec", json!({"workspace_id": WORKSPACE, "command": ["no-such"]})).await;
        assert_eq!(failed["error"]["data"]["stage"], "exec");

        let mut terminal = shell("cat");
        terminal["tty"] = true.into();
        terminal["process_key"] = "terminal".into();
        let terminal = client.result("exec", terminal).await["process_id"].take();
        client.result("process_resize", json!({"process_id": terminal, "rows": 30, "cols": 90})).await;
        client.result("write_stdin", json!({"process_id": terminal, "data": "aGkK", "encoding": "base64"})).await;
        client.result("read_process", json!({"process_id": terminal, "wait_ms": 60_000, "max_bytes": 4})).await;
        client.result("process_status", json!({"process_id": terminal})).await;
        client.result("signal_process", json!({"process_id": terminal, "signal": "CONT"})).await;
        client.result("close_stdin", json!({"process_id": terminal})).await;
        client.result("terminate_process", json!({"workspace_id": WORKSPACE, "process_key": "terminal"})).await;
        client.call("read_process", json!({"process_id": terminal, "cursor": 1_000_000})).await;
        client.result("list_processes", json!({})).await;
        client.result("subscribe", json!({"process_id": ended["process_id"]})).await;
        client.told_to_the_end().await;
        client.result("exec", shell("sleep 1000")).await;
        client.result("terminate_workspace", json!({"workspace_id": WORKSPACE, "grace_ms": 0})).await;
        client.result("stop", json!({})).await;

        let all = codespace_runner::domain::Request::METHODS.into_iter().chain([SubscribeRequest::METHOD]);
        let missing: Vec<_> = all.filter(|method| !client.seen.contains(method)).collect();
        // A method that is added shows up here.
        assert!(missing.is_empty(), "not asked: {missing:?}");
        runner.ended().await;
        runner.assert_nothing_is_left(&[], "after the stop");
    }
}
