//! `codespace-runner run`: the command's streams, byte for byte, its exit code, its view of the machine, and nothing left.
#![cfg(target_os = "linux")]

mod cli;

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use cli::{Cli, Running, run_shell};
use serde_json::json;

#[test]
fn the_output_goes_to_the_stream_that_it_was_written_to_and_the_exit_code_is_the_commands() {
    let Some(cli) = Cli::new() else { return };
    let ended = cli.shell(&[], "echo hi; exit 3");
    assert_eq!((ended.code(), ended.stdout().as_str(), ended.stderr().as_str()), (3, "hi\n", ""));
    let ended = cli.shell(&[], "echo out; echo err >&2");
    assert_eq!((ended.code(), ended.stdout().as_str(), ended.stderr().as_str()), (0, "out\n", "err\n"));
    cli.assert_nothing_is_left("after both");
}

#[test]
fn the_exit_code_says_what_became_of_the_command() {
    let Some(cli) = Cli::new() else { return };
    let workspace = cli.ground.workspace();
    fs::create_dir(workspace.join("directory")).unwrap();
    fs::write(workspace.join("not-executable"), "#!/bin/sh\n").unwrap();
    fs::write(workspace.join("no-first-line"), "echo hi\n").unwrap();
    fs::set_permissions(workspace.join("no-first-line"), Permissions::from_mode(0o755)).unwrap();
    let cases: [(&[&str], i32); 18] = [
        (&["run", "--", "true"], 0),
        (&["run", "--", "false"], 1),
        (&["run", "--", "sh", "-c", "exit 77"], 77),
        (&["run", "--", "sh", "-c", "exit 255"], 255),
        (&["run", "--", "no-such-program"], 127),
        (&["run", "--", "./no-such-program"], 127),
        (&["run", "--", "./directory"], 126),
        (&["run", "--", "./not-executable"], 126),
        (&["run", "--", "./no-first-line"], 126),
        (&["run", "--timeout", "300ms", "--", "sleep", "1000"], 124),
        (&["run", "--timeout", "300ms", "--", "sh", "-c", "trap '' TERM INT HUP; sleep 1000; :"], 124),
        (&["run", "--cwd", "no-such-directory", "--", "true"], 125),
        (&["run", "--cwd", "..", "--", "true"], 125),
        (&["run", "--limit-pids", "5", "--", "true"], 125),
        (&["run", "--", "sh", "-c", "kill -SEGV $$; sleep 1000"], 128 + 11),
        (&["run", "--", "sh", "-c", "kill -KILL $$; sleep 1000"], 128 + 9),
        (&["run", "--", "sh", "-c", "kill -TERM $$; sleep 1000"], 128 + 15),
        (&["run", "--timeout", "soon", "--", "true"], 2),
    ];
    for (arguments, code) in cases {
        let ended = cli.run(arguments);
        assert_eq!(ended.code(), code, "{arguments:?}: {ended:?}");
        // Of what is not the command's own end somebody must be told.
        let own = matches!(code, 2 | 125..=127);
        assert_eq!(ended.stderr().contains("failed to ") || code == 2, own, "{arguments:?}: {}", ended.stderr());
        cli.assert_nothing_is_left(&format!("{arguments:?}"));
    }
    let mut without_helper = cli.command(&["run", "--", "true"]);
    without_helper.env("CODESPACE_LINUX_SANDBOX_BIN", "/no/such/helper");
    let ended = Running::start(without_helper).ended();
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("/no/such/helper"), "{}", ended.stderr());
}

