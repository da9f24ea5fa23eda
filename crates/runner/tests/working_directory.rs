//! Where a command runs: any directory of its workspace that is there at this moment, whatever it was called, and whatever
//! has become of the Runner's own.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{ErrorCode, ExecRequest, Stage};
use codespace_testkit::fixture::{Fixture, ask};

fn pwd_in(cwd: &str) -> ExecRequest {
    ExecRequest { cwd: Some(cwd.into()), ..ask::command(["pwd"]) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_form_of_a_name_leads_to_its_directory_or_says_why_not() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        let root = fixture.workspace();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for (link, target) in
            [("in", "a"), ("out", "/tmp"), ("up", ".."), ("loop", "loop"), ("dangling", "nowhere"), ("absolute", "")]
        {
            let target = if target.is_empty() { root.join("a") } else { target.into() };
            symlink(target, root.join(link)).unwrap();
        }
        let absolute = root.join("a").to_str().expect("text").to_owned();
        for (cwd, below) in [
            ("", ""),
            (".", ""),
            ("a", "a"),
            ("a/", "a"),
            ("./a/../a//b", "a/b"),
            ("in/b", "a/b"),
            ("absolute", "a"),
            (absolute.as_str(), "a"),
        ] {
            let (_, output) = ask::run(&fixture.session, pwd_in(cwd)).await;
            let expected = if below.is_empty() { root.clone() } else { root.join(below) };
            assert_eq!(output, format!("{}\n", expected.display()), "{sandbox:?} {cwd}");
        }
        for cwd in ["..", "../..", "a/../..", "out", "up", "/", "/tmp", "/etc/passwd"] {
            let error = fixture.session.exec(pwd_in(cwd)).await.expect_err(cwd);
            assert_eq!(error.code, ErrorCode::PathEscape, "{sandbox:?} {cwd}: {error:?}");
        }
        for (cwd, errno) in [
            ("nowhere", libc::ENOENT),
            ("a/../nowhere", libc::ENOENT),
            ("dangling", libc::ENOENT),
            ("file", libc::ENOTDIR),
            ("file/x", libc::ENOTDIR),
            ("loop", libc::ELOOP),
            ("n".repeat(300).as_str(), libc::ENAMETOOLONG),
        ] {
            let error = fixture.session.exec(pwd_in(cwd)).await.expect_err(cwd);
            let told = (error.code, error.stage, error.errno);
            assert_eq!(told, (ErrorCode::ProcessSpawnFailed, Some(Stage::Cwd), Some(errno)), "{sandbox:?} {cwd}");
        }
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_gone_spoils_only_what_runs_in_it() {
    let Some(fixture) = Fixture::start().await else { return };
    let (session, root) = (&fixture.session, fixture.workspace());
    fs::create_dir(root.join("short-lived")).unwrap();
    let script =
        "echo ready; until ! test -e ../short-lived; do sleep 0.05; done; echo x 2>/dev/null > f || cd .. && pwd";
    let request = ExecRequest { cwd: Some("short-lived".into()), ..ask::shell(script) };
    let id = session.exec(request).await.expect("a start").process_id;
    ask::wait_for_output(session, id, "ready").await;
    fs::remove_dir(root.join("short-lived")).unwrap();
    assert_eq!(ask::ended(session, id).await.exit_code, Some(0));
    assert_eq!(ask::output(session, id).await, format!("ready\n{}\n", root.display()));
    assert_eq!(session.exec(pwd_in("short-lived")).await.unwrap_err().stage, Some(Stage::Cwd));
    let (status, _) = ask::run(session, ask::command(["pwd"])).await;
    assert_eq!(status.exit_code, Some(0));

    // The same for the whole workspace, until it is there again.
    let aside = root.with_extension("aside");
    fs::rename(&root, &aside).unwrap();
    for _ in 0..2 {
        let error = session.exec(ask::command(["pwd"])).await.unwrap_err();
        assert_eq!((error.stage, error.errno), (Some(Stage::Prepare), Some(libc::ENOENT)), "{error:?}");
        assert!(error.message.contains(root.to_str().unwrap()), "{error:?}");
    }
    fs::rename(&aside, &root).unwrap();
    let (_, output) = ask::run(session, ask::command(["pwd"])).await;
    assert_eq!(output, format!("{}\n", root.display()));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runners_own_directory_may_go() {
    let Some(fixture) = Fixture::start().await else { return };
    let home = std::env::current_dir().expect("our directory");
    let gone = fixture.ground.private().join("gone");
    fs::create_dir(&gone).unwrap();
    std::env::set_current_dir(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    for tty in [false, true] {
        let request = ExecRequest { tty, ..ask::command(["pwd"]) };
        let (_, output) = ask::run(&fixture.session, request).await;
        assert_eq!(output.trim_end(), fixture.workspace().to_str().unwrap(), "tty {tty}");
    }
    std::env::set_current_dir(home).unwrap();
    fixture.end().await;
}
