//! Whole starts: the plan of a simple one, and every refusal.

use std::collections::BTreeMap;

use codespace_domain::ByteString;
use codespace_linux_sandbox_protocol::{Access, Rlimits, Rule};
use proptest::prelude::*;

use super::*;
use crate::facts::{EACCES, ENOENT};
use crate::fake::FakeDisk;

fn disk() -> FakeDisk {
    FakeDisk::debian()
        .dir("/ws/src")
        .dir("/ws/secrets")
        .file("/ws/file")
        .link("/ws/out", "/etc")
        .link("/ws/in", "src")
        .dir("/home/ann/.cargo/bin")
        .dir("/home/ann/bin")
        .dir("/opt/tools")
}

fn host() -> HostFacts {
    let env = [("PATH", "/home/ann/bin:/home/ann/.cargo/bin:/opt/tools:rel:/usr/bin"), ("LANG", "de"), ("TOKEN", "t")];
    HostFacts {
        engine: Some(Engine::Bubblewrap { program: "/usr/bin/bwrap".into() }),
        network_enforced: true,
        reasons: vec!["no user namespaces".into()],
        runner_env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        runner_home: Some("/home/ann".into()),
        forbidden: Vec::new(),
    }
}

fn request() -> ExecRequest {
    ExecRequest::new("demo".parse().unwrap(), ["make", "test"])
}

fn run(workspace: Workspace, request: &ExecRequest) -> Result<Resolved, RunnerError> {
    run_on(workspace, request, &host())
}

fn run_on(workspace: Workspace, request: &ExecRequest, host: &HostFacts) -> Result<Resolved, RunnerError> {
    let registry = Registry { workspaces: BTreeMap::from([("demo".parse().unwrap(), workspace)]) };
    resolve(&registry, request, host, &disk())
}

fn with_cwd(cwd: &str) -> Result<PathBuf, RunnerError> {
    let mut workspace = Workspace::new("/ws");
    workspace.filesystem.deny = vec!["secrets".into()];
    let request = ExecRequest { cwd: Some(cwd.into()), ..request() };
    run(workspace, &request).map(|resolved| resolved.plan.command.cwd.as_path().to_owned())
}

fn env_of(resolved: &Resolved) -> BTreeMap<String, String> {
    let text = |bytes: &ByteString| bytes.to_text().into_owned();
    resolved.plan.command.env.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn a_simple_start_is_this_plan_and_these_defaults() {
    let rule = |path: &str, access| Rule { path: path.into(), access };
    let link = |target: &str| Access::Symlink { target: target.into() };
    let env = [
        ("HOME", "/ws"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("TMPDIR", "/tmp"),
    ];
    let expected = Resolved {
        workspace_id: "demo".parse().unwrap(),
        plan: Plan {
            protocol: PLAN_PROTOCOL,
            engine: Engine::Bubblewrap { program: "/usr/bin/bwrap".into() },
            view: View {
                rules: vec![
                    rule("/bin", link("usr/bin")),
                    rule("/etc", Access::ReadPublic),
                    rule("/lib", link("usr/lib")),
                    rule("/usr", Access::Read),
                    rule("/ws", Access::Write),
                ],
            },
            network: Network::Isolated,
            command: CommandSpec {
                argv: vec!["make".into(), "test".into()],
                env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                cwd: "/ws".into(),
                tty: false,
                rlimits: Rlimits::default(),
            },
        },
        enforcement: Enforcement::Bubblewrap,
        pid_namespace: true,
        timeout_ms: None,
        limits: Limits::default(),
        grace_ms: 0,
        linger_ms: 250,
        output_bytes: 1_048_576,
        on_full: OnFull::Drop,
        rows: 24,
        cols: 80,
        stdin: StdinMode::None,
        lifetime: Lifetime::Workspace,
        background: Background::End,
        max_processes: 64,
        exclusive: false,
    };
    assert_eq!(run(Workspace::new("/ws"), &request()), Ok(expected));
}

#[test]
fn an_unknown_workspace_is_refused_with_those_that_there_are() {
    let request = ExecRequest::new("nope".parse().unwrap(), ["true"]);
    let error = run(Workspace::new("/ws"), &request).unwrap_err();
    assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::WorkspaceNotFound, Some("registered: demo")));
    let error = resolve(&Registry::default(), &request, &host(), &disk()).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("no workspace is registered"));
}

#[test]
fn a_bad_command_is_refused() {
    let error = run(Workspace::new("/ws"), &ExecRequest { command: Vec::new(), ..request() }).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidCommand);
}

#[test]
fn a_missing_engine_is_refused_with_its_reasons_and_never_run_without() {
    for engine in [None, Some(Engine::None)] {
        for sandbox in [SandboxChoice::Auto, SandboxChoice::Bubblewrap] {
            let host = HostFacts { engine: engine.clone(), ..host() };
            let error = run_on(Workspace { sandbox, ..Workspace::new("/ws") }, &request(), &host).unwrap_err();
            assert_eq!(error.code, ErrorCode::SandboxUnavailable);
            assert!(error.message.contains("no user namespaces"), "{error}");
            assert!(error.hint.unwrap().contains("codespace-runner doctor"));
        }
    }
}

#[test]
fn a_network_that_cannot_be_kept_away_is_refused_unless_it_is_granted() {
    let host = HostFacts { network_enforced: false, ..host() };
    let error = run_on(Workspace::new("/ws"), &request(), &host).unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxUnavailable);
    let open = Workspace { network: NetworkMode::Host, ..Workspace::new("/ws") };
    assert_eq!(run_on(open, &request(), &host).unwrap().plan.network, Network::Host);
}

