//! Every refusal that needs no disk, and the terms of a start.

use std::collections::BTreeMap;

use super::*;
use crate::NetworkList;

fn host() -> HostFacts {
    HostFacts {
        engine: Some(Engine::Bubblewrap { program: "/usr/bin/bwrap".into() }),
        network_enforced: true,
        reasons: vec!["no user namespaces".into()],
        ..HostFacts::default()
    }
}

fn request() -> ExecRequest {
    ExecRequest::new("demo".parse().unwrap(), ["make", "test"])
}

fn ask(workspace: Workspace, request: &ExecRequest) -> Result<Admitted, RunnerError> {
    ask_on(workspace, request, &host())
}

fn ask_on(workspace: Workspace, request: &ExecRequest, host: &HostFacts) -> Result<Admitted, RunnerError> {
    let registry = Registry { workspaces: BTreeMap::from([("demo".parse().unwrap(), workspace)]) };
    admit(&registry, request, host)
}

#[test]
fn a_simple_start_has_these_defaults() {
    let expected = Admitted {
        workspace_id: "demo".parse().unwrap(),
        enforcement: Enforcement::Bubblewrap,
        pid_namespace: true,
        timeout_ms: None,
        limits: Limits::default(),
        grace_ms: 0,
        linger_ms: 250,
        output_bytes: 1_048_576,
        on_full: OnFull::Drop,
        tty: false,
        rows: 24,
        cols: 80,
        stdin: StdinMode::None,
        lifetime: Lifetime::Workspace,
        background: Background::End,
        max_processes: 64,
        exclusive: false,
    };
    assert_eq!(ask(Workspace::new("/nowhere"), &request()), Ok(expected));
}

#[test]
fn a_terminal_always_has_its_stdin() {
    let admitted = ask(Workspace::new("/ws"), &ExecRequest { tty: true, ..request() }).unwrap();
    assert_eq!((admitted.tty, admitted.stdin), (true, StdinMode::Pipe));
}

#[test]
fn an_unknown_workspace_is_refused_with_those_that_there_are() {
    let request = ExecRequest::new("nope".parse().unwrap(), ["true"]);
    let error = ask(Workspace::new("/ws"), &request).unwrap_err();
    assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::WorkspaceNotFound, Some("registered: demo")));
    let error = admit(&Registry::default(), &request, &host()).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("no workspace is registered"));
}

#[test]
fn a_bad_command_is_refused() {
    let error = ask(Workspace::new("/ws"), &ExecRequest { command: Vec::new(), ..request() }).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidCommand);
}

#[test]
fn what_this_version_cannot_enforce_refuses_the_start_by_its_key() {
    let demo = || Workspace::new("/ws");
    let list = NetworkPolicy::List(NetworkList { allow: vec!["example.com".into()], deny: Vec::new() });
    let mut protecting = demo();
    protecting.filesystem.protect = vec![".git/hooks".into()];
    for (workspace, message) in [
        (Workspace { network: list, ..demo() }, "network: this version has no allow-list yet"),
        (Workspace { network: NetworkPolicy::Enabled, ..demo() }, "network: this version has no proxy yet"),
        (Workspace { unix_sockets: vec!["/run/x".into()], ..demo() }, "unix_sockets: this version cannot"),
        (protecting, "filesystem.protect: this version cannot"),
        (Workspace { nested_sandboxes: true, ..demo() }, "nested_sandboxes: this version cannot"),
    ] {
        // Nor would the host's lack of an engine, or its absence on purpose, let such a command through.
        for sandbox in [SandboxChoice::Auto, SandboxChoice::Bubblewrap, SandboxChoice::None] {
            let error = ask(Workspace { sandbox, ..workspace.clone() }, &request()).unwrap_err();
            assert_eq!(error.code, ErrorCode::SandboxUnavailable);
            assert!(error.message.starts_with(&format!("enforce workspaces.demo.{message}")), "{error}");
            assert!(error.hint.unwrap().starts_with("remove the key"));
        }
    }
}

#[test]
fn a_missing_engine_is_refused_with_its_reasons_and_never_run_without() {
    for engine in [None, Some(Engine::None { pid_namespace: true })] {
        for sandbox in [SandboxChoice::Auto, SandboxChoice::Bubblewrap] {
            let host = HostFacts { engine: engine.clone(), ..host() };
            let error = ask_on(Workspace { sandbox, ..Workspace::new("/ws") }, &request(), &host).unwrap_err();
            assert_eq!(error.code, ErrorCode::SandboxUnavailable);
            assert!(error.message.contains("no user namespaces"), "{error}");
            assert!(error.hint.unwrap().contains("codespace-runner doctor"));
        }
    }
}

#[test]
fn a_network_that_cannot_be_kept_away_is_refused_unless_it_is_granted() {
    let host = HostFacts { network_enforced: false, ..host() };
    let error = ask_on(Workspace::new("/ws"), &request(), &host).unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxUnavailable);
    let open = Workspace { network: NetworkPolicy::Host, ..Workspace::new("/ws") };
    assert!(ask_on(open, &request(), &host).is_ok());
}

#[test]
fn without_a_sandbox_no_engine_is_needed() {
    let workspace = Workspace { sandbox: SandboxChoice::None, pid_namespace: false, ..Workspace::new("/ws") };
    let admitted = ask_on(workspace, &request(), &HostFacts::default()).unwrap();
    assert_eq!((admitted.enforcement, admitted.pid_namespace), (Enforcement::None, false));
}

#[test]
fn limits_and_timeouts_are_in_force_as_narrowed() {
    let mut workspace = Workspace::new("/ws");
    workspace.limits.open_files = Some(64);
    workspace.timeout_ms.max = Some(1000);
    let limits = Limits { open_files: Some(9), cpu_seconds: Some(2), ..Limits::default() };
    let asked = ExecRequest { limits, timeout_ms: Some(0), ..request() };
    let admitted = ask(workspace.clone(), &asked).unwrap();
    assert_eq!((admitted.limits, admitted.timeout_ms), (limits, Some(1000)));
    workspace.limits.memory_bytes = Some(1);
    assert_eq!(ask(workspace, &asked).unwrap_err().code, ErrorCode::LimitUnsupported);
}
