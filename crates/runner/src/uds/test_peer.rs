//! For the tests: the peer's end of a connection whose session asks a fake Runner.

use std::time::Duration;

use codespace_domain::ClientInfo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fake_runner::FakeRunner;
use super::session::{HELLO_DEADLINE, converse};
use crate::wire::frame::{self, FrameReader};

/// Nothing here takes longer, unless it hangs.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// The peer's end of a connection, and the session behind it.
pub(super) struct Peer {
    pub(super) runner: FakeRunner,
    pub(super) frames: FrameReader<OwnedReadHalf>,
    pub(super) output: OwnedWriteHalf,
    pub(super) closing: watch::Sender<bool>,
    pub(super) session: JoinHandle<()>,
}

impl Peer {
    pub(super) fn connect() -> Self {
        Self::connect_for(HELLO_DEADLINE)
    }

    pub(super) fn connect_for(hello_deadline: Duration) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let runner = FakeRunner::new();
        let closing = watch::Sender::new(false);
        let session = tokio::spawn(converse(theirs, runner.session(), closing.subscribe(), hello_deadline));
        let (input, output) = ours.into_split();
        Self { runner, frames: FrameReader::new(input), output, closing, session }
    }

    pub(super) async fn greeted() -> Self {
        let mut peer = Self::connect();
        peer.send(&hello(1)).await;
        assert_eq!(peer.answer().await["result"]["protocol"], 1);
        peer
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.output.write_all(&frame::encode(message).unwrap()).await.unwrap();
    }

    pub(super) async fn send_raw(&mut self, payload: &[u8]) {
        frame::write_frame(&mut self.output, payload).await.unwrap();
    }

    pub(super) async fn answer(&mut self) -> Value {
        let payload = timeout(SOON, self.frames.next()).await.expect("an answer in time").unwrap();
        serde_json::from_slice(&payload.expect("an answer before the end")).unwrap()
    }

    pub(super) async fn sees_the_end(&mut self) {
        let end = timeout(SOON, self.frames.next()).await.expect("the end in time");
        assert!(matches!(end, Ok(None)), "{end:?}");
        // One that has broken the protocol is waited for a while, so that it can read what it did wrong.
        self.output.shutdown().await.ok();
        timeout(SOON, &mut self.session).await.expect("the session's end in time").unwrap();
        self.runner.until_sessions(0).await;
    }
}

pub(super) fn hello(protocol: u32) -> Value {
    let client = ClientInfo { name: "test".into(), version: "0".into() };
    json!({"jsonrpc": "2.0", "id": "hi", "method": "hello", "params": {"protocol": protocol, "client": client}})
}

pub(super) fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
