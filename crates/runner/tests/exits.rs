//! How a command ended, and why one did not start, as the contract says: exit codes, signals, stages and error numbers.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codespace_runner::Runner;
use codespace_runner::domain::{
    ByteString, EndedBy, ErrorCode, ExecRequest, ListRequest, RunnerError, Stage, Termination,
};
use codespace_testkit::fixture::{Fixture, ask};

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// The start fails, and nothing is left of it: no slot, no process.
async fn refusal(fixture: &Fixture, request: ExecRequest) -> RunnerError {
    let mut what = format!("{:?}", request.command);
    what.truncate(200);
    let error = fixture.session.exec(request).await.expect_err(&what);
    let listed = fixture.session.list_processes(ListRequest::default()).await.expect("a list").processes;
    assert!(listed.is_empty(), "{what}: {listed:?}");
    fixture.assert_nothing_is_left(&what).await;
    error
}

async fn assert_fails_at(fixture: &Fixture, request: ExecRequest, stage: Stage, errno: Option<i32>) {
    let error = refusal(fixture, request).await;
    assert_eq!(
        (error.code, error.stage, error.errno),
        (ErrorCode::ProcessSpawnFailed, Some(stage), errno),
        "{error:?}"
    );
    assert!(error.message.len() < 4096, "a message of {} bytes", error.message.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exit_codes_and_signals_are_the_commands_own() {
    let Some(fixture) = Fixture::start().await else { return };
    for code in [0, 1, 77, 255] {
        let (status, _) = ask::run(&fixture.session, ask::shell(&format!("exit {code}"))).await;
        assert_eq!((status.termination, status.exit_code), (Some(Termination::Exited), Some(code)), "{status:?}");
        assert_eq!((status.ended_by, status.signal), (Some(EndedBy::Command), None));
        assert!(status.tree.is_some_and(|tree| tree.confirmed && tree.leftovers == 0));
    }
    for (number, name) in [(11, "SEGV"), (9, "KILL"), (15, "TERM"), (6, "ABRT")] {
        let (status, _) = ask::run(&fixture.session, ask::shell(&format!("kill -{name} $$; sleep 1000"))).await;
        assert_eq!((status.termination, status.exit_code), (Some(Termination::Signaled), None), "{status:?}");
        let signal = status.signal.expect("a signal");
        assert_eq!(
            (signal.number, signal.name.as_deref(), status.ended_by),
            (number, Some(name), Some(EndedBy::Command))
        );
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_start_that_fails_names_its_stage_and_error_number_and_leaves_nothing() {
    let Some(fixture) = Fixture::start().await else { return };
    let workspace = fixture.workspace();
    fs::create_dir(workspace.join("directory")).unwrap();
    fs::write(workspace.join("not-executable"), "#!/bin/sh\n").unwrap();
    executable(&workspace.join("no-first-line"), "echo hi\n");
    executable(&workspace.join("no-interpreter"), "#!/no/such/interpreter\n");

    let exec = [
        ("no-such-program", libc::ENOENT),
        ("./no-such-program", libc::ENOENT),
        ("./directory", libc::EACCES),
        ("./not-executable", libc::EACCES),
        ("./no-first-line", libc::ENOEXEC),
        ("./no-interpreter", libc::ENOENT),
    ];
    for (program, errno) in exec {
        assert_fails_at(&fixture, ask::command([program]), Stage::Exec, Some(errno)).await;
    }

    let mut in_missing = ask::command(["true"]);
    in_missing.cwd = Some("no/such/directory".into());
    assert_fails_at(&fixture, in_missing, Stage::Cwd, Some(libc::ENOENT)).await;
    let mut in_file = ask::command(["true"]);
    in_file.cwd = Some("not-executable".into());
    assert_fails_at(&fixture, in_file, Stage::Cwd, Some(libc::ENOTDIR)).await;
    for outside in ["..", "/etc", "directory/../.."] {
        let mut escape = ask::command(["true"]);
        escape.cwd = Some(outside.into());
        assert_eq!(refusal(&fixture, escape).await.code, ErrorCode::PathEscape, "{outside}");
    }
    std::os::unix::fs::symlink("/etc", workspace.join("link")).unwrap();
    let mut through_a_link = ask::command(["true"]);
    through_a_link.cwd = Some("link".into());
    assert_eq!(refusal(&fixture, through_a_link).await.code, ErrorCode::PathEscape);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_argv_is_refused_when_it_is_empty_or_too_long_and_passed_whole_when_it_is_not() {
    let Some(fixture) = Fixture::start().await else { return };
    let none: [ByteString; 0] = [];
    assert_eq!(refusal(&fixture, ask::command(none)).await.code, ErrorCode::InvalidCommand);
    assert_eq!(refusal(&fixture, ask::command([""])).await.code, ErrorCode::InvalidCommand);
    assert_eq!(refusal(&fixture, ask::command(["echo", "a\0b"])).await.code, ErrorCode::InvalidCommand);

    let one_of_two_mib = ask::command(["/bin/true".to_owned(), "x".repeat(2 << 20)]);
    assert_fails_at(&fixture, one_of_two_mib, Stage::Exec, Some(libc::E2BIG)).await;
    let words = std::iter::repeat_n("x".repeat(64 << 10), 128);
    let many = ask::command(std::iter::once("/bin/true".to_owned()).chain(words));
    assert_fails_at(&fixture, many, Stage::Exec, Some(libc::E2BIG)).await;

    let word = "x".repeat(100 * 1024);
    let (status, output) = ask::run(&fixture.session, ask::command(["printf", "%s", &word])).await;
    assert_eq!(status.exit_code, Some(0));
    assert!(output == word, "{} bytes came out", output.len());
    // Bytes that are no text arrive as they are.
    let odd = ask::command([
        "sh".into(),
        "-c".into(),
        "printf %s \"$1\" | od -An -tx1".into(),
        "sh".into(),
        ByteString::from(vec![0xff, 0x20, 0xfe]),
    ]);
    let (_, output) = ask::run(&fixture.session, odd).await;
    assert_eq!(output.trim(), "ff 20 fe");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_workspace_that_was_removed_is_the_stage_prepare() {
    let Some(fixture) = Fixture::start().await else { return };
    let root = fixture.workspace();
    fs::remove_dir_all(&root).unwrap();
    let error = refusal(&fixture, ask::command(["true"])).await;
    assert_eq!((error.code, error.stage), (ErrorCode::ProcessSpawnFailed, Some(Stage::Prepare)), "{error:?}");
    assert!(error.message.contains(root.to_str().unwrap()), "{error:?}");
    fixture.end().await;
}
