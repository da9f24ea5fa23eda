//! What one connection may do, frame by frame.

use std::time::Duration;

use codespace_domain::ProcessId;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::session::MAX_PENDING;
use super::test_peer::{Peer, SOON, call, hello};
use crate::wire::frame::MAX_FRAME;

fn write(id: u64, data: &str) -> Value {
    call(id, "write_stdin", &json!({"process_id": ProcessId::mint(), "data": data}))
}

fn read(id: u64, wait_ms: u64, max_bytes: u64) -> Value {
    call(id, "read_process", &json!({"process_id": ProcessId::mint(), "wait_ms": wait_ms, "max_bytes": max_bytes}))
}

#[tokio::test]
async fn another_protocol_is_answered_with_an_error_and_closed() {
    let mut peer = Peer::connect();
    peer.send(&hello(2)).await;
    let answer = peer.answer().await;
    assert_eq!(answer["id"], "hi");
    assert_eq!(answer["error"]["data"]["code"], "PROTOCOL_MISMATCH");
    peer.sees_the_end().await;
}

#[tokio::test]
async fn another_protocol_with_other_params_is_still_a_mismatch() {
    let mut peer = Peer::connect();
    peer.send(&call(1, "hello", &json!({"protocol": 9, "who": []}))).await;
    assert_eq!(peer.answer().await["error"]["data"]["code"], "PROTOCOL_MISMATCH");
    peer.sees_the_end().await;
}

