//! Whatever a peer sends: each of its frames is answered once, what is good among them takes effect in order, and the
//! session comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codespace_domain::ProcessId;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::test_peer::{Peer, SOON, call, hello};
use crate::wire::frame::{self, MAX_FRAME};

/// Something that is answered, and after which the connection goes on.
#[derive(Debug, Clone)]
enum Piece {
    /// A request that takes effect.
    Write,
    /// A frame that is refused.
    Garbage(Vec<u8>),
    /// A length of 0.
    Empty,
}

/// How a peer leaves.
#[derive(Debug, Clone)]
enum Leave {
    /// It closes its sending direction, between two frames or inside one.
    Shutdown(Vec<u8>),
    /// A frame of one byte more than may be.
    TooLarge,
    /// It is gone, with a part of a frame sent.
    Drop(Vec<u8>),
}

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let request =
        |member: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"list_processes",{member}}}"#).into_bytes();
    let known = vec![
        b"{".to_vec(),
        b"null".to_vec(),
        b"\xff\xfe{}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\",\"\xc3\":1}".to_vec(),
        vec![b'['; 100_000],
        [br#"{"a":"#.repeat(50_000), b"1".to_vec(), b"}".repeat(50_000)].concat(),
        [vec![b'['; 200_000], vec![b']'; 200_000]].concat(),
        request(&format!(r#""params":{{"state":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000))),
        request(r#""params":{"state":1e400}"#),
        request(&format!(r#""params":{{"state":{}}}"#, "9".repeat(100_000))),
        request(r#""params":{"state":"running","state":"exited"}"#),
        request(r#""params":{},"params":{}"#),
        request(r#""params":[]"#),
        request(r#""id":2"#),
        br#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"fork_bomb"}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":{},"method":"list_processes"}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"client":7}}"#.to_vec(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 70_000],
    ];
    prop_oneof![prop::sample::select(known), prop::collection::vec(any::<u8>(), 1..200)]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![Just(Piece::Write), garbage().prop_map(Piece::Garbage), Just(Piece::Empty)];
    prop::collection::vec(piece, 0..12)
}

fn leave() -> impl Strategy<Value = Leave> {
    let part = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(Just(0), 1..4),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(|body| [vec![0, 0, 1, 0], body].concat()),
    ];
    prop_oneof![part.clone().prop_map(Leave::Shutdown), Just(Leave::TooLarge), part.prop_map(Leave::Drop)]
}

async fn throw(pieces: Vec<Piece>, cuts: Vec<usize>, leave: Leave) {
    let mut peer = Peer::greeted().await;
    let (mut bytes, mut written) = (Vec::new(), Vec::new());
    let answers = pieces.len();
    for piece in pieces {
        match piece {
            Piece::Write => {
                let data = format!("w{}", written.len());
                let params = json!({"process_id": ProcessId::mint(), "data": data});
                bytes.extend(frame::encode(&call(written.len() as u64, "write_stdin", &params)).unwrap());
                written.push(data);
            }
            Piece::Garbage(payload) => frame::write_frame(&mut bytes, &payload).await.unwrap(),
            Piece::Empty => bytes.extend([0; 4]),
        }
    }
    let (mut rest, mut turn) = (bytes.as_slice(), 0);
    let Peer { output, frames, .. } = &mut peer;
    let send = async {
        while !rest.is_empty() {
            let (now, later) = rest.split_at(cuts[turn % cuts.len()].min(rest.len()));
            output.write_all(now).await.unwrap();
            tokio::task::yield_now().await;
            (rest, turn) = (later, turn + 1);
        }
    };
    let read = async {
        let mut good = Vec::new();
        for _ in 0..answers {
            let payload = timeout(SOON, frames.next()).await.expect("an answer in time").unwrap().expect("an answer");
            let answer: Value = serde_json::from_slice(&payload).unwrap();
            match answer.get("error") {
                Some(error) => assert!([-32600, -32601, -32602].contains(&error["code"].as_i64().unwrap()), "{answer}"),
                None => good.push(answer["id"].as_u64().unwrap()),
            }
        }
        good.sort_unstable();
        good
    };
    let ((), good) = tokio::join!(send, read);
    assert_eq!(good, (0..written.len() as u64).collect::<Vec<_>>());
    assert_eq!(peer.runner.log(), written, "in the order in which they were sent");

    match leave {
        Leave::Shutdown(part) => {
            peer.output.write_all(&part).await.unwrap();
            peer.output.shutdown().await.unwrap();
            if !part.is_empty() {
                assert_eq!(peer.answer().await["error"]["code"], -32600);
            }
            peer.sees_the_end().await;
        }
        Leave::TooLarge => {
            peer.output.write_all(&u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes()).await.unwrap();
            assert_eq!(peer.answer().await["error"]["code"], -32600);
            peer.sees_the_end().await;
        }
        Leave::Drop(part) => {
            peer.output.write_all(&part).await.unwrap();
            let Peer { runner, frames, output, session, .. } = peer;
            drop((frames, output));
            runner.until_sessions(0).await;
            timeout(SOON, session).await.expect("the session's end in time").unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn garbage_in_any_form_is_answered_once_and_good_requests_between_it_take_effect(
        pieces in pieces(),
        cuts in prop::collection::vec(prop_oneof![1usize..9, 1000usize..100_000], 1..5),
        leave in leave(),
    ) {
        // A few bytes at a time for the small ones only: some garbage has some 100 KB.
        let cuts = if pieces.iter().any(|piece| matches!(piece, Piece::Garbage(bytes) if bytes.len() > 1000)) {
            vec![60_000]
        } else {
            cuts
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(throw(pieces, cuts, leave));
    }

    #[test]
    fn whatever_comes_in_the_place_of_hello_is_answered_once_and_takes_no_effect(first in garbage()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut peer = Peer::connect();
            peer.send_raw(&first).await;
            let answer = peer.answer().await;
            assert!(answer["error"]["code"].as_i64().is_some(), "{answer}");
            peer.sees_the_end().await;
            assert!(peer.runner.log().is_empty());
        });
    }
}

#[tokio::test]
async fn a_protocol_that_is_not_the_one_number_is_refused_however_it_is_written() {
    for (protocol, code) in [
        ("1.0", -32000),
        ("1e0", -32000),
        ("-1", -32000),
        ("100000000000000000000000000000", -32000),
        ("1e400", -32602),
        ("\"1\"", -32602),
        ("null", -32602),
        ("1,\"protocol\":1", -32602),
    ] {
        let mut peer = Peer::connect();
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"hello","params":{{"protocol":{protocol},"client":{{"name":"x"}}}}}}"#
        );
        peer.send_raw(text.as_bytes()).await;
        let answer = peer.answer().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(code)), "{protocol}: {answer}");
        peer.sees_the_end().await;
    }
}

#[tokio::test]
async fn an_id_of_thirty_digits_comes_back_with_each_of_them() {
    let mut peer = Peer::greeted().await;
    for id in ["123456789012345678901234567890", "1.0", "1e3", r#""\u0041""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"list_processes"}}"#);
        peer.send_raw(text.as_bytes()).await;
        let payload = timeout(SOON, peer.frames.next()).await.expect("an answer in time").unwrap().unwrap();
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"processes":[]}}}}"#);
        assert_eq!(String::from_utf8(payload).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_peer_that_leaves_with_its_buffers_full_ends_its_session() {
    let mut peer = Peer::greeted().await;
    let read = json!({"process_id": ProcessId::mint(), "max_bytes": 1024 * 1024});
    for id in 0..50 {
        peer.send(&call(id, "read_process", &read)).await;
    }
    // The first answer is under way: more than the socket takes is queued.
    while *peer.runner.reads_made.lock().unwrap() < 4 {
        tokio::task::yield_now().await;
    }
    let Peer { runner, frames, output, session, .. } = peer;
    drop((frames, output));
    runner.until_sessions(0).await;
    timeout(SOON, session).await.expect("the session's end in time").unwrap();
}

#[tokio::test]
async fn a_peer_that_has_closed_its_reading_side_ends_its_session_with_the_first_answer() {
    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    let runner = super::fake_runner::FakeRunner::new();
    let closing = tokio::sync::watch::Sender::new(false);
    let session = super::session::converse(theirs, runner.session(), closing.subscribe(), SOON);
    let session = tokio::spawn(session);
    let ours = ours.into_std().unwrap();
    ours.shutdown(std::net::Shutdown::Read).unwrap();
    let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
    ours.write_all(&frame::encode(&hello(1)).unwrap()).await.unwrap();
    runner.until_sessions(0).await;
    timeout(SOON, session).await.expect("the session's end in time").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_sends_garbage_and_does_not_read_is_held_back_and_loses_no_answer() {
    const FRAMES: usize = 100_000;
    let peer = Peer::greeted().await;
    let Peer { mut frames, mut output, session, runner, closing } = peer;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let sending = tokio::spawn(async move {
        for _ in 0..FRAMES {
            frame::write_frame(&mut output, b"garbage").await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
        output.shutdown().await.unwrap();
    });
    // Until it stands still: it may not send any more.
    let mut before = usize::MAX;
    while before != sent.load(Ordering::Relaxed) {
        before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(before < FRAMES, "all was taken of a peer that reads nothing");
    let mut answers = 0;
    while let Some(payload) = timeout(SOON, frames.next()).await.expect("an answer in time").unwrap() {
        assert!(payload.starts_with(br#"{"jsonrpc":"2.0","id":null,"error""#));
        answers += 1;
    }
    assert_eq!(answers, FRAMES);
    sending.await.unwrap();
    timeout(SOON, session).await.expect("the session's end in time").unwrap();
    runner.until_sessions(0).await;
    drop(closing);
}
