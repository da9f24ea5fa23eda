//! What a sandboxed command sees, reaches and may do, looked at from inside.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codespace_runner::domain::{EndedBy, Profile};
use codespace_testkit::fixture::{Fixture, RunnerProcess, ask};
use codespace_testkit::programs;
use serde_json::{Value, json};

const DONE: i64 = 0;

fn parsed(output: &str) -> Value {
    serde_json::from_str(output.trim()).unwrap_or_else(|error| panic!("{error}: {output}"))
}

async fn look_around(fixture: &Fixture, arguments: &[String]) -> Value {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (status, output) = ask::run(&fixture.session, fixture.program("look_around", &arguments)).await;
    assert_eq!(status.exit_code, Some(0), "{status:?}: {output}");
    assert!(status.tree.is_some_and(|tree| tree.confirmed));
    parsed(&output)
}

/// The outcome of `what`: 0, or an error number.
fn outcome(seen: &Value, what: &str) -> i64 {
    seen[what].as_i64().unwrap_or_else(|| panic!("{what} was not tried: {seen:#}"))
}

fn assert_refused(seen: &Value, what: &str) {
    assert!(outcome(seen, what) > DONE, "{what} was possible: {seen:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workspace_and_a_private_tmp_are_writable_and_nothing_else_is() {
    let Some(fixture) = Fixture::start().await else { return };
    let workspace = fixture.workspace().display().to_string();
    let on_the_host = tempfile::Builder::new().prefix("codespace-host-").tempfile_in("/tmp").unwrap();
    let writable = [workspace.as_str(), "/tmp", "/dev/shm"];
    let read_only = [
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/proc",
        "/proc/sys/kernel",
        "/sys",
        "/var/tmp",
        "/root",
        "/home",
        "/dev/pts",
    ];
    let arguments: Vec<String> = writable.iter().chain(&read_only).map(|path| format!("write={path}")).collect();
    let seen = look_around(&fixture, &arguments).await;
    for path in writable {
        assert_eq!(outcome(&seen, &format!("write={path}")), DONE, "{path}: {seen:#}");
    }
    for path in read_only {
        assert_refused(&seen, &format!("write={path}"));
    }
    assert!(fixture.workspace().join("look_around.probe").is_file());
    assert!(!Path::new("/tmp/look_around.probe").exists(), "the host's /tmp was written to");
    let tmp = seen["tmp_entries"].to_string();
    assert!(on_the_host.path().is_file() && !tmp.contains("codespace-host-"), "the host's /tmp was seen: {tmp}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_workspace_is_read_only() {
    let Some(fixture) = Fixture::with(|workspace| workspace.profile = Profile::ReadOnly).await else { return };
    let workspace = fixture.workspace().display().to_string();
    let seen = look_around(&fixture, &[format!("write={workspace}"), "write=/tmp".into()]).await;
    assert_eq!(outcome(&seen, &format!("write={workspace}")), i64::from(libc::EROFS), "{seen:#}");
    assert_eq!(outcome(&seen, "write=/tmp"), DONE, "{seen:#}");
    assert!(!fixture.workspace().join("look_around.probe").exists());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_of_the_whole_disk_has_proc_and_dev_of_its_own() {
    let whole = |workspace: &mut codespace_policy::Workspace| {
        workspace.root = "/".into();
        workspace.allow_broad_root = true;
    };
    let Some(fixture) = Fixture::with(whole).await else { return };
    let writable = fixture.workspace().display().to_string();
    let script = format!(
        "test -w /proc/sys/kernel/core_pattern && echo SYSCTL; echo x > /dev/null || echo NULL; \
         test -d /proc/self/task/$$ || echo PROC; test $$ -lt 10 || echo PID; \
         find /usr -maxdepth 0 -writable; echo x > {writable}/made && echo done"
    );
    let (status, output) = ask::run(&fixture.session, ask::shell(&script)).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "done\n"), "{status:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_home_other_directories_secrets_of_etc_and_the_runners_own_files_are_not_seen() {
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = elsewhere.path().join("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    for secret in [home.join(".ssh/id_test"), elsewhere.path().join("secret")] {
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let environment = [("HOME", OsString::from(&home)), ("SECRET_TOKEN", "hunter2".into())];
    let Some(mut runner) = RunnerProcess::with(json!({"filesystem": {"home": "toolchains"}}), &environment).await
    else {
        return;
    };
    let program = programs::install("look_around", &runner.ground.workspace());
    let client = runner.connect().await;
    let hidden = [
        home.join(".ssh/id_test"),
        home.join(".ssh"),
        elsewhere.path().join("secret"),
        runner.socket(),
        runner.ground.private().join("registry.json"),
        runner.ground.home(),
        "/etc/shadow".into(),
        "/etc/gshadow".into(),
        "/root/.ssh".into(),
        "/proc/1/environ".into(),
        "/proc/kcore".into(),
        "/proc/sysrq-trigger".into(),
    ];
    let arguments = hidden.iter().map(|path| format!("read={}", path.display()));
    let public = ["/etc/passwd", "/usr/bin"].map(|path| format!("read={path}"));
    let argv: Vec<String> = std::iter::once(program).chain(arguments.clone()).chain(public.clone()).collect();
    let (status, output) = ask::run(&client, ask::command(argv)).await;
    assert_eq!(status.exit_code, Some(0), "{output}");
    let seen = parsed(&output);
    for argument in arguments {
        // -2: it is there, and nothing is in it.
        assert_ne!(outcome(&seen, &argument), DONE, "{argument}: {seen:#}");
    }
    for argument in public {
        assert_eq!(outcome(&seen, &argument), DONE, "{argument}: {seen:#}");
    }
    assert!(!output.contains("hunter2"), "the Runner's environment was passed on");
    runner.assert_nothing_is_left(&[], "after looking around");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_has_no_privileges_and_only_its_three_descriptors() {
    let Some(fixture) = Fixture::start().await else { return };
    let seen = look_around(&fixture, &[]).await;
    assert_eq!(seen["fds"], json!([0, 1, 2]));
    let status = &seen["status"];
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}: {seen:#}");
    }
    assert_eq!((&status["NoNewPrivs"], &status["Seccomp"]), (&json!("1"), &json!("2")));
    assert_eq!(status["SigBlk"], "0000000000000000", "blocked signals");
    // The standard library of the program that looks ignores SIGPIPE itself; a shell does not.
    let (_, ignored) = ask::run(&fixture.session, ask::shell("grep SigIgn /proc/self/status")).await;
    // Also the two that the C library keeps for itself, and that its posix_spawn leaves ignored in all that it starts.
    assert_eq!(ignored.split_whitespace().last(), Some("0000000000000000"), "ignored signals: {ignored}");
    // 128 + SIGPIPE.
    let (_, piped) = ask::run(&fixture.session, ask::shell("{ yes; echo \"ended with $?\" >&2; } | head -n 1")).await;
    assert!(piped.contains("ended with 141"), "{piped}");
    assert_refused(&seen, "controlling_terminal");
    let pid = seen["pid"].as_u64().unwrap();
    assert!((2..10).contains(&pid), "a PID namespace of its own: {pid}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_build_sandboxes_reach_kernel_code_or_the_network_are_refused() {
    let Some(fixture) = Fixture::start().await else { return };
    let seen = look_around(&fixture, &[]).await;
    let refused = &seen["refused"];
    let as_expected = [
        ("unshare_user", libc::EPERM),
        ("unshare_mount", libc::EPERM),
        ("unshare_pid", libc::EPERM),
        ("unshare_net", libc::EPERM),
        ("mount", libc::EPERM),
        ("umount", libc::EPERM),
        ("chroot", libc::EPERM),
        ("clone3", libc::ENOSYS),
        ("io_uring", libc::ENOSYS),
        ("bpf", libc::EPERM),
        ("keyctl", libc::EPERM),
        ("raw_socket", libc::EAFNOSUPPORT),
        ("packet_socket", libc::EAFNOSUPPORT),
        ("vsock", libc::EAFNOSUPPORT),
        ("tiocsti", libc::EPERM),
    ];
    for (call, errno) in as_expected {
        assert_eq!(outcome(refused, call), i64::from(errno), "{call}: {refused:#}");
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_its_own_loopback_is_reached() {
    let Some(fixture) = Fixture::start().await else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let argument = format!("connect={}", listener.local_addr().unwrap().port());
    let seen = look_around(&fixture, std::slice::from_ref(&argument)).await;
    assert_eq!(seen["interfaces"], json!(["lo"]));
    assert_eq!(outcome(&seen, "own_loopback"), DONE);
    assert_eq!(outcome(&seen, &argument), i64::from(libc::ECONNREFUSED));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pid_one_cannot_be_stopped_killed_traced_written_to_or_looked_into() {
    let Some(fixture) = Fixture::start().await else { return };
    let seen = look_around(&fixture, &[]).await;
    for (what, outcome) in seen["pid_one"].as_object().unwrap() {
        assert!(outcome.as_i64().unwrap() > DONE, "/proc/1/{what} was opened: {seen:#}");
    }
    let (status, output) = ask::run(&fixture.session, fixture.program("kill_pid_one", &[])).await;
    assert_eq!((status.ended_by, status.exit_code), (Some(EndedBy::Command), Some(0)), "{status:?}: {output}");
    assert!(output.ends_with("still here\n"), "{output}");
    // A signal to the namespace's first process is taken and has no effect. The host's root owns these two files of it,
    // which can only make it more likely that the kernel, when memory runs out, ends this very sandbox.
    let harmless = ["signal ", "write oom_score_adj", "write coredump_filter"];
    for line in output.lines().filter(|line| !harmless.iter().any(|start| line.starts_with(start))) {
        assert!(!line.ends_with(": done"), "{output}");
    }
    let (status, output) = ask::run(&fixture.session, fixture.program("open_status_descriptor", &[])).await;
    assert_eq!((status.exit_code, output.as_str()), (Some(0), "opened []\n"), "{status:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_is_what_the_rules_say_and_nothing_else() {
    let set = |workspace: &mut codespace_policy::Workspace| {
        workspace.env.set.insert("FROM_REGISTRY".into(), "1".into());
        workspace.env.inherit.push("NO_SUCH_VARIABLE".into());
    };
    let Some(fixture) = Fixture::with(set).await else { return };
    let mut request = fixture.program("look_around", &[]);
    request.env.insert("FROM_REQUEST".into(), Some("2".into()));
    request.env.insert("LANG".into(), None);
    let (_, output) = ask::run(&fixture.session, request).await;
    let expected = json!({
        "FROM_REGISTRY": "1",
        "FROM_REQUEST": "2",
        "HOME": fixture.workspace(),
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "TMPDIR": "/tmp",
    });
    assert_eq!(parsed(&output)["env"], expected);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_the_commands_controlling_one_and_takes_no_injected_characters() {
    let Some(fixture) = Fixture::start().await else { return };
    let mut request = fixture.program("look_around", &[]);
    request.tty = true;
    let (status, output) = ask::run(&fixture.session, request).await;
    assert_eq!(status.exit_code, Some(0), "{output}");
    let seen = parsed(&output);
    assert_eq!(outcome(&seen["refused"], "tiocsti"), i64::from(libc::EPERM), "{seen:#}");
    assert_eq!(outcome(&seen, "controlling_terminal"), DONE, "{seen:#}");
    assert_eq!(seen["fds"], json!([0, 1, 2]));
    assert_eq!(seen["env"]["TERM"], "xterm-256color");
    fixture.end().await;
}
