//! Arguments, variables and rules in the sizes and the bytes that the kernel takes: passed on whole, and beyond that
//! refused as what they are.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use codespace_policy::SandboxChoice;
use codespace_runner::Runner;
use codespace_runner::domain::{ByteString, ErrorCode, ExecRequest, Stage};
use codespace_testkit::fixture::{Fixture, ask};

/// The kernel's bound on one argument or variable, its ending NUL byte included.
const LONGEST: usize = 128 * 1024;

async fn assert_too_big(fixture: &Fixture, request: ExecRequest) {
    let error = fixture.session.exec(request).await.expect_err("too big");
    let told = (error.code, error.stage, error.errno);
    assert_eq!(told, (ErrorCode::ProcessSpawnFailed, Some(Stage::Exec), Some(libc::E2BIG)), "{error:?}");
    let text = format!("{error:?}");
    assert!(error.hint.is_some() && text.len() < 4096 && !text.contains("bbbb"), "{} bytes: {error:?}", text.len());
}

fn variable(name: &str, value: impl Into<ByteString>) -> (String, Option<ByteString>) {
    (name.to_owned(), Some(value.into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_much_as_the_kernel_takes_passes_and_a_byte_more_is_the_stage_exec() {
    for sandbox in [SandboxChoice::Auto, SandboxChoice::None] {
        let Some(fixture) = Fixture::with(|workspace| workspace.sandbox = sandbox).await else { return };
        let session = &fixture.session;
        let length = |word: usize| ask::command(["sh", "-c", "echo ${#1}", "sh", "a".repeat(word).as_str()]);
        let (_, output) = ask::run(session, length(LONGEST - 1)).await;
        assert_eq!(output, format!("{}\n", LONGEST - 1));
        assert_too_big(&fixture, length(LONGEST)).await;
        let script = "echo ${#V}";
        let with = |bytes| ExecRequest { env: [variable("V", "b".repeat(bytes))].into(), ..ask::shell(script) };
        let (_, output) = ask::run(session, with(LONGEST - 3)).await;
        assert_eq!(output, format!("{}\n", LONGEST - 3));
        assert_too_big(&fixture, with(LONGEST - 2)).await;

        // As the program's name it is none that there is, however long; what is told of it is not.
        for name in ["b".repeat(70_000), format!("./{}", "b".repeat(100_000)), "b/".repeat(2000)] {
            let error = session.exec(ask::command([name.as_str()])).await.expect_err("no program");
            assert_eq!((error.code, error.stage), (ErrorCode::ProcessSpawnFailed, Some(Stage::Exec)), "{error:?}");
            assert!(error.errno.is_some() && error.message.len() < 4096, "{error:?}");
        }

        let words = std::iter::repeat_n("a", 20_000);
        let many = ask::command(["sh", "-c", "echo $#", "sh"].into_iter().chain(words));
        assert_eq!(ask::run(session, many).await.1, "20000\n");
        let env = (0..5000).map(|i| variable(&format!("V{i}"), "b")).collect();
        let many = ExecRequest { env, ..ask::shell("env | grep -c ^V") };
        assert_eq!(ask::run(session, many).await.1, "5000\n");
        let env = (0..9000).map(|i| variable(&format!("V{i}"), "b".repeat(1000))).collect();
        assert_too_big(&fixture, ExecRequest { env, ..ask::command(["true"]) }).await;
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text_name_programs_directories_and_values_as_they_are() {
    let Some(fixture) = Fixture::start().await else { return };
    let bytes = |bytes: &[u8]| ByteString::from(bytes.to_vec());
    let directory = fixture.workspace().join(OsStr::from_bytes(b"d\xe9"));
    fs::create_dir(&directory).unwrap();
    fs::copy("/bin/sh", directory.join(OsStr::from_bytes(b"sh\xff"))).unwrap();
    let script = "printf '%s\\n' \"${PWD##*/}\" \"$V\" \"$1\" | od -An -tx1";
    let mut request =
        ask::command([bytes(b"./sh\xff"), "-c".into(), script.into(), "sh".into(), bytes(b"\xfe' \n\xc3")]);
    request.cwd = Some(bytes(b"d\xe9"));
    request.env.extend([variable("V", bytes(b"\x80\x81"))]);
    let (status, output) = ask::run(&fixture.session, request).await;
    let seen = output.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((status.exit_code, seen.as_str()), (Some(0), "64 e9 0a 80 81 0a fe 27 20 0a c3 0a"));
    assert_eq!(status.command[0], bytes(b"./sh\xff"));
    // Nothing on the way is a shell.
    let words = ["", "a b", "*", "$HOME", "`id`", "\\", "-n", "日本", ";id", "'", "\""];
    let argv = ["printf", "%s|"].into_iter().chain(words);
    assert_eq!(ask::run(&fixture.session, ask::command(argv)).await.1, words.map(|word| format!("{word}|")).concat());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_folder_costs_the_same_however_much_is_in_it() {
    let Some(fixture) = Fixture::with(|workspace| {
        let folder = workspace.root.join("secret");
        fs::create_dir(&folder).unwrap();
        (0..5000).for_each(|i| fs::write(folder.join(format!("f{i}")), "s").unwrap());
        workspace.filesystem.deny.push("secret".into());
    })
    .await
    else {
        return;
    };
    let began = Instant::now();
    let script = "ls secret 2>/dev/null | wc -l; cat secret/f1 2>/dev/null && echo seen; echo ok";
    let (_, output) = ask::run(&fixture.session, ask::shell(script)).await;
    assert_eq!(output, "0\nok\n");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fixture.end().await;
}
