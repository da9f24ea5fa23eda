//! A client that comes back finds its process as it left it; what is in the Runner's environment does not run with it.
#![cfg(target_os = "linux")]

use std::ffi::OsString;

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ExecRequest, Lifetime, ReadRequest, Request, State, StatusRequest};
use codespace_testkit::fixture::{RunnerProcess, ask};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_has_reconnected_goes_on_where_it_was_and_the_command_ran_once() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let script = ": > ran-$$; i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; sleep 0.03; done";
    let first = runner.connect().await;
    let keyed = ExecRequest { process_key: Some(ask::key("k")), ..ask::shell(script) };
    let id = first.exec(keyed.clone()).await.expect("a start").process_id;
    // A read that waits when its connection goes takes nothing with it.
    drop(first.call(Request::ReadProcess(ReadRequest { cursor: 0, wait_ms: u64::MAX, ..ReadRequest::new(id) })));
    drop(first);
    let (mut text, mut cursor) = (String::new(), 0);
    loop {
        let client = runner.connect().await;
        assert_eq!(client.exec(keyed.clone()).await.expect("the same process").process_id, id);
        let read = ReadRequest { cursor, wait_ms: 20_000, ..ReadRequest::new(id) };
        let reply = client.read_process(read).await.expect("output");
        text.push_str(&reply.chunk);
        cursor = reply.cursor;
        if reply.eof {
            break;
        }
    }
    let expected: String = (1..=30).map(|i| format!("{i}\n")).collect();
    assert_eq!(text, expected);
    assert_eq!(runner.ground.files("ran-").len(), 1);
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_pending_when_its_connection_goes_ends_with_it_if_that_is_its_lifetime() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let watcher = runner.connect().await;
    for _ in 0..10 {
        let leaving = runner.connect().await;
        for lifetime in [Lifetime::Connection, Lifetime::Workspace] {
            let request = ExecRequest { lifetime, ..ask::command(["sleep", "1000"]) };
            drop(leaving.call(Request::Exec(Box::new(request))));
        }
        // The answer to a later request says that the earlier ones have been taken.
        ask::running(&leaving).await;
    }
    for status in ask::running(&watcher).await {
        if status.lifetime == Lifetime::Connection {
            let ended = ask::ended(&watcher, status.process_id).await;
            assert_eq!(ended.ended_by, Some(EndedBy::Connection), "{ended:?}");
        }
    }
    let left = ask::running(&watcher).await;
    assert_eq!(left.len(), 10, "{left:?}");
    assert!(left.iter().all(|status| status.lifetime == Lifetime::Workspace), "{left:?}");
    for status in left {
        let request = StatusRequest { process_id: status.process_id, wait_ms: 0 };
        assert_eq!(watcher.process_status(request).await.expect("a status").state, State::Running);
        watcher.terminate_process(ask::terminate(status.process_id)).await.expect("a final status");
    }
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_up_files_and_switches_of_the_runners_environment_do_not_reach_a_shell() {
    for workspace in [json!({}), json!({"sandbox": "none"})] {
        let noise = OsString::from("/dev/stdin");
        let environment = [
            ("BASH_ENV", noise.clone()),
            ("ENV", noise),
            ("PROMPT_COMMAND", "echo noise".into()),
            ("BASH_FUNC_echo%%", "() { printf noise; }".into()),
            ("SHELLOPTS", "xtrace".into()),
            ("LD_PRELOAD", "/no/such/library.so".into()),
            ("A_SECRET", "hunter2".into()),
        ];
        let Some(mut runner) = RunnerProcess::with(workspace.clone(), &environment).await else { return };
        let client = runner.connect().await;
        for shell in ["sh", "bash"] {
            let request = ExecRequest { timeout_ms: Some(20_000), ..ask::command([shell, "-c", "echo real; env"]) };
            let (status, output) = ask::run(&client, request).await;
            assert_eq!(status.exit_code, Some(0), "{workspace} {shell}: {status:?}");
            assert!(output.starts_with("real\n"), "{workspace} {shell}: {output}");
            for name in ["noise", "hunter2", "LD_PRELOAD", "BASH_ENV", "+ "] {
                assert!(!output.contains(name), "{workspace} {shell}: {output}");
            }
        }
    }
}
