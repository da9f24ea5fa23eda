//! Who is not served is told why, whatever he does meanwhile, and does not hold us up.
//!
//! The peer of another uid is a thread of this process that gives up root for itself alone, so these need root.

use std::fs::Permissions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codespace_domain::ListRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fake_runner::FakeRunner;
use super::turned_away::PATIENCE;
use super::{Listener, UdsClient, serve};
use crate::api::Runner as _;
use crate::wire::frame;

const FOREIGN: libc::uid_t = 65534;

/// A served socket that another uid can reach, as no Runner's can. `None` is a skip, which has been told.
fn open_to_others() -> Option<(TempDir, PathBuf)> {
    if !nix::unistd::geteuid().is_root() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line =
            format!("SKIPPED {test}: only root can become a peer of another uid; the run as root has this test\n");
        std::io::stderr().write_all(line.as_bytes()).ok();
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("run/runner.sock");
    let listener = Listener::bind(&socket).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (socket.parent().unwrap(), 0o755), (&socket, 0o666)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let runner = FakeRunner::new();
    tokio::spawn(async move { serve(listener, || runner.session(), std::future::pending()).await });
    Some((directory, socket))
}

/// Does it in a thread of another uid.
fn as_another_user<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(|| {
        // Not a thread of the runtime's pool, which would stay another user's.
        let thread = std::thread::spawn(move || {
            // SAFETY: the bare system call changes this thread alone, and takes three integers.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, FOREIGN, FOREIGN, FOREIGN) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            work()
        });
        thread.join().unwrap()
    })
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn hello() -> Vec<u8> {
    let params = json!({"protocol": 1, "client": {"name": "foreign", "version": "0"}});
    frame::encode(&json!({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": params})).unwrap()
}

/// The error, and then the end of the file.
fn read_refusal(stream: &mut UnixStream) -> Value {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the end of the file, and no reset");
    serde_json::from_slice(&bytes[frame::HEADER..]).expect("an error")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_of_another_uid_reads_the_refusal_and_then_the_end_whenever_it_writes() {
    let Some((_directory, socket)) = open_to_others() else { return };
    let refusals = as_another_user(move || {
        let mut refusals = Vec::new();
        for round in 0..300 {
            let mut stream = connect(&socket);
            // From at once to long after the refusal was sent.
            if round % 3 != 0 {
                std::thread::sleep(Duration::from_micros(round * 10));
            }
            stream.write_all(&hello()).expect("to write the hello");
            if round % 3 == 2 {
                stream.write_all(&vec![b'x'; 100_000]).expect("to write more than anybody asked for");
            }
            refusals.push(read_refusal(&mut stream));
        }
        refusals
    });
    for refusal in refusals.await.unwrap() {
        assert_eq!(refusal["error"]["data"]["code"], "UNAUTHORIZED", "{refusal}");
        assert_eq!(refusal["id"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_of_another_uid_that_never_leave_are_closed_and_keep_nobody_out() {
    let Some((_directory, socket)) = open_to_others() else { return };
    let path = socket.clone();
    // Held open by the others for as long as the client below needs.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let flood = as_another_user(move || {
        let mut streams: Vec<_> = (0..200).map(|_| connect(&path)).collect();
        let began = Instant::now();
        held.recv().unwrap();
        // One that goes on writing and never reads is cut off as well.
        let mut busy = connect(&path);
        busy.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let cut = loop {
            if let Err(error) = busy.write_all(&[0; 65536]) {
                break error.kind();
            }
        };
        let mut ends = 0;
        for stream in &mut streams {
            let mut bytes = Vec::new();
            // Told why or not, each was closed.
            ends += usize::from(stream.read_to_end(&mut bytes).is_ok());
        }
        (cut, ends, began.elapsed())
    });
    let client = codespace_domain::ClientInfo { name: "own".into(), version: "0".into() };
    let own = UdsClient::connect(&socket, client).await.unwrap();
    assert!(own.list_processes(ListRequest::default()).await.unwrap().processes.is_empty());
    release.send(()).unwrap();
    let (cut, ends, took) = flood.await.unwrap();
    assert_eq!((cut, ends), (ErrorKind::BrokenPipe, 200));
    assert!(took < PATIENCE * 8, "{took:?}");
}
