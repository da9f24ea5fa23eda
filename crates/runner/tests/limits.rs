//! Limits that the kernel keeps per process: what happens at each, that a request can only narrow them, and that one that
//! cannot be kept is refused.
#![cfg(target_os = "linux")]

use std::fs;

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, ErrorCode, ExecRequest, LimitName, Limits, ProcessStatus, Termination};
use codespace_testkit::fixture::{Fixture, ask};

fn limited(request: ExecRequest, limits: Limits) -> ExecRequest {
    ExecRequest { limits, ..request }
}

fn assert_ended_by_the_kernel(status: &ProcessStatus, limit: LimitName, signal: i32) {
    let told = (status.ended_by, status.limit, status.termination, status.exit_code);
    assert_eq!(told, (Some(EndedBy::Limit), Some(limit), Some(Termination::Signaled), None), "{status:?}");
    assert_eq!(status.signal.as_ref().map(|signal| signal.number), Some(signal), "{status:?}");
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_command_that_uses_up_its_processor_time_is_ended_and_its_tree_with_it() {
    let Some(fixture) = Fixture::start().await else { return };
    let limits = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let request = limited(ask::shell("setsid sleep 1000 & while :; do :; done"), limits);
    let (status, _) = ask::run(&fixture.session, request).await;
    assert_ended_by_the_kernel(&status, LimitName::Cpu, libc::SIGXCPU);
    let usage = status.usage.expect("usage");
    let used = usage.user_ms.unwrap_or(0) + usage.system_ms.unwrap_or(0);
    // The kernel counts the limit in ticks, and tells what was used more exactly.
    assert!((500..4000).contains(&used), "{used} ms of processor time: {status:?}");
    fixture.assert_nothing_is_left("after the limit").await;
    // Time that is slept is none, and the signal alone is no limit.
    let (status, _) = ask::run(&fixture.session, limited(ask::command(["sleep", "1.5"]), limits)).await;
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(0)), "{status:?}");
    let (status, _) = ask::run(&fixture.session, ask::shell("kill -XCPU $$; sleep 1000")).await;
    assert_eq!((status.ended_by, status.limit), (Some(EndedBy::Command), None), "{status:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_grows_too_large_ends_who_writes_it_and_a_pipe_is_no_file() {
    let Some(fixture) = Fixture::start().await else { return };
    let limits = Limits { file_bytes: Some(100_000), ..Limits::default() };
    let write =
        |to: &str| ask::command(["dd", "if=/dev/zero", &format!("of={to}"), "bs=64K", "count=10", "status=none"]);
    let (status, _) = ask::run(&fixture.session, limited(write("big"), limits)).await;
    assert_ended_by_the_kernel(&status, LimitName::FileSize, libc::SIGXFSZ);
    let size = fs::metadata(fixture.workspace().join("big")).unwrap().len();
    assert!(size <= 100_000, "{size} bytes");
    let (status, output) = ask::run_reading(&fixture.session, limited(write("/dev/stdout"), limits)).await;
    assert_eq!((status.exit_code, output.len()), (Some(0), 655_360), "{status:?}");
    fixture.end().await;
}

/// Opens files until that fails; says how many it had, and its hard limit.
const OPEN_ALL: &str = "n=3; while eval \"exec $n</dev/null\" 2>/dev/null && [ $n -lt 9 ]; do n=$((n+1)); done; \
                        ulimit -Sn; ulimit -Hn; ulimit -n 4096 2>/dev/null && echo widened; exit 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn open_files_are_bounded_and_the_command_cannot_widen_that() {
    let Some(fixture) = Fixture::start().await else { return };
    let limits = Limits { open_files: Some(32), ..Limits::default() };
    let (status, output) = ask::run(&fixture.session, limited(ask::shell(OPEN_ALL), limits)).await;
    // Root may raise its own, but not without the capability for it.
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "32\n32\n"), "{status:?}");
    let limits = Limits { open_files: Some(5), ..Limits::default() };
    let script = "exec 3</dev/null; exec 4</dev/null && echo four; exec 5</dev/null; echo five";
    let (status, output) = ask::run(&fixture.session, limited(ask::shell(script), limits)).await;
    // The shell itself keeps its copies above 10, so it may notice earlier; never later.
    assert!(!output.contains("five") && status.exit_code != Some(0), "{output:?}: {status:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_narrows_the_workspaces_limits_and_never_widens_them() {
    let of_the_workspace = Limits { open_files: Some(64), file_bytes: Some(1024), ..Limits::default() };
    let Some(fixture) = Fixture::with(|workspace| workspace.limits = of_the_workspace).await else { return };
    for (asked, kept) in [(None, "64\n64\n"), (Some(128), "64\n64\n"), (Some(20), "20\n20\n")] {
        let limits = Limits { open_files: asked, ..Limits::default() };
        let (status, output) = ask::run(&fixture.session, limited(ask::shell(OPEN_ALL), limits)).await;
        assert_eq!(output, kept, "{asked:?}");
        let shown = Limits { open_files: kept.split('\n').next().and_then(|n| n.parse().ok()), ..of_the_workspace };
        assert_eq!(status.limits, shown, "{asked:?}");
    }
    for asked in [None, Some(1 << 20)] {
        let limits = Limits { file_bytes: asked, ..Limits::default() };
        let request = ask::command(["dd", "if=/dev/zero", "of=file", "bs=64K", "count=1", "status=none"]);
        let (status, _) = ask::run(&fixture.session, limited(request, limits)).await;
        assert_ended_by_the_kernel(&status, LimitName::FileSize, libc::SIGXFSZ);
        assert_eq!(fs::metadata(fixture.workspace().join("file")).unwrap().len(), 1024);
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_of_the_whole_tree_are_refused_where_nothing_can_keep_them() {
    let memory = Limits { memory_bytes: Some(1 << 30), ..Limits::default() };
    let pids = Limits { pids: Some(100), ..Limits::default() };
    let Some(fixture) = Fixture::start().await else { return };
    for (limits, name) in [(memory, "memory_bytes"), (pids, "pids")] {
        let error = fixture.session.exec(limited(ask::command(["true"]), limits)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitUnsupported, "{error:?}");
        assert!(error.message.contains(name), "{error:?}");
    }
    fixture.end().await;
    let Some(fixture) = Fixture::with(|workspace| workspace.limits = pids).await else { return };
    let error = fixture.session.exec(ask::command(["true"])).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitUnsupported, "{error:?}");
    fixture.end().await;
}
