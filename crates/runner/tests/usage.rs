//! What a process is said to have used, and when it is said to have begun and ended.
#![cfg(target_os = "linux")]

use std::time::{Duration, SystemTime};

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{ExecRequest, ProcessStatus, Usage};
use codespace_testkit::fixture::{Fixture, ask};

/// Uses 300 ms of processor time in user mode: 30 ticks of the 14th field of its own line.
const BURN: &str = "set -- 0; while [ ${14:-0} -lt 30 ]; do read -r line < /proc/self/stat; set -- $line; done";

fn usage(status: &ProcessStatus) -> Usage {
    status.usage.expect("usage")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_the_whole_trees_with_those_who_were_waited_for_by_others() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        std::fs::write(fixture.workspace().join("burn"), BURN).expect("a script");
        // The work is done two levels below the command, and memory is held there.
        let script = "sh -c 'sh burn; head -c 60000000 /dev/zero | tail -n 1 > /dev/null; true'; true";
        let (status, _) = ask::run(&fixture.session, ask::shell(script)).await;
        let used = usage(&status);
        let processor = used.user_ms.expect("user time") + used.system_ms.expect("system time");
        assert!(processor >= 250, "{sandbox:?}: {status:?}");
        assert!(used.max_rss_bytes.is_some_and(|bytes| bytes > 50_000_000), "{sandbox:?}: {status:?}");
        assert!(used.wall_ms >= 250, "{sandbox:?}: {status:?}");
        let left = ExecRequest { linger_ms: Some(60_000), ..ask::shell("sh burn & exit 0") };
        let (status, _) = ask::run(&fixture.session, left).await;
        assert!(usage(&status).user_ms.is_some_and(|ms| ms >= 250), "{sandbox:?}: {status:?}");
        let (status, _) = ask::run(&fixture.session, ask::command(["sleep", "0.5"])).await;
        let used = usage(&status);
        assert!(used.wall_ms >= 500 && used.user_ms.unwrap_or(0) + used.system_ms.unwrap_or(0) < 400, "{status:?}");
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_a_cgroup_tells_also_what_was_used_by_those_who_were_ended_by_force() {
    let Some(fixture) = Fixture::start().await else { return };
    let session = &fixture.session;
    std::fs::write(fixture.workspace().join("burn"), BURN).expect("a script");
    let stay = "sh -c 'sh burn; echo ready; exec sleep 1000'";
    for (script, linger_ms) in [(stay.to_owned(), 0), (format!("{stay} & exit 0"), 60_000)] {
        let request = ExecRequest { linger_ms: Some(linger_ms), ..ask::shell(&script) };
        let id = session.exec(request).await.expect("a start").process_id;
        ask::wait_for_output(session, id, "ready").await;
        let helper = ask::running(session).await[0].pid.expect("the helper's pid");
        let cgroup = std::fs::read_to_string(format!("/proc/{helper}/cgroup")).expect("the helper's cgroup");
        let status = session.terminate_process(ask::terminate(id)).await.expect("a final status");
        // An ordinary user's Runner is mostly given none.
        if cgroup.contains(&id.to_string()) {
            assert!(usage(&status).user_ms.is_some_and(|ms| ms >= 250), "{status:?}");
        }
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_moments_are_utc_with_milliseconds_and_fit_the_time_that_it_took() {
    let Some(fixture) = Fixture::start().await else { return };
    let before = SystemTime::now();
    let (status, _) = ask::run(&fixture.session, ask::command(["sleep", "0.4"])).await;
    let ended = status.ended_at.clone().expect("a moment of the end");
    let moment = |text: &str| {
        assert!(text.len() == "2026-11-30T03:25:28.324Z".len() && text.ends_with('Z'), "{text}");
        humantime::parse_rfc3339(text).expect("RFC 3339")
    };
    let (began, ended) = (moment(&status.started_at), moment(&ended));
    let tolerance = Duration::from_millis(2);
    assert!(began + tolerance >= before && ended <= SystemTime::now(), "{status:?}");
    let took = ended.duration_since(began).expect("an end after the beginning");
    let wall = Duration::from_millis(usage(&status).wall_ms);
    assert!(took >= Duration::from_millis(400) && took.abs_diff(wall) < Duration::from_millis(500), "{status:?}");

    // While it runs there is no end; one that was ended by force has one like any other.
    let id =
        fixture.session.exec(ExecRequest { tty: true, ..ask::command(["sleep", "1000"]) }).await.unwrap().process_id;
    let running = &ask::running(&fixture.session).await[0];
    assert!(running.ended_at.is_none() && running.usage.is_none() && running.pid.is_some(), "{running:?}");
    let status = fixture.session.terminate_process(ask::terminate(id)).await.expect("a final status");
    assert!(status.ended_at.is_some() && status.pid.is_none() && status.started_at == running.started_at, "{status:?}");
    fixture.end().await;
}
