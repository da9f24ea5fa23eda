//! The plan of a simple start, and every refusal that needs the disk.

use std::collections::BTreeMap;

use codespace_domain::{ByteString, ErrorCode, Limits, Profile};
use codespace_linux_sandbox_protocol::{Access, Rlimits, Rule};
use proptest::prelude::*;

use super::*;
use crate::facts::{EACCES, ENOENT};
use crate::fake::FakeDisk;
use crate::{SandboxChoice, admit};

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

fn run(workspace: Workspace, request: &ExecRequest) -> Result<Plan, RunnerError> {
    run_on(workspace, request, &host(), &disk())
}

fn run_on(workspace: Workspace, request: &ExecRequest, host: &HostFacts, disk: &FakeDisk) -> Result<Plan, RunnerError> {
    let registry = Registry { workspaces: BTreeMap::from([("demo".parse().unwrap(), workspace)]) };
    let admitted = admit(&registry, request, host)?;
    plan(&registry, &admitted, request, host, disk)
}

fn with_cwd(cwd: &str) -> Result<PathBuf, RunnerError> {
    let mut workspace = Workspace::new("/ws");
    workspace.filesystem.deny = vec!["secrets".into()];
    let request = ExecRequest { cwd: Some(cwd.into()), ..request() };
    run(workspace, &request).map(|plan| plan.command.cwd.as_path().to_owned())
}

fn env_of(plan: &Plan) -> BTreeMap<String, String> {
    let text = |bytes: &ByteString| bytes.to_text().into_owned();
    plan.command.env.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn a_simple_start_is_this_plan() {
    let rule = |path: &str, access| Rule { path: path.into(), access };
    let link = |target: &str| Access::Symlink { target: target.into() };
    let env = [
        ("HOME", "/ws"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("TMPDIR", "/tmp"),
    ];
    let expected = Plan {
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
    };
    assert_eq!(run(Workspace::new("/ws"), &request()), Ok(expected));
}

#[test]
fn the_hosts_network_and_the_limits_of_a_process_are_in_the_plan() {
    let open = Workspace { network: NetworkPolicy::Host, ..Workspace::new("/ws") };
    let limits = Limits { open_files: Some(9), cpu_seconds: Some(2), ..Limits::default() };
    let plan = run(open, &ExecRequest { limits, ..request() }).unwrap();
    assert_eq!(plan.network, Network::Host);
    assert_eq!(plan.command.rlimits, Rlimits { cpu_seconds: Some(2), file_bytes: None, open_files: Some(9) });
}

#[test]
fn without_a_sandbox_there_is_no_view_and_the_runners_own_path() {
    for pid_namespace in [true, false] {
        let workspace = Workspace { sandbox: SandboxChoice::None, pid_namespace, ..Workspace::new("/ws") };
        let plan = run_on(workspace.clone(), &request(), &HostFacts { engine: None, ..host() }, &disk()).unwrap();
        assert_eq!((&plan.engine, plan.network), (&Engine::None { pid_namespace }, Network::Host));
        assert_eq!(plan.view.rules, []);
        assert!(env_of(&plan)["PATH"].starts_with("/home/ann/bin:"));
        let bare = run_on(workspace, &request(), &HostFacts::default(), &disk()).unwrap();
        assert!(env_of(&bare)["PATH"].starts_with("/usr/local/bin:"));
    }
}

#[test]
fn rules_are_held_against_the_disk_at_every_start_anew() {
    let mut workspace = Workspace::new("/ws");
    workspace.filesystem.read = vec!["src".into()];
    workspace.filesystem.deny = vec!["secrets".into()];
    let start = |disk: &FakeDisk| run_on(workspace.clone(), &request(), &host(), disk);
    assert!(start(&disk()).is_ok());
    let error = start(&disk().gone("/ws/src").link("/ws/src", "/etc")).unwrap_err();
    assert_eq!(error.code, ErrorCode::PathEscape);
    assert!(error.message.contains("filesystem.read[0]"), "{error}");
}

#[test]
fn a_rule_for_a_path_that_a_command_could_make_refuses_the_start_by_its_key() {
    for (profile, refused) in [(Profile::WorkspaceWrite, true), (Profile::ReadOnly, false)] {
        let mut workspace = Workspace { profile, ..Workspace::new("/ws") };
        workspace.filesystem.deny = vec!["secrets".into(), "none".into(), "/none".into(), "secrets/none".into()];
        let started = run(workspace, &request());
        let Err(error) = started else {
            assert!(!refused);
            continue;
        };
        assert!(refused, "{error}");
        assert_eq!(error.code, ErrorCode::SandboxUnavailable);
        assert!(
            error.message.starts_with("enforce workspaces.demo.filesystem.deny[1]: none does not exist"),
            "{error}"
        );
        assert_eq!(error.hint.as_deref(), Some("create it, or remove the rule"));
    }
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
    let plan = run(workspace, &request).unwrap();
    let env = env_of(&plan);
    let pairs: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    assert_eq!(
        pairs,
        [("A", "request"), ("CI", "1"), ("HOME", "/ws"), ("LANG", "de"), ("PATH", path), ("TERM", "xterm-256color")]
    );
    assert!(plan.command.env.is_sorted());
    assert!(plan.command.tty);
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