#[test]
fn stdin_is_passed_on_and_ends_where_ours_ends() {
    let Some(cli) = Cli::new() else { return };
    let ended = cli.run(&["run", "--", "wc", "-c"]);
    assert_eq!((ended.code(), ended.stdout().trim()), (0, "0"), "an empty stdin is at its end");

    let mut command = cli.command(&["run", "--", "sh", "-c", "read line; echo got $line; cat; echo end"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.stdin();
    std::io::Write::write_all(&mut stdin, b"first\n").unwrap();
    // While ours is still open.
    running.wait_for("got first\n");
    std::io::Write::write_all(&mut stdin, b"second\n").unwrap();
    running.wait_for("second\n");
    drop(stdin);
    let ended = running.ended();
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "got first\nsecond\nend\n"));

    // One that does not read it ends all the same, also while ours stays open.
    let mut command = cli.command(&["run", "--", "true"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let stdin = running.stdin();
    assert_eq!(running.ended().code(), 0);
    drop(stdin);
    cli.assert_nothing_is_left("after the last");
}

#[test]
fn some_megabytes_of_any_bytes_pass_unchanged_in_both_directions_and_on_both_streams() {
    let Some(cli) = Cli::new() else { return };
    // All byte values, also what is no UTF-8, in no order that repeats with a buffer's size.
    let mut word = 1u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        word.to_be_bytes()[0]
    })
    .take(3_000_017)
    .collect();
    let mut command = cli.command(&["run", "--", "cat"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    running.feed(bytes.clone());
    let ended = running.ended();
    assert_eq!((ended.code(), ended.stderr().as_str()), (0, ""));
    assert_eq!(ended.stdout.len(), bytes.len());
    assert!(ended.stdout == bytes, "the bytes were changed on their way");

    fs::write(cli.ground.workspace().join("bytes"), &bytes).unwrap();
    let ended = cli.shell(&[], "cat bytes & cat bytes >&2; wait");
    assert_eq!(ended.code(), 0);
    assert!(ended.stdout == bytes && ended.stderr == bytes, "the bytes were changed on their way");
    cli.assert_nothing_is_left("after both");
}

#[test]
fn a_reader_that_leaves_early_ends_the_tree_quietly() {
    let Some(cli) = Cli::new() else { return };
    let scripts =
        ["yes & setsid yes & yes", "trap '' PIPE; while :; do echo y; done 2>/dev/null & setsid sleep 1000 & yes"];
    for script in scripts {
        let mut command = cli.command(&run_shell(&[], script));
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer);
        let running = Running::start(command);
        let mut some = [0; 100];
        reader.read_exact(&mut some).unwrap();
        drop(reader);
        let ended = running.ended();
        assert_eq!((ended.code(), ended.stderr().as_str()), (141, ""), "{script}");
        cli.assert_nothing_is_left(script);
    }
}

#[test]
fn with_json_there_is_one_object_at_the_end_and_nothing_else() {
    let Some(cli) = Cli::new() else { return };
    let ended = cli.shell(&["--json"], "echo hi; echo no >&2; exit 3");
    assert_eq!((ended.code(), ended.stderr().as_str()), (3, ""));
    let told = ended.json();
    let id = told["process_id"].as_str().expect("a process id");
    assert!(id.starts_with("proc-"), "{told:#}");
    assert_eq!(told["dispatch_status"], "confirmed");
    let status = &told["status"];
    let expected = [
        ("process_id", json!(id)),
        ("workspace_id", json!("default")),
        ("state", json!("exited")),
        ("exit_code", json!(3)),
        ("termination", json!("exited")),
        ("ended_by", json!("command")),
        ("eof", json!(true)),
        ("tty", json!(false)),
        ("sandbox", json!("bubblewrap")),
        ("output_total", json!(6)),
    ];
    for (name, value) in expected {
        assert_eq!(status[name], value, "{name}: {status:#}");
    }
    assert_eq!((&status["tree"]["confirmed"], &status["tree"]["leftovers"]), (&json!(true), &json!(0)), "{status:#}");
    let output = &told["output"];
    assert_eq!((&output["eof"], &output["total"], &output["encoding"]), (&json!(true), &json!(6), &json!("utf-8")));
    let chunk = output["chunk"].as_str().expect("a chunk");
    assert!(chunk == "hi\nno\n" || chunk == "no\nhi\n", "{chunk:?}");

    let ended = cli.shell(&["--json", "--timeout", "300ms"], "sleep 1000");
    let status = &ended.json()["status"];
    assert_eq!(
        (ended.code(), &status["termination"], &status["ended_by"]),
        (124, &json!("timeout"), &json!("timeout"))
    );

    let ended = cli.run(&["run", "--json", "--", "no-such-program"]);
    let error = &ended.json()["error"];
    assert_eq!((ended.code(), ended.stderr().as_str()), (127, ""));
    let told = (&error["code"], &error["stage"], &error["errno"]);
    assert_eq!(told, (&json!("PROCESS_SPAWN_FAILED"), &json!("exec"), &json!(libc::ENOENT)), "{error:#}");
    cli.assert_nothing_is_left("after all");
}

#[test]
fn of_the_callers_environment_only_what_is_documented_or_named_passes() {
    let Some(cli) = Cli::new() else { return };
    let mut command = cli.command(&[
        "run",
        "--env",
        "NAMED",
        "--env",
        "SET=a=b c",
        "--env",
        "UNSET_HERE",
        "--env",
        "LANG=xx",
        "--",
        "env",
    ]);
    command.envs([("TERM", "dumb"), ("LANG", "de"), ("LC_TIME", "C"), ("TZ", "UTC"), ("COLORTERM", "1")]);
    command.envs([
        ("NO_COLOR", "1"),
        ("NAMED", "yes"),
        ("SECRET_TOKEN", "no"),
        ("LD_LIBRARY_PATH", "/no"),
        ("USER", "no"),
    ]);
    let ended = Running::start(command).ended();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let seen = ended.stdout();
    let seen: Vec<&str> = seen.lines().collect();
    let root = cli.ground.workspace();
    let home = format!("HOME={}", root.display());
    for expected in
        ["TERM=dumb", "LANG=xx", "LC_TIME=C", "TZ=UTC", "COLORTERM=1", "NO_COLOR=1", "NAMED=yes", "SET=a=b c", &home]
    {
        assert!(seen.contains(&expected), "{expected}: {seen:#?}");
    }
    for absent in ["SECRET_TOKEN=", "LD_LIBRARY_PATH=", "USER=", "UNSET_HERE", "CODESPACE_"] {
        assert!(!seen.iter().any(|line| line.starts_with(absent)), "{absent}: {seen:#?}");
    }
}

#[test]
fn the_flags_say_what_is_read_written_and_not_there() {
    let Some(cli) = Cli::new() else { return };
    let workspace = cli.ground.workspace();
    let elsewhere = tempfile::Builder::new().prefix("codespace-elsewhere-").tempdir().unwrap();
    for name in ["shown", "writable", "hidden"] {
        fs::create_dir(elsewhere.path().join(name)).unwrap();
        fs::write(elsewhere.path().join(name).join("file"), format!("{name}\n")).unwrap();
    }
    fs::write(workspace.join("secret"), "secret\n").unwrap();
    let path = |name: &str| elsewhere.path().join(name).to_str().unwrap().to_owned();
    let (shown, writable, hidden) = (path("shown"), path("writable"), path("hidden"));

    let script = format!(
        "cat {shown}/file; echo x > {shown}/new && echo wrote to shown; echo x > {writable}/new && echo wrote; \
         cat {hidden}/file; cat secret; echo x > here && echo wrote here; exit 0"
    );
    let flags = ["--read", &shown, "--write", &writable, "--deny", "secret"];
    let ended = cli.shell(&flags, &script);
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "shown\nwrote\nwrote here\n"), "{}", ended.stderr());
    assert!(fs::exists(format!("{writable}/new")).unwrap() && !fs::exists(format!("{shown}/new")).unwrap());

    let ended = cli.shell(&["--read-only"], "cat secret; echo x > there && echo wrote there; exit 0");
    assert_eq!(ended.stdout(), "secret\n", "{}", ended.stderr());
    assert!(!fs::exists(workspace.join("there")).unwrap());
    cli.assert_nothing_is_left("after both");
}

