//! Server and client together, over a real socket.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codespace_domain::{
    ClientInfo, Encoding, ErrorCode, ListRequest, ProcessId, ReadRequest, Request, SignalName, SignalRequest,
    StopRequest, WriteStdinRequest,
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fake_runner::FakeRunner;
use super::{ConnectError, Listener, UdsClient, serve};
use crate::api::Runner as _;

const SOON: Duration = Duration::from_secs(10);

struct Served {
    _directory: TempDir,
    socket: PathBuf,
    runner: FakeRunner,
    server: JoinHandle<()>,
}

fn start() -> Served {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("run/runner.sock");
    let listener = Listener::bind(&socket).unwrap();
    let runner = FakeRunner::new();
    let (for_sessions, mut stopped) = (runner.clone(), runner.stopped.subscribe());
    let server = tokio::spawn(async move {
        let shutdown = async { drop(stopped.wait_for(|stopped| *stopped).await) };
        serve(listener, || for_sessions.session(), shutdown).await;
    });
    Served { _directory: directory, socket, runner, server }
}

async fn connect(socket: &Path) -> UdsClient {
    UdsClient::connect(socket, client_info()).await.unwrap()
}

fn client_info() -> ClientInfo {
    ClientInfo { name: "test".into(), version: "0".into() }
}

fn write(data: &str) -> WriteStdinRequest {
    WriteStdinRequest { process_id: ProcessId::mint(), data: data.into(), encoding: Encoding::Utf8, write_key: None }
}

#[tokio::test]
async fn a_client_asks_in_order_and_gets_typed_answers() {
    let served = start();
    let client = connect(&served.socket).await;
    assert_eq!(client.server().unwrap().server.name, "fake");
    let waiting = client.read_process(ReadRequest { wait_ms: 600_000, ..ReadRequest::new(ProcessId::mint()) });
    let writes: Vec<_> = (0..100).map(|i| client.write_stdin(write(&i.to_string()))).collect();
    for write in writes {
        assert!(write.await.unwrap().written > 0);
    }
    assert_eq!(served.runner.log(), (0..100).map(|i| i.to_string()).collect::<Vec<_>>());
    let signal = SignalRequest { process_id: ProcessId::mint(), signal: SignalName::Int };
    client.signal_process(signal).await.unwrap();
    assert!(client.list_processes(ListRequest::default()).await.unwrap().processes.is_empty());
    drop(waiting);
}

#[tokio::test]
async fn two_clients_have_a_session_each_and_one_that_leaves_takes_only_its_own() {
    let served = start();
    let (one, two) = (connect(&served.socket).await, connect(&served.socket).await);
    served.runner.until_sessions(2).await;
    let read = ReadRequest { wait_ms: 600_000, ..ReadRequest::new(ProcessId::mint()) };
    let waiting = one.call(Request::ReadProcess(read));
    drop(one);
    served.runner.until_sessions(1).await;
    let error = waiting.await.unwrap_err();
    assert!(error.message.contains("connection"), "{error}");
    two.write_stdin(write("x")).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_or_sends_garbage_delays_no_other() {
    let served = start();
    let mut silent = UnixStream::connect(&served.socket).await.unwrap();
    silent.write_all(&[0, 0, 0, 3, b'{']).await.unwrap();
    let mut garbage = UnixStream::connect(&served.socket).await.unwrap();
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    let client = connect(&served.socket).await;
    timeout(SOON, client.write_stdin(write("x"))).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_is_answered_before_the_connections_close_and_the_path_is_free_afterwards() {
    let served = start();
    let (asker, other) = (connect(&served.socket).await, connect(&served.socket).await);
    assert_eq!(asker.stop(StopRequest::default()).await.unwrap().ended, 2);
    timeout(SOON, asker.closed()).await.unwrap();
    timeout(SOON, other.closed()).await.unwrap();
    timeout(SOON, served.server).await.unwrap().unwrap();
    assert!(!served.socket.exists());
    let late = other.list_processes(ListRequest::default()).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ResourceUnavailable);
    Listener::bind(&served.socket).unwrap();
}

#[tokio::test]
async fn a_lost_runner_fails_what_waits_and_what_is_asked_later() {
    let served = start();
    let client = connect(&served.socket).await;
    let waiting = client.read_process(ReadRequest { wait_ms: 600_000, ..ReadRequest::new(ProcessId::mint()) });
    served.server.abort();
    let error = timeout(SOON, waiting).await.unwrap().unwrap_err();
    assert!(error.message.contains("closed"), "{error}");
    assert!(client.write_stdin(write("x")).await.is_err());
}

#[tokio::test]
async fn nobody_listening_is_said_with_the_path_and_advice() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let missing = directory.path().join("none.sock");
    let error = UdsClient::connect(&missing, client_info()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NobodyListens { .. }));
    assert!(error.to_string().contains("none.sock") && error.hint().unwrap().contains("serve"));
    // A stale one, whose Runner is gone.
    drop(std::os::unix::net::UnixListener::bind(&missing).unwrap());
    let error = UdsClient::connect(&missing, client_info()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NobodyListens { .. }));
    let long = directory.path().join("x".repeat(108));
    let error = UdsClient::connect(&long, client_info()).await.unwrap_err();
    assert!(matches!(error, ConnectError::PathTooLong { .. }));
}