#[tokio::test]
async fn anything_but_hello_first_is_an_error_and_takes_no_effect() {
    let first: [Value; 4] =
        [write(1, "early"), call(1, "fork_bomb", &json!({})), call(1, "hello", &json!({})), json!([])];
    for message in first {
        let mut peer = Peer::connect();
        peer.send(&message).await;
        let answer = peer.answer().await;
        assert!(answer["error"]["code"].as_i64().is_some(), "{answer}");
        peer.sees_the_end().await;
        assert!(peer.runner.log().is_empty());
    }
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_sent_away() {
    let mut peer = Peer::connect_for(Duration::from_millis(200));
    peer.output.write_all(&[0, 0]).await.unwrap();
    let answer = peer.answer().await;
    assert_eq!(answer["error"]["data"]["code"], "TIMEOUT");
    peer.sees_the_end().await;
}

#[tokio::test]
async fn requests_take_effect_in_order_while_a_read_waits() {
    let mut peer = Peer::greeted().await;
    peer.send(&read(1, 600_000, 4)).await;
    for i in 0..200 {
        peer.send(&write(i + 2, &i.to_string())).await;
    }
    let mut answered = Vec::new();
    for _ in 0..200 {
        answered.push(peer.answer().await["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, (2..202).collect::<Vec<_>>());
    assert_eq!(peer.runner.log(), (0..200).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn garbage_between_requests_is_answered_and_harms_nothing() {
    let mut peer = Peer::greeted().await;
    for garbage in [b"{".as_slice(), b"\xff\xfe", b"null", b"[]", br#"{"jsonrpc":"1.0"}"#] {
        peer.send_raw(garbage).await;
        assert_eq!(peer.answer().await["error"]["code"], -32600, "{garbage:?}");
    }
    peer.output.write_all(&[0; 4]).await.unwrap();
    assert_eq!(peer.answer().await["error"]["code"], -32600);
    peer.send(&call(5, "list_processes", &json!({"state": "asleep"}))).await;
    assert_eq!(peer.answer().await["error"]["code"], -32602);
    peer.send(&call(6, "fork_bomb", &json!({}))).await;
    assert_eq!(peer.answer().await["error"]["code"], -32601);
    peer.send(&call(7, "list_processes", &json!({}))).await;
    assert_eq!(peer.answer().await, json!({"jsonrpc": "2.0", "id": 7, "result": {"processes": []}}));
}

#[tokio::test]
async fn a_frame_beyond_the_cap_is_answered_and_closes_the_connection() {
    let mut peer = Peer::greeted().await;
    peer.output.write_all(&u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes()).await.unwrap();
    peer.output.write_all(&[b'x'; 1000]).await.unwrap();
    let answer = peer.answer().await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(answer["error"]["message"].as_str().unwrap().contains("16777217"), "{answer}");
    peer.sees_the_end().await;
}

#[tokio::test]
async fn a_notification_takes_effect_and_is_never_answered() {
    let mut peer = Peer::greeted().await;
    for data in ["one", "two"] {
        let mut note = write(0, data);
        note.as_object_mut().unwrap().remove("id");
        peer.send(&note).await;
    }
    peer.send(&json!({"jsonrpc": "2.0", "method": "fork_bomb"})).await;
    peer.send(&write(9, "three")).await;
    assert_eq!(peer.answer().await["id"], 9);
    assert_eq!(peer.runner.log(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_runner_error_and_a_panic_are_both_answers() {
    let mut peer = Peer::greeted().await;
    peer.send(&call(1, "terminate_process", &json!({"process_id": ProcessId::mint()}))).await;
    assert_eq!(peer.answer().await["error"]["data"]["code"], "PROCESS_NOT_FOUND");
    peer.send(&call(2, "close_stdin", &json!({"process_id": ProcessId::mint()}))).await;
    let answer = peer.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32603)));
    peer.send(&write(3, "still there")).await;
    assert_eq!(peer.answer().await["id"], 3);
}

#[tokio::test]
async fn an_answer_that_fits_no_frame_is_an_error_with_advice() {
    let mut peer = Peer::greeted().await;
    peer.send(&read(1, 0, MAX_FRAME as u64)).await;
    let answer = peer.answer().await;
    assert_eq!(answer["error"]["data"]["code"], "RESOURCE_UNAVAILABLE");
    assert!(answer["error"]["data"]["hint"].as_str().unwrap().contains("max_bytes"));
}

#[tokio::test]
async fn a_peer_that_is_done_sending_still_gets_its_answers() {
    let mut peer = Peer::greeted().await;
    peer.send(&read(1, 300, 4)).await;
    peer.output.shutdown().await.unwrap();
    assert_eq!(peer.answer().await["id"], 1);
    peer.sees_the_end().await;
}

#[tokio::test]
async fn a_peer_that_hangs_up_ends_its_session_at_once_whatever_is_pending() {
    for waiting in [1, MAX_PENDING as u64 + 50] {
        let mut peer = Peer::greeted().await;
        for id in 0..waiting {
            peer.send(&read(id, 600_000, 4)).await;
        }
        let Peer { runner, frames, output, session, .. } = peer;
        drop((frames, output));
        runner.until_sessions(0).await;
        timeout(SOON, session).await.expect("the session's end in time").unwrap();
    }
}

#[tokio::test]
async fn more_requests_than_may_be_pending_wait_their_turn() {
    let mut peer = Peer::greeted().await;
    for id in 0..MAX_PENDING as u64 {
        peer.send(&read(id, 400, 4)).await;
    }
    peer.send(&write(9999, "late")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(peer.runner.log().is_empty(), "not looked at while all are pending");
    for _ in 0..=MAX_PENDING {
        peer.answer().await;
    }
    assert_eq!(peer.runner.log(), ["late"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_costs_a_bounded_number_of_answers() {
    let mut peer = Peer::greeted().await;
    for id in 0..100 {
        peer.send(&read(id, 0, 1024 * 1024)).await;
    }
    // Until the session stands still: the count no longer moves.
    let made = |peer: &Peer| *peer.runner.reads_made.lock().unwrap();
    let mut before = usize::MAX;
    while before != made(&peer) {
        before = made(&peer);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!((1..20).contains(&before), "{before} answers of 1 MiB were made for a peer that reads none");
    for _ in 0..100 {
        peer.answer().await;
    }
}

#[tokio::test]
async fn the_runners_end_answers_what_is_pending_and_closes() {
    let mut peer = Peer::greeted().await;
    peer.send(&read(1, 300, 4)).await;
    peer.send(&write(2, "x")).await;
    assert_eq!(peer.answer().await["id"], 2);
    peer.closing.send_replace(true);
    assert_eq!(peer.answer().await["id"], 1);
    peer.sees_the_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_peer_had_sent_whole_before_it_hung_up_takes_effect() {
    for (greeted, requests) in [(true, 1), (true, 60), (false, 5)] {
        for _ in 0..20 {
            let mut peer = if greeted { Peer::greeted().await } else { Peer::connect() };
            if !greeted {
                peer.send(&hello(1)).await;
            }
            for id in 0..requests {
                peer.send(&write(id, &id.to_string())).await;
            }
            let Peer { runner, frames, output, session, .. } = peer;
            // Without what greeted it read, so that the close is one with unread bytes, too.
            drop((frames, output));
            timeout(SOON, session).await.expect("the session's end in time").unwrap();
            assert_eq!(runner.log(), (0..requests).map(|id| id.to_string()).collect::<Vec<_>>());
        }
    }
}
