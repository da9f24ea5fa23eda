//! The probe, from outside: it reports one JSON object, and works where it should.

use std::process::{Command, Output, Stdio};

/// The helper: named at run time, where the tests were copied somewhere else.
fn helper() -> String {
    std::env::var("CODESPACE_LINUX_SANDBOX_BIN")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_codespace-linux-sandbox").into())
}

#[expect(clippy::disallowed_methods, reason = "the probe ends by itself")]
fn run(argv: &[&str]) -> Output {
    Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{argv:?}: {e}"))
}

fn works(output: &Output) -> bool {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["protocol"], 1);
    assert_eq!(report["works"] == true, output.status.success(), "{report}");
    assert_eq!(report["works"] == true, report["findings"].as_array().unwrap().is_empty(), "{report}");
    report["works"] == true
}

/// Missing is a failure where the environment says that it must be there, else a loud skip.
fn sandbox_or_skip() -> bool {
    let works = works(&run(&[&helper(), "probe"]));
    let required = std::env::var_os("CODESPACE_REQUIRE_LINUX_SANDBOX").is_some();
    assert!(works || !required, "a sandbox is required and cannot be had");
    works
}

#[test]
fn a_sandbox_works_or_the_finding_says_why() {
    sandbox_or_skip();
}

#[test]
fn a_sandbox_works_in_a_pid_namespace_that_has_no_process_2() {
    if !sandbox_or_skip() {
        return;
    }
    let helper = helper();
    // The shell is process 1; the probe it turns into starts processes whose numbers are not 2 any more.
    let script = format!("/bin/true; exec {helper} probe");
    let output =
        run(&["unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "sh", "-c", &script]);
    assert!(works(&output), "{output:?}");
}

#[test]
fn an_unknown_verb_is_a_usage_error() {
    let output = run(&[&helper(), "prob"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage"));
}
