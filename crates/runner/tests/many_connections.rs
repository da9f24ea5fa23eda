//! Connections that ask for nothing: they cost little, there is a most of them, and whoever works is not held up.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use codespace_runner::uds::MAX_CONNECTIONS;
use codespace_testkit::fixture::{RunnerProcess, ask};
use serde_json::{Value, json};

fn raised_limit() {
    codespace_runner::raise_descriptor_limit().expect("more descriptors");
}

fn send(stream: &mut UnixStream, message: &Value) {
    let body = message.to_string();
    let length = u32::try_from(body.len()).expect("a short message").to_be_bytes();
    stream.write_all(&[&length[..], body.as_bytes()].concat()).expect("to send");
}

fn receive(stream: &mut UnixStream) -> Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).expect("the rest of it");
    serde_json::from_slice(&body).expect("JSON")
}

fn connect(runner: &RunnerProcess) -> UnixStream {
    let stream = UnixStream::connect(runner.socket()).expect("a connection");
    stream.set_read_timeout(Some(ask::LONG)).expect("a timeout");
    stream
}

fn greet(stream: &mut UnixStream) -> Value {
    let params = json!({"protocol": 1, "client": {"name": "idle", "version": "0"}});
    send(stream, &json!({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": params}));
    receive(stream)
}

fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_cost_little_and_hold_nobody_up_and_one_too_many_is_told_so() {
    raised_limit();
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let worker = runner.connect().await;
    ask::run(&worker, ask::command(["true"])).await;
    let before = resident(runner.pid());
    let mut idle: Vec<_> = (0..1000).map(|_| connect(&runner)).collect();
    for stream in &mut idle {
        assert_eq!(greet(stream)["result"]["protocol"], 1);
    }
    let grown = resident(runner.pid()).saturating_sub(before);
    assert!(grown < 24 << 20, "1000 idle connections cost {grown} bytes");
    let (status, output) = ask::run(&worker, ask::shell("echo still here; exit 3")).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(3), "still here\n"));

    // Up to the most there may be. One is the worker's.
    while idle.len() + 1 < MAX_CONNECTIONS {
        let mut stream = connect(&runner);
        assert_eq!(greet(&mut stream)["result"]["protocol"], 1);
        idle.push(stream);
    }
    let mut refused = connect(&runner);
    // It has its answer without a question, and may ask all the same.
    let refusal = greet(&mut refused);
    assert_eq!(refusal["error"]["data"]["code"], "RESOURCE_UNAVAILABLE", "{refusal}");
    assert!(refusal["error"]["message"].as_str().is_some_and(|text| text.contains("1024")), "{refusal}");
    assert_eq!(refused.read(&mut [0; 1]).expect("the end of the file"), 0);

    // A place that becomes free is taken again.
    drop(idle.pop());
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut next = connect(&runner);
        let answer = greet(&mut next);
        if answer["result"]["protocol"] == 1 {
            break;
        }
        assert!(Instant::now() < until, "no place became free: {answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (status, _) = ask::run(&worker, ask::command(["true"])).await;
    assert_eq!(status.exit_code, Some(0));
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", runner.pid())).expect("its descriptors").count();
    drop(idle);
    let until = Instant::now() + Duration::from_secs(20);
    while descriptors() > 30 {
        assert!(Instant::now() < until, "{} descriptors are left", descriptors());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_stop_half_way_or_never_read_cost_a_bounded_amount() {
    raised_limit();
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let worker = runner.connect().await;
    let flood = worker_output(&worker).await;
    let before = resident(runner.pid());
    let mut half = Vec::new();
    for number in 0..100 {
        let mut stream = connect(&runner);
        if number % 2 == 0 {
            // The length of the largest frame, and then nothing: memory follows what has come.
            assert_eq!(greet(&mut stream)["result"]["protocol"], 1);
            stream.write_all(&(16u32 << 20).to_be_bytes()).expect("to send a length");
        } else {
            stream.write_all(&[0, 0]).expect("to send half of a length");
        }
        half.push(stream);
    }
    // Each asks for 64 MiB of answers and reads none.
    for _ in 0..4 {
        let mut stream = connect(&runner);
        assert_eq!(greet(&mut stream)["result"]["protocol"], 1);
        for id in 2..66 {
            let params = json!({"process_id": flood, "max_bytes": 1 << 20});
            send(&mut stream, &json!({"jsonrpc": "2.0", "id": id, "method": "read_process", "params": params}));
        }
        half.push(stream);
    }
    for _ in 0..20 {
        ask::run(&worker, ask::command(["true"])).await;
    }
    let grown = resident(runner.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "they cost {grown} bytes");
}

/// A process that has ended, of which 1 MiB of output is kept.
async fn worker_output(worker: &codespace_runner::uds::UdsClient) -> String {
    let request = ask::shell("head -c 2000000 /dev/zero | tr '\\0' x");
    let started = codespace_runner::Runner::exec(worker, request).await.expect("a start").process_id;
    ask::ended(worker, started).await;
    started.to_string()
}
