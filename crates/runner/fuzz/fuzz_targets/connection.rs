//! Any bytes to a whole connection: every frame that comes back is an answer, and the connection comes to its end.
#![no_main]

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use codespace_runner::domain::{
    ErrorCode, HelloReply, ListReply, PROTOCOL, Reply, Request, ResizeReply, RunnerError, SandboxInfo, ServerInfo,
    StopReply, SubscribeRequest, WriteStdinReply,
};
use codespace_runner::uds::{Listener, serve};
use codespace_runner::wire::frame::{FrameReader, encode};
use codespace_runner::{Pending, Runner, Subscribing};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

/// Starts nothing.
struct Nobody;

impl Runner for Nobody {
    fn call(&self, request: Request) -> Pending {
        let outcome = match request {
            Request::Hello(_) => Ok(Reply::Hello(HelloReply {
                protocol: PROTOCOL,
                server: ServerInfo { name: "nobody".into(), version: "0".into(), pid: 1 },
                sandbox: SandboxInfo {
                    engine: codespace_runner::domain::Enforcement::None,
                    network_enforced: false,
                    reasons: Vec::new(),
                },
            })),
            Request::WriteStdin(write) => Ok(Reply::WriteStdin(WriteStdinReply { written: write.data.len() as u64 })),
            Request::ProcessResize(size) => Ok(Reply::Resize(ResizeReply { rows: size.rows, cols: size.cols })),
            Request::ListProcesses(_) => Ok(Reply::List(ListReply { processes: Vec::new() })),
            Request::Stop(_) => Ok(Reply::Stop(StopReply { ended: 0 })),
            other => Err(RunnerError::new(ErrorCode::ProcessNotFound, format!("find what {other:?} is about"))),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn subscribe(&self, request: SubscribeRequest) -> Subscribing {
        let error = RunnerError::new(ErrorCode::ProcessNotFound, format!("find what {request:?} is about"));
        Box::pin(std::future::ready(Err(error)))
    }
}

struct World {
    runtime: Runtime,
    socket: PathBuf,
    _directory: TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("private/s");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(async { Listener::bind(&socket) }).expect("a socket");
        runtime.spawn(serve(listener, || Nobody, std::future::pending()));
        Self { runtime, socket, _directory: directory }
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

async fn converse(socket: &PathBuf, input: &[u8]) {
    let stream = UnixStream::connect(socket).await.expect("a connection");
    let (answers, mut output) = stream.into_split();
    // An even first byte greets; what follows is then behind the greeting.
    let greeted = input.first().is_some_and(|first| first % 2 == 0);
    let hello =
        json!({"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {"protocol": 1, "client": {"name": "f"}}});
    let hello = encode(&hello).expect("a frame");
    let send = async {
        let mut bytes = if greeted { hello } else { Vec::new() };
        bytes.extend_from_slice(input.get(1..).unwrap_or_default());
        // The Runner may have closed the connection half-way.
        if output.write_all(&bytes).await.is_ok() {
            output.shutdown().await.ok();
        }
    };
    let read = async {
        let mut frames = FrameReader::new(answers);
        // An error is a reset by a Runner that has left input unread.
        while let Ok(Some(payload)) = frames.next().await {
            let answer: Value = serde_json::from_slice(&payload).expect("an answer is JSON");
            assert_eq!(answer["jsonrpc"], "2.0");
            assert!(answer.get("id").is_some() && answer.get("result").is_some() != answer.get("error").is_some());
        }
    };
    tokio::join!(send, read);
}

fuzz_target!(|input: &[u8]| {
    WORLD.with_borrow(|world| {
        world.runtime.block_on(async {
            let conversation = tokio::time::timeout(Duration::from_secs(8), converse(&world.socket, input));
            conversation.await.expect("a connection comes to its end");
        });
    });
});
