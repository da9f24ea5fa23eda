//! A command can leave nothing behind that gives privileges to others, and cannot reach the process that reports its end
//! by way of the uid that both have.
#![cfg(target_os = "linux")]

use std::os::unix::fs::MetadataExt as _;

use codespace_testkit::fixture::{Fixture, ask};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_gets_a_set_id_bit() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "cp /bin/true id; for mode in 4755 2755 6755; do chmod $mode id && echo set; done; chmod 755 id && echo plain
python3 -c 'import os
for bit in (0o4000, 0o2000):
    for name, call in ((\"open\", lambda: os.open(\"new\", os.O_CREAT | os.O_WRONLY, bit | 0o755)), (\"fchmod\", lambda: os.fchmod(3, bit | 0o755))):
        try: call(); print(\"set by\", name)
        except OSError as e: print(\"refused\", e.errno)' 3<id";
    let (_, output) = ask::run(&fixture.session, ask::shell(script)).await;
    assert!(output.contains("plain") && !output.contains("set"), "{output}");
    assert_eq!(output.matches("refused 1").count(), 4, "{output}");
    assert_eq!(fixture.workspace().join("id").metadata().unwrap().mode() & 0o7777, 0o755);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_the_process_that_reports_the_end_cannot_be_changed() {
    let Some(fixture) = Fixture::start().await else { return };
    let script = "python3 -c 'import resource, os
for limit in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
    try: resource.prlimit(1, limit, (0, 0)); print(\"changed\")
    except OSError as e: print(\"refused\", e.errno)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print(\"own\", resource.getrlimit(resource.RLIMIT_NOFILE))'";
    let (status, output) = ask::run(&fixture.session, ask::shell(script)).await;
    assert_eq!(output, "refused 1\nrefused 1\nrefused 1\nown (64, 64)\n");
    assert_eq!(status.exit_code, Some(0), "{status:?}");
    fixture.end().await;
}
