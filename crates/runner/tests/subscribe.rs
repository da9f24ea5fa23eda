//! A subscription tells what a process writes, label by label in the order of arrival, and then its end, once.
#![cfg(target_os = "linux")]

use std::time::Duration;

use codespace_runner::domain::{
    EndedBy, ErrorCode, ExecRequest, Notification, OnFull, ProcessStatus, StdinMode, Stream, SubscribeRequest,
};
use codespace_runner::{Runner, Subscription};
use codespace_testkit::fixture::{RunnerProcess, ask};

const SOON: Duration = Duration::from_secs(30);

/// Everything that one subscription was told.
#[derive(Debug, Default)]
struct Told {
    /// Neighbours of one label are joined.
    output: Vec<(Stream, String)>,
    lost: bool,
    cursor: u64,
}

impl Told {
    async fn until_exited(subscription: &mut Subscription) -> (Self, ProcessStatus) {
        let mut told = Self::default();
        let mut eof = false;
        loop {
            let next = tokio::time::timeout(SOON, subscription.next()).await.expect("told in time");
            match next.expect("told of the end before the end").expect("a notification") {
                Notification::Output(notice) => {
                    assert!(!eof, "output after its end: {notice:?}");
                    told.lost |= notice.read.output_lost;
                    told.cursor = notice.read.cursor;
                    eof = notice.read.eof;
                    match told.output.last_mut() {
                        Some((stream, text)) if *stream == notice.stream => text.push_str(&notice.read.chunk),
                        _ if notice.read.chunk.is_empty() => {}
                        _ => told.output.push((notice.stream, notice.read.chunk)),
                    }
                }
                Notification::Exited(status) => {
                    assert!(eof, "exited before the end of the output");
                    assert_eq!(told.cursor, status.output_total);
                    assert!(subscription.next().await.is_none(), "nothing follows");
                    return (told, *status);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_labels_come_in_their_order_and_the_end_comes_last_for_every_listener() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let (one, other) = (runner.connect().await, runner.connect().await);
    let mut request = ask::shell("echo out1; read go; echo err1 >&2; read go; printf 한글; exit 3");
    request.stdin = StdinMode::Pipe;
    let id = one.exec(request).await.expect("a start").process_id;
    let mut listeners = Vec::new();
    for client in [&one, &other, &other] {
        listeners.push(client.subscribe(SubscribeRequest::new(id)).await.expect("a subscription"));
    }
    for seen in ["out1", "err1"] {
        ask::wait_for_output(&one, id, seen).await;
        one.write_stdin(ask::write(id, "\n")).await.expect("a write");
    }
    let expected =
        [(Stream::Stdout, "out1\n".into()), (Stream::Stderr, "err1\n".into()), (Stream::Stdout, "한글".into())];
    let mut statuses = Vec::new();
    for listener in &mut listeners {
        let (told, status) = Told::until_exited(listener).await;
        assert_eq!((&told.output[..], told.lost), (&expected[..], false));
        statuses.push(status);
    }
    assert_eq!(statuses[0].exit_code, Some(3));
    assert!(statuses.iter().all(|status| *status == statuses[0]));

    // It is as good after the end, and from any place.
    let later = SubscribeRequest { cursor: 5, ..SubscribeRequest::new(id) };
    let (told, status) = Told::until_exited(&mut one.subscribe(later).await.expect("a subscription")).await;
    assert_eq!((&told.output[..], &status), (&expected[1..], &statuses[0]));
    let past = SubscribeRequest { cursor: 17, ..SubscribeRequest::new(id) };
    assert_eq!(one.subscribe(past).await.expect_err("beyond the end").code, ErrorCode::CursorOutOfRange);
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_leaves_ends_nothing_and_one_that_stays_is_told_of_an_end_that_was_asked_for() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    let id = client.exec(ask::shell("echo ready; sleep 1000 & wait")).await.expect("a start").process_id;
    let leaves = client.subscribe(SubscribeRequest::new(id)).await.expect("a subscription");
    let mut stays = client.subscribe(SubscribeRequest::new(id)).await.expect("a subscription");
    drop(leaves);
    ask::wait_for_output(&client, id, "ready").await;
    assert_eq!(ask::running(&client).await.len(), 1);
    let ended = client.terminate_process(ask::terminate(id)).await.expect("a final status");
    let (told, status) = Told::until_exited(&mut stays).await;
    assert_eq!(told.output, [(Stream::Stdout, "ready\n".to_owned())]);
    assert_eq!((&status, status.ended_by), (&*ended, Some(EndedBy::Terminate)));
    runner.assert_nothing_is_left(&[], "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_listener_is_told_what_it_has_missed_or_holds_up_a_command_that_waits_for_it() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    // More than every buffer on the way holds: the listener's socket, the queue of its connection, the kept output.
    let flood = |on_full| {
        let request: ExecRequest = ask::shell("head -c 32M /dev/zero | tr '\\0' x");
        ExecRequest { on_full, output_bytes: Some(65536), ..request }
    };
    let dropping = client.exec(flood(OnFull::Drop)).await.expect("a start").process_id;
    let mut slow = client.subscribe(SubscribeRequest::new(dropping)).await.expect("a subscription");
    let ended = ask::ended(&client, dropping).await;
    assert_eq!((ended.exit_code, ended.output_total), (Some(0), 32 << 20), "the command did not wait: {ended:?}");
    let (told, _) = Told::until_exited(&mut slow).await;
    assert!(told.lost && told.output[0].1.len() < 32 << 20);

    let waiting = client.exec(flood(OnFull::Wait)).await.expect("a start").process_id;
    let mut only = client.subscribe(SubscribeRequest::new(waiting)).await.expect("a subscription");
    let (told, status) = Told::until_exited(&mut only).await;
    assert_eq!((told.lost, told.output[0].1.len(), status.exit_code), (false, 32 << 20, Some(0)));
    runner.assert_nothing_is_left(&[], "after the ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_runner_is_told_as_an_error_and_what_cannot_be_subscribed_to_is_refused() {
    let Some(mut runner) = RunnerProcess::start().await else { return };
    let client = runner.connect().await;
    let nobody = SubscribeRequest::new(codespace_runner::domain::ProcessId::mint());
    assert_eq!(client.subscribe(nobody).await.expect_err("no process").code, ErrorCode::ProcessNotFound);

    let id = client.exec(ask::shell("exec sleep 1000")).await.expect("a start").process_id;
    let mut subscription = client.subscribe(SubscribeRequest::new(id)).await.expect("a subscription");
    runner.kill();
    let told = tokio::time::timeout(SOON, subscription.next()).await.expect("told in time");
    let error = told.expect("told why").expect_err("a lost Runner");
    assert_eq!(error.code, ErrorCode::ResourceUnavailable, "{error:?}");
    assert!(subscription.next().await.is_none());
}
