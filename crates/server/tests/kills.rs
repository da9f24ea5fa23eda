//! SIGKILL in the middle of each tool call, to the client, to the gateway and to the Runner behind it: what should not go
//! on is gone, and what should is found again.
#![cfg(target_os = "linux")]

mod gateway;

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use codespace_testkit::fixture::{RunnerProcess, WORKSPACE};
use codespace_testkit::programs;
use codespace_testkit::random::Random;
use gateway::{Gateway, IN_PROCESS, Place, WORKER};
use serde_json::{Value, json};

const TOOLS: [&str; 11] = [
    "workspace_info",
    "exec_command",
    "read_process",
    "write_stdin",
    "close_stdin",
    "process_status",
    "list_processes",
    "process_resize",
    "signal_process",
    "terminate_process",
    "terminate_workspace",
];

/// Ignores every polite signal, and has detached something.
const STUBBORN: &str = "trap '' TERM HUP INT; echo ready; setsid sleep 1000 & while :; do sleep 1000; done";
/// Who dies, and how.
type Death = (&'static str, fn(Gateway));
const DEATHS: [Death; 2] = [("client", |mcp| assert!(mcp.vanish().success())), ("gateway", |mcp| mcp.kill())];
/// Longer than any test.
const FAR: u64 = 600_000;

/// Starts a process and a call that is about it; returns the process and the call's id. Calls that can wait do.
fn begin(mcp: &mut Gateway, tool: &str) -> (Value, u64) {
    let mut start = json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", STUBBORN], "wait_ms": 0});
    match tool {
        "process_resize" => start["tty"] = json!(true),
        _ => start["stdin"] = json!("pipe"),
    }
    let id = mcp.done("exec_command", &start)["process_id"].take();
    mcp.wait_for_output(&id, "ready");
    let arguments = match tool {
        "workspace_info" | "list_processes" => json!({}),
        "exec_command" => json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", STUBBORN], "wait_ms": FAR}),
        "read_process" => json!({"process_id": id, "wait_ms": FAR, "tail_bytes": 0}),
        "process_status" => json!({"process_id": id, "wait_ms": FAR}),
        // Far more than a pipe holds, to one that never reads.
        "write_stdin" => json!({"process_id": id, "data": "x".repeat(1024 * 1024)}),
        "close_stdin" => json!({"process_id": id}),
        "process_resize" => json!({"process_id": id, "rows": 50, "cols": 120}),
        "signal_process" => json!({"process_id": id, "signal": "INT"}),
        "terminate_process" => json!({"process_id": id, "grace_ms": FAR}),
        _ => json!({"workspace_id": WORKSPACE, "grace_ms": FAR}),
    };
    let call = mcp.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
    (id, call)
}

/// A moment in which a call is somewhere between its first byte and its waiting.
fn a_moment(random: &mut Random) {
    std::thread::sleep(random.up_to(Duration::from_millis(25)));
}

#[test]
fn what_a_client_or_a_gateway_that_dies_was_doing_ends_with_it() {
    let mut random = Random::announced("client or gateway");
    for (who, kill) in DEATHS {
        for flags in [IN_PROCESS, WORKER] {
            for tool in TOOLS {
                let Some(mut place) = Place::new() else { return };
                let mut mcp = place.greeted(flags);
                begin(&mut mcp, tool);
                a_moment(&mut random);
                kill(mcp);
                place.assert_nothing_is_left(&format!("{flags:?}, {tool}: after its {who} had died"));
            }
        }
    }
}

#[test]
fn a_private_runner_that_dies_takes_all_with_it_and_the_next_call_has_a_new_one() {
    let mut random = Random::announced("worker");
    for tool in TOOLS {
        let Some(mut place) = Place::new() else { return };
        let mut mcp = place.greeted(WORKER);
        let (id, call) = begin(&mut mcp, tool);
        a_moment(&mut random);
        let worker = worker_of(&mcp);
        codespace_testkit::signal(worker, 9).expect("to end the worker");
        // Whichever was first. It may also have come to the next one already, which knows nothing of the process.
        let answer = mcp.answer(call);
        let result = &answer["result"];
        let code = &result["structuredContent"]["code"];
        let is_told = *code == "RESOURCE_UNAVAILABLE" || *code == "PROCESS_NOT_FOUND";
        assert!(result["isError"] != true || is_told, "{tool}: {answer}");
        // A call may still have gone to the one that was dying.
        let gone = (0..2).map(|_| mcp.tool("process_status", &json!({"process_id": id}))).last().expect("an answer");
        assert_eq!(gone["structuredContent"]["code"], "PROCESS_NOT_FOUND", "{tool}: {gone}");
        place.assert_only(&[worker_of(&mcp)], &format!("{tool}: after the private Runner had died"));
        let next = json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", "exit 6"]});
        assert_eq!(mcp.done("exec_command", &next)["status"]["exit_code"], 6, "{tool}");
        assert!(mcp.leave().success(), "{tool}");
        place.assert_nothing_is_left(&format!("{tool}: in the end"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_independent_runner_runs_goes_on_without_client_and_gateway() {
    let mut random = Random::announced("independent");
    for (_, kill) in DEATHS {
        for tool in TOOLS {
            let Some(runner) = RunnerProcess::start().await else { return };
            let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
            let again = || over(&runner.socket(), &helper);
            tokio::task::block_in_place(|| {
                let mut mcp = again();
                let (id, _) = begin(&mut mcp, tool);
                a_moment(&mut random);
                kill(mcp);
                let mut mcp = again();
                let found = mcp.done("process_status", &json!({"process_id": id}));
                assert_eq!(found["state"], "running", "{tool}: {found}");
                let ended = mcp.done("terminate_workspace", &json!({"workspace_id": WORKSPACE}));
                let ids = ended["processes"].as_array().expect("processes").iter().map(|status| &status["process_id"]);
                assert!(ids.into_iter().any(|ended| *ended == id), "{tool}: {ended}");
                assert!(mcp.leave().success());
            });
            runner.assert_nothing_is_left(&[], &format!("{tool}: after its workspace was ended"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_an_independent_runner_that_dies_is_answered_with_an_error() {
    let mut random = Random::announced("runner");
    for tool in TOOLS {
        let Some(mut runner) = RunnerProcess::start().await else { return };
        let helper = programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", None);
        let (mut mcp, call) = tokio::task::block_in_place(|| {
            let mut mcp = over(&runner.socket(), &helper);
            let (_, call) = begin(&mut mcp, tool);
            a_moment(&mut random);
            (mcp, call)
        });
        runner.kill();
        tokio::task::block_in_place(|| {
            let answer = mcp.answer(call);
            let result = &answer["result"];
            let code = &result["structuredContent"]["code"];
            assert!(result["isError"] != true || *code == "RESOURCE_UNAVAILABLE", "{tool}: {answer}");
            let lost = mcp.tool("list_processes", &json!({}));
            assert_eq!(lost["structuredContent"]["code"], "RESOURCE_UNAVAILABLE", "{tool}: {lost}");
        });
        runner.assert_nothing_is_left(&[mcp.pid().cast_signed()], &format!("{tool}: after the Runner had died"));
        assert!(mcp.leave().success(), "{tool}");
    }
}

/// A command whose start has asked for more grace than anybody waits, and that handles no signal.
fn begin_patient(mcp: &mut Gateway) {
    let start =
        json!({"workspace_id": WORKSPACE, "command": ["sh", "-c", STUBBORN], "grace_ms": u64::MAX, "wait_ms": 0});
    let id = mcp.done("exec_command", &start)["process_id"].take();
    mcp.wait_for_output(&id, "ready");
}

#[test]
fn a_grace_that_a_command_was_promised_does_not_outlive_who_promised_it_by_much() {
    // All at once, since each takes as long as it may.
    let Some(mut place) = Place::new() else { return };
    let [mut in_process, mut killed, mut stuck] = [IN_PROCESS, WORKER, WORKER].map(|flags| place.greeted(flags));
    for mcp in [&mut in_process, &mut killed, &mut stuck] {
        begin_patient(mcp);
    }
    // A private Runner without its gateway, and one that stands still and cannot see that its gateway has left.
    codespace_testkit::signal(worker_of(&stuck), 19).expect("to stop the worker");
    // One that stands still before it has answered the first call.
    let mut unanswered = place.greeted(WORKER);
    codespace_testkit::signal(worker_of(&unanswered), 19).expect("to stop the worker");
    unanswered.ask("tools/call", &json!({"name": "list_processes", "arguments": {}}));
    // It is on its way to the worker by now.
    unanswered.call("tools/list", &json!({}));
    killed.kill();
    thread::scope(|scope| {
        let ends =
            [in_process, stuck, unanswered].map(|mcp| scope.spawn(|| mcp.vanish_within(Duration::from_secs(30))));
        for end in ends {
            assert!(end.join().expect("its end").success());
        }
    });
    let left = place.ground.survivors.wait_until_nothing_is_left(&[], Duration::from_secs(30));
    assert!(left.is_empty(), "left behind: {left:#?}");
}

#[test]
fn a_second_signal_waits_for_no_grace() {
    for flags in [IN_PROCESS, WORKER] {
        let Some(mut place) = Place::new() else { return };
        let mut mcp = place.greeted(flags);
        begin_patient(&mut mcp);
        let pid = mcp.pid().cast_signed();
        let began = Instant::now();
        codespace_testkit::signal(pid, 15).expect("to ask it to end");
        while mcp.is_running() && began.elapsed() < Duration::from_secs(10) {
            // The first one may not have been taken yet, and two that wait are one.
            std::thread::sleep(Duration::from_millis(50));
            codespace_testkit::signal(pid, 15).ok();
        }
        assert!(!mcp.is_running(), "{flags:?}: it waits for the grace");
        place.assert_nothing_is_left(&format!("{flags:?}: after a second signal"));
    }
}

#[test]
fn a_private_runner_that_was_killed_leaves_no_directory() {
    for _ in 0..8 {
        let Some(mut place) = Place::new() else { return };
        let temporary = place.ground.private().join("tmp");
        std::fs::create_dir(&temporary).expect("a directory");
        let directory = temporary.to_str().expect("a path");
        let mut mcp = place.start_in(WORKER, Stdio::null(), &[("TMPDIR", directory)]).greeted();
        let (_, call) = begin(&mut mcp, "process_status");
        codespace_testkit::signal(worker_of(&mcp), 9).expect("to end the worker");
        mcp.answer(call);
        // A call that is under way holds on to it.
        mcp.ask("tools/call", &json!({"name": "list_processes", "arguments": {}}));
        assert!(mcp.vanish().success());
        let left: Vec<_> = std::fs::read_dir(&temporary).expect("to look").flatten().map(|one| one.path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// One in front of an independent Runner.
fn over(socket: &Path, helper: &Path) -> Gateway {
    let flags = ["--runner-socket", socket.to_str().expect("a path")];
    Gateway::start(&flags, &std::env::temp_dir(), helper).greeted()
}

/// The pid of its private Runner, the one process that it has started itself.
fn worker_of(mcp: &Gateway) -> i32 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", mcp.pid())).expect("its threads");
    let children =
        |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let children = threads.flatten().map(children).collect::<String>();
    let mut pids = children.split_whitespace().map(|pid| pid.parse().expect("a pid"));
    let (Some(worker), None) = (pids.next(), pids.next()) else { panic!("not one child: {children:?}") };
    worker
}
