//! A Runner for the tests of the wire: it starts nothing, and its sessions write down what takes effect and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codespace_domain::{
    Empty, Encoding, Enforcement, ErrorCode, HelloReply, ListReply, Notification, OutputNotice, PROTOCOL, ReadReply,
    Reply, Request, ResizeReply, RunnerError, SandboxInfo, ServerInfo, State, StopReply, Stream, SubscribeRequest,
    WriteStdinReply,
};
use tokio::sync::watch;

use crate::api::{Pending, Runner, Subscribing};
use crate::subscription::Subscription;

/// What all sessions share.
#[derive(Clone)]
pub(super) struct FakeRunner {
    pub(super) log: Arc<Mutex<Vec<String>>>,
    pub(super) sessions: watch::Sender<usize>,
    pub(super) stopped: watch::Sender<bool>,
    /// How many answers of a read were made.
    pub(super) reads_made: Arc<Mutex<usize>>,
}

/// One connection's.
pub(super) struct FakeSession {
    shared: FakeRunner,
    ended: Arc<AtomicBool>,
}

impl FakeRunner {
    pub(super) fn new() -> Self {
        Self {
            log: Arc::default(),
            sessions: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
            reads_made: Arc::default(),
        }
    }

    pub(super) fn session(&self) -> FakeSession {
        self.sessions.send_modify(|count| *count += 1);
        FakeSession { shared: self.clone(), ended: Arc::default() }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until so many sessions are there.
    pub(super) async fn until_sessions(&self, wanted: usize) {
        let mut sessions = self.sessions.subscribe();
        let seen = tokio::time::timeout(Duration::from_secs(10), sessions.wait_for(|count| *count == wanted)).await;
        assert!(seen.is_ok(), "{} sessions instead of {wanted}", *self.sessions.borrow());
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.shared.sessions.send_modify(|count| *count -= 1);
    }
}

impl Runner for FakeSession {
    fn call(&self, request: Request) -> Pending {
        let write = |text: String| self.shared.log.lock().unwrap().push(text);
        match request {
            Request::Hello(_) => ready(Ok(Reply::Hello(HelloReply {
                protocol: PROTOCOL,
                server: ServerInfo { name: "fake".into(), version: "0".into(), pid: 1 },
                sandbox: SandboxInfo { engine: Enforcement::None, network_enforced: false, reasons: vec![] },
            }))),
            Request::WriteStdin(write_stdin) => {
                let written = write_stdin.data.len() as u64;
                write(write_stdin.data);
                ready(Ok(Reply::WriteStdin(WriteStdinReply { written })))
            }
            // A read waits for `wait_ms`, then brings `max_bytes` of x.
            Request::ReadProcess(read) => {
                let made = Arc::clone(&self.shared.reads_made);
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_millis(read.wait_ms)).await;
                    *made.lock().unwrap() += 1;
                    Ok(Reply::Read(ReadReply {
                        process_id: read.process_id,
                        cursor: read.cursor,
                        chunk: "x".repeat(usize::try_from(read.max_bytes).unwrap()),
                        encoding: Encoding::Utf8,
                        eof: false,
                        output_lost: false,
                        retained_from: 0,
                        total: 0,
                        state: State::Running,
                    }))
                })
            }
            Request::ProcessResize(size) => ready(Ok(Reply::Resize(ResizeReply { rows: size.rows, cols: size.cols }))),
            Request::CloseStdin(_) => Box::pin(async { panic!("a fault of the Runner, on purpose") }),
            Request::SignalProcess(signal) => {
                write(signal.signal.as_str().to_owned());
                ready(Ok(Reply::Done(Empty {})))
            }
            Request::ListProcesses(_) => ready(Ok(Reply::List(ListReply { processes: vec![] }))),
            Request::TerminateProcess(_) => ready(Err(RunnerError::new(ErrorCode::ProcessNotFound, "find it"))),
            Request::Stop(_) => {
                let stopped = self.shared.stopped.clone();
                Box::pin(async move {
                    stopped.send_replace(true);
                    Ok(Reply::Stop(StopReply { ended: 2 }))
                })
            }
            Request::WorkspaceInfo(_)
            | Request::Exec(_)
            | Request::ProcessStatus(_)
            | Request::TerminateWorkspace(_) => ready(Err(RunnerError::new(ErrorCode::Internal, "do that in a test"))),
        }
    }

    /// Tells of 64 KiB of x after the other, without end; a cursor of 0 is a process that is not there, and below 10 the
    /// start takes until the first signal.
    fn subscribe(&self, request: SubscribeRequest) -> Subscribing {
        let made = Arc::clone(&self.shared.reads_made);
        let log = Arc::clone(&self.shared.log);
        Box::pin(async move {
            if request.cursor == 0 {
                return Err(RunnerError::new(ErrorCode::ProcessNotFound, "find it"));
            }
            while request.cursor < 10 && log.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            Ok(Subscription::told_by(|listener| async move {
                let mut cursor = request.cursor;
                loop {
                    cursor += 65536;
                    *made.lock().unwrap() += 1;
                    let read = ReadReply {
                        process_id: request.process_id,
                        cursor,
                        chunk: "x".repeat(65536),
                        encoding: Encoding::Utf8,
                        eof: false,
                        output_lost: false,
                        retained_from: 0,
                        total: cursor,
                        state: State::Running,
                    };
                    let notice = OutputNotice { read, stream: Stream::Stdout };
                    if !listener.tell(Ok(Notification::Output(notice))).await {
                        return;
                    }
                }
            }))
        })
    }
}

fn ready(outcome: Result<Reply, RunnerError>) -> Pending {
    Box::pin(std::future::ready(outcome))
}
