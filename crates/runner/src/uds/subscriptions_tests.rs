//! What a connection is told unasked, and what that costs when nobody listens.

use std::time::Duration;

use codespace_domain::ProcessId;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::subscriptions::MAX_SUBSCRIPTIONS;
use super::test_peer::{Peer, call};

fn subscribe(id: u64, process_id: ProcessId, cursor: u64) -> Value {
    call(id, "subscribe", &json!({"process_id": process_id, "cursor": cursor}))
}

/// The cursors of the next notifications of `process_id`, up to the next answer.
async fn told_before_answer(peer: &mut Peer, process_id: ProcessId) -> (Vec<u64>, Value) {
    let mut cursors = Vec::new();
    loop {
        let message = peer.answer().await;
        if message.get("id").is_some() {
            return (cursors, message);
        }
        assert_eq!(message["method"], "output", "{message}");
        if message["params"]["process_id"] == json!(process_id) {
            cursors.push(message["params"]["cursor"].as_u64().unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_comes_before_what_is_told_and_a_refusal_tells_nothing() {
    let mut peer = Peer::greeted().await;
    peer.send(&subscribe(1, ProcessId::mint(), 0)).await;
    let refused = peer.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["code"]), (&json!(1), &json!("PROCESS_NOT_FOUND")));

    let process_id = ProcessId::mint();
    peer.send(&subscribe(2, process_id, 100)).await;
    assert_eq!(peer.answer().await, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    for nth in 1..=50_u64 {
        let told = peer.answer().await;
        assert_eq!((&told["method"], told.get("id")), (&json!("output"), None));
        assert_eq!(told["params"]["cursor"], 100 + nth * 65536);
        assert_eq!((&told["params"]["stream"], &told["params"]["encoding"]), (&json!("stdout"), &json!("utf-8")));
    }
    // Other requests are answered in between.
    peer.send(&call(3, "list_processes", &json!({}))).await;
    assert_eq!(told_before_answer(&mut peer, process_id).await.1["id"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_subscription_to_a_process_takes_the_place_of_the_first() {
    let mut peer = Peer::greeted().await;
    let process_id = ProcessId::mint();
    peer.send(&subscribe(1, process_id, 100)).await;
    peer.send(&subscribe(2, process_id, 7_000_000_000)).await;
    assert_eq!(peer.answer().await["id"], 1);
    let (_, second) = told_before_answer(&mut peer, process_id).await;
    assert_eq!(second["id"], 2);
    for _ in 0..100 {
        assert!(peer.answer().await["params"]["cursor"].as_u64().unwrap() > 7_000_000_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_subscriptions_to_a_starting_process_is_answered() {
    let mut peer = Peer::greeted().await;
    let process_id = ProcessId::mint();
    peer.send(&subscribe(1, process_id, 1)).await;
    peer.send(&subscribe(2, process_id, 2)).await;
    peer.send(&call(3, "signal_process", &json!({"process_id": process_id, "signal": "CONT"}))).await;
    let mut answered = Vec::new();
    while answered.len() < 3 {
        answered.push(told_before_answer(&mut peer, process_id).await.1["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_what_it_subscribed_to_costs_a_bounded_number_of_notifications() {
    let mut peer = Peer::greeted().await;
    for id in 0..10 {
        peer.send(&subscribe(id, ProcessId::mint(), 100)).await;
    }
    // Until the session stands still: the count no longer moves.
    let made = |peer: &Peer| *peer.runner.reads_made.lock().unwrap();
    let mut before = usize::MAX;
    while before != made(&peer) {
        before = made(&peer);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // 1 MiB in the outbox, what the socket holds, and a few under way for each.
    assert!((10..90).contains(&before), "{before} notifications of 64 KiB were made for a peer that reads none");
    // It can still ask for something, and finds the answer behind what it was told.
    peer.send(&call(99, "signal_process", &json!({"process_id": ProcessId::mint(), "signal": "TERM"}))).await;
    let asked = tokio::time::timeout(Duration::from_secs(10), async {
        while peer.runner.log().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(asked.await.is_ok(), "a request behind a flood was not taken");
    while told_before_answer(&mut peer, ProcessId::mint()).await.1["id"] != 99 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_done_sending_is_still_told_and_one_that_has_left_is_not() {
    let mut peer = Peer::greeted().await;
    peer.send(&subscribe(1, ProcessId::mint(), 100)).await;
    peer.output.shutdown().await.unwrap();
    assert_eq!(peer.answer().await["id"], 1);
    for _ in 0..200 {
        assert_eq!(peer.answer().await["method"], "output");
    }
    let runner = peer.runner.clone();
    drop(peer);
    runner.until_sessions(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_that_wait_for_their_answers_are_bounded_too() {
    let mut peer = Peer::greeted().await;
    let process_id = ProcessId::mint();
    for id in 0..=MAX_SUBSCRIPTIONS as u64 {
        peer.send(&subscribe(id, process_id, 1)).await;
    }
    let refused = peer.answer().await;
    assert_eq!(refused["id"], MAX_SUBSCRIPTIONS, "{refused}");
    assert_eq!(refused["error"]["data"]["code"], "RESOURCE_UNAVAILABLE", "{refused}");
}