#[test]
fn without_a_sandbox_there_is_no_view_and_the_runners_own_path() {
    let workspace = Workspace { sandbox: SandboxChoice::None, pid_namespace: false, ..Workspace::new("/ws") };
    let resolved = run_on(workspace.clone(), &request(), &HostFacts { engine: None, ..host() }).unwrap();
    assert_eq!((&resolved.plan.engine, resolved.plan.network), (&Engine::None, Network::Host));
    assert_eq!((resolved.enforcement, resolved.pid_namespace), (Enforcement::None, false));
    assert_eq!(resolved.plan.view.rules, []);
    assert!(env_of(&resolved)["PATH"].starts_with("/home/ann/bin:"));
    let bare = run_on(workspace, &request(), &HostFacts::default()).unwrap();
    assert!(env_of(&bare)["PATH"].starts_with("/usr/local/bin:"));
}

#[test]
fn a_lost_workspace_root_is_a_failed_preparation_with_path_and_errno() {
    for (root, errno) in [("/gone", 2), ("/ws/file", 20)] {
        let error = run(Workspace::new(root), &request()).unwrap_err();
        assert_eq!((error.code, error.stage), (ErrorCode::ProcessSpawnFailed, Some(Stage::Prepare)));
        assert_eq!(error.errno, Some(errno));
        assert!(error.message.contains(root), "{error}");
    }
}

#[test]
fn a_cwd_is_a_directory_of_the_workspace() {
    for (cwd, expected) in [("", "/ws"), (".", "/ws"), ("src", "/ws/src"), ("in", "/ws/src"), ("/ws/src", "/ws/src")] {
        assert_eq!(with_cwd(cwd).unwrap(), Path::new(expected), "{cwd}");
    }
    for cwd in ["..", "src/../..", "../ws", "/etc", "out", "out/none", "/"] {
        assert_eq!(with_cwd(cwd).unwrap_err().code, ErrorCode::PathEscape, "{cwd}");
    }
    for (cwd, errno) in [("none", ENOENT), ("file", ENOTDIR), ("file/x", ENOTDIR), ("secrets", EACCES)] {
        let error = with_cwd(cwd).unwrap_err();
        assert_eq!((error.code, error.stage), (ErrorCode::ProcessSpawnFailed, Some(Stage::Cwd)), "{cwd}");
        assert_eq!(error.errno, Some(errno), "{cwd}");
    }
}

#[test]
fn the_environment_is_made_layer_by_layer() {
    let mut workspace = Workspace::new("/ws");
    workspace.env.inherit = vec!["LANG".into(), "ABSENT".into()];
    workspace.env.set = BTreeMap::from([("CI".into(), "1".into()), ("A".into(), "registry".into())]);
    let mut request = ExecRequest { tty: true, ..request() };
    request.env = BTreeMap::from([("A".into(), Some("request".into())), ("TMPDIR".into(), None), ("NO".into(), None)]);
    let resolved = run(workspace, &request).unwrap();
    let env = env_of(&resolved);
    let pairs: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    assert_eq!(
        pairs,
        [("A", "request"), ("CI", "1"), ("HOME", "/ws"), ("LANG", "de"), ("PATH", path), ("TERM", "xterm-256color")]
    );
    assert!(resolved.plan.command.env.is_sorted());
    assert_eq!(resolved.stdin, StdinMode::Pipe);
}

#[test]
fn toolchains_come_with_their_variables_and_their_part_of_path() {
    let mut workspace = Workspace::new("/ws");
    workspace.filesystem.home = Home::Toolchains;
    let env = env_of(&run(workspace.clone(), &request()).unwrap());
    assert_eq!(env["CARGO_HOME"], "/home/ann/.cargo");
    assert_eq!(env["PATH"], "/home/ann/.cargo/bin:/usr/bin:/usr/local/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
    workspace.filesystem.read = vec!["/opt/tools".into()];
    assert!(env_of(&run(workspace, &request()).unwrap())["PATH"].contains("/opt/tools:"));
}

#[test]
fn limits_and_timeouts_are_in_force_as_narrowed() {
    let mut workspace = Workspace::new("/ws");
    workspace.limits.open_files = Some(64);
    workspace.timeout_ms.max = Some(1000);
    let limits = Limits { open_files: Some(9), cpu_seconds: Some(2), ..Limits::default() };
    let asked = ExecRequest { limits, timeout_ms: Some(0), ..request() };
    let resolved = run(workspace.clone(), &asked).unwrap();
    assert_eq!((resolved.limits, resolved.timeout_ms), (limits, Some(1000)));
    let expected = Rlimits { cpu_seconds: Some(2), file_bytes: None, open_files: Some(9) };
    assert_eq!(resolved.plan.command.rlimits, expected);
    workspace.limits.memory_bytes = Some(1);
    assert_eq!(run(workspace, &asked).unwrap_err().code, ErrorCode::LimitUnsupported);
}

proptest! {
    #[test]
    fn a_cwd_never_resolves_outside_the_root(cwd in "/?([a-z]{1,3}|[.]{1,2}|src|in|out|ws|file)(/([.]{1,2}|src|in|out|ws)){0,5}") {
        match with_cwd(&cwd) {
            Ok(dir) => prop_assert!(dir.starts_with("/ws"), "{dir:?}"),
            Err(error) => prop_assert!(matches!(
                (error.code, error.stage),
                (ErrorCode::PathEscape, None) | (ErrorCode::ProcessSpawnFailed, Some(Stage::Cwd))
            )),
        }
    }
}