#[test]
fn toolchains_of_the_home_directory_are_shown_when_asked_for_and_without_their_credentials() {
    let Some(cli) = Cli::new() else { return };
    let home = cli.ground.home();
    fs::create_dir_all(home.join(".cargo/bin")).unwrap();
    fs::write(home.join(".cargo/bin/tool"), "#!/bin/sh\necho tool runs\n").unwrap();
    fs::set_permissions(home.join(".cargo/bin/tool"), Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join(".cargo/credentials.toml"), "token\n").unwrap();
    fs::write(home.join("diary"), "dear diary\n").unwrap();
    let script = format!(
        "{0}/.cargo/bin/tool; cat {0}/.cargo/credentials.toml; cat {0}/diary; echo x > {0}/.cargo/new && echo wrote; exit 0",
        home.display()
    );
    let ended = cli.shell(&["--home", "toolchains"], &script);
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "tool runs\n"), "{}", ended.stderr());
    let ended = cli.shell(&[], &script);
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, ""), "not unless asked for: {}", ended.stderr());
    cli.assert_nothing_is_left("after both");
}

#[test]
fn arguments_are_bytes() {
    let Some(cli) = Cli::new() else { return };
    let raw = OsStr::from_bytes(b"\xff\xfe \n\t'\"\x01\x7f\xc3");
    let argv: Vec<OsString> = ["run", "--", "printf", "%s|"]
        .iter()
        .map(OsString::from)
        .chain([raw.into(), "".into(), "--json".into()])
        .collect();
    let ended = cli.run(&argv);
    assert_eq!((ended.code(), ended.stdout), (0, b"\xff\xfe \n\t'\"\x01\x7f\xc3||--json|".to_vec()));
}

#[test]
fn what_a_command_leaves_behind_is_ended_before_run_returns() {
    let Some(cli) = Cli::new() else { return };
    let ended =
        cli.shell(&["--linger", "0"], "setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & exit 5");
    assert_eq!(ended.code(), 5);
    let left = cli.ground.survivors.left(&[]);
    assert!(left.is_empty(), "left behind: {left:#?}");
    let ended = cli.shell(&[], "(sleep 0.1; echo late) & echo early");
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "early\nlate\n"));
    let ended = cli.shell(&["--no-sandbox", "--linger", "0"], "setsid sleep 1000 & exit 6");
    assert_eq!(ended.code(), 6);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    cli.assert_nothing_is_left("without a sandbox");
}
