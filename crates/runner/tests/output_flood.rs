//! Output that nobody reads: it neither blocks the command nor grows memory, unless the command is to wait for a reader,
//! and then it still ends at once.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, OnFull, ReadRequest, State, StatusRequest, StreamSelection};
use codespace_testkit::fixture::{RunnerProcess, ask};
use codespace_testkit::{programs, tell};

/// Far above the budget of 1 MiB, far below the flood of 100 MB.
const MOST_GROWTH: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_nobody_reads_ends_and_the_runner_keeps_only_its_budget() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let flood = programs::install("flood_both", &runner.ground.workspace());
    let client = runner.connect().await;
    ask::run(&client, ask::command(["true"])).await;
    let before = runner.peak_memory();
    let began = Instant::now();
    let started = client.exec(ask::command([flood])).await.expect("a start");
    let status = ask::ended(&client, started.process_id).await;
    let growth = runner.peak_memory().saturating_sub(before);
    tell(&format!("output flood: 100 MB in {:?}, the Runner grew by {} KiB", began.elapsed(), growth >> 10));
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(0)), "{status:?}");
    assert_eq!(status.output_total, 100_000_000);
    assert!(growth < MOST_GROWTH, "the Runner grew by {growth} bytes");
    assert!(status.output_retained_from >= status.output_total - (1 << 20), "{status:?}");

    // The head is there, the middle is told to be lost, the latest is there.
    let head = ReadRequest { max_bytes: 1000, ..ReadRequest::new(started.process_id) };
    let head = client.read_process(head).await.expect("output");
    assert_eq!((head.chunk.len(), head.output_lost, head.eof), (1000, false, false));
    let middle = ReadRequest { cursor: 50_000_000, max_bytes: 4 << 20, ..ReadRequest::new(started.process_id) };
    let middle = client.read_process(middle).await.expect("output");
    assert!(
        middle.output_lost && middle.cursor > status.output_retained_from,
        "{} {}",
        middle.output_lost,
        middle.cursor
    );
    let mut latest = 0;
    for (stream, letter) in [(StreamSelection::Stdout, 'o'), (StreamSelection::Stderr, 'e')] {
        let tail = ReadRequest { tail_bytes: Some(100), stream, ..ReadRequest::new(started.process_id) };
        let tail = client.read_process(tail).await.expect("output");
        assert_eq!((tail.total, tail.eof), (50_000_000, true), "{stream:?}");
        assert!(tail.chunk.chars().all(|c| c == letter), "{stream:?}: {:?}", tail.chunk);
        latest = latest.max(tail.chunk.len());
    }
    // The budget is both streams' together: who ended long before the other has nothing left of its end.
    assert_eq!(latest, 100);
    runner.assert_nothing_is_left(&[], "after the flood");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_waits_for_a_reader_waits_and_an_end_still_comes_at_once() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let flood = programs::install("flood_both", &runner.ground.workspace());
    let client = runner.connect().await;
    let mut request = ask::command([flood.clone()]);
    request.on_full = OnFull::Wait;
    let started = client.exec(request).await.expect("a start");

    // It stands still once budget and pipes are full.
    let full = client.process_status(StatusRequest { process_id: started.process_id, wait_ms: 1000 }).await.unwrap();
    let later = client.process_status(StatusRequest { process_id: started.process_id, wait_ms: 500 }).await.unwrap();
    assert_eq!((later.state, later.output_total), (State::Running, full.output_total));
    assert!((1 << 20..8 << 20).contains(&later.output_total), "{later:?}");

    let began = Instant::now();
    let status = client.terminate_process(ask::terminate(started.process_id)).await.expect("a final status");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(status.ended_by, Some(EndedBy::Terminate));
    assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed) && status.eof, "{status:?}");

    // With a reader nothing is lost.
    let mut request = ask::command([flood.as_str(), "2000000"]);
    request.on_full = OnFull::Wait;
    let (status, output) = ask::run_reading(&client, request).await;
    assert_eq!((status.exit_code, output.len()), (Some(0), 4_000_000));
    runner.assert_nothing_is_left(&[], "after the flood");
}
