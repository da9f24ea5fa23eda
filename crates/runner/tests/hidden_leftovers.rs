//! What a command leaves behind has its linger and is then ended, also where it hides from the count: a process whose
//! first thread has ended is shown as a zombie while another thread of it goes on.
#![cfg(target_os = "linux")]

use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{EndedBy, State, StatusRequest};
use codespace_testkit::fixture::{Fixture, ask};

/// Its first thread ends; the other goes on for longer than any test.
const HALF_DEAD: &str = "import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print('ready', flush=True)
ctypes.CDLL(None).syscall({number}, 0)";

/// `exit` of one thread.
fn half_dead() -> String {
    HALF_DEAD.replace("{number}", &libc::SYS_exit.to_string())
}

async fn ends_after_its_linger(fixture: &Fixture, linger_ms: Option<u64>) {
    // The command itself ends only when the other's first thread has had its time to end.
    let script = "python3 -c \"$0\" & sleep 0.5; exit 3";
    let mut request = ask::command(["/bin/sh", "-c", script, &half_dead()]);
    request.linger_ms = linger_ms;
    let started = fixture.session.exec(request).await.expect("a start");
    let status = fixture
        .session
        .process_status(StatusRequest { process_id: started.process_id, wait_ms: 10_000 })
        .await
        .expect("a status");
    assert_eq!(
        (status.state, status.ended_by, status.exit_code),
        (State::Exited, Some(EndedBy::Command), Some(3)),
        "{status:?}"
    );
    let tree = status.tree.expect("an ended process has a tree");
    assert!(tree.confirmed && tree.leftovers == 1, "{tree:?}");
    assert!(Duration::from_millis(tree.took_ms) < Duration::from_secs(5), "{tree:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_first_thread_has_ended_is_counted_and_ended() {
    let Some(fixture) = Fixture::start().await else { return };
    for linger_ms in [None, Some(0), Some(100)] {
        ends_after_its_linger(&fixture, linger_ms).await;
    }
    fixture.end().await;
}
