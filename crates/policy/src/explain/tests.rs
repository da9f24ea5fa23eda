//! Which rule decides, and what it won against, as a table; and that an explanation never says another thing than the plan.

use proptest::prelude::*;

use super::*;
use crate::fake::FakeDisk;
use crate::{EnvPolicy, Filesystem, NetworkList, TimeoutPolicy};

fn disk() -> FakeDisk {
    FakeDisk::debian()
        .dir("/ws/src")
        .dir("/ws/secrets/open")
        .file("/ws/secrets/key")
        .file("/ws/both")
        .link("/ws/out", "/srv/data")
        .link("/ws/in", "src")
        .link("/ws/hidden", "secrets/key")
        .dir("/srv/data/deep")
        .dir("/srv/other")
        .link("/srv/named", "/srv/data")
        .file("/etc/hosts")
        .file("/usr/bin/sh")
        .file("/tmp/secret")
        .dir("/home/ann/.cargo/bin")
        .file("/home/ann/.cargo/credentials.toml")
        .dir("/run/runner")
        .file("/run/runner/runner.sock")
}

fn host() -> HostFacts {
    let env = [("PATH", "/usr/bin"), ("LANG", "de"), ("TOKEN", "hunter2")];
    HostFacts {
        engine: Some(Engine::Bubblewrap { program: "/usr/bin/bwrap".into() }),
        network_enforced: true,
        reasons: Vec::new(),
        runner_env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        runner_home: Some("/home/ann".into()),
        forbidden: vec!["/run/runner".into(), "/run/absent".into()],
    }
}

fn workspace(read: &[&str], write: &[&str], deny: &[&str]) -> Workspace {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
    let filesystem = Filesystem {
        read: paths(read),
        write: paths(write),
        deny: paths(deny),
        home: Home::Toolchains,
        ..Filesystem::default()
    };
    Workspace { filesystem, ..Workspace::new("/ws") }
}

fn registry(workspace: Workspace) -> Registry {
    Registry { workspaces: [(id(), workspace)].into() }
}

fn id() -> WorkspaceId {
    "demo".parse().unwrap()
}

fn path_in(workspace: &Workspace, path: &str) -> PathExplained {
    explain_path(&registry(workspace.clone()), &id(), Path::new(path), &host(), &disk()).unwrap()
}

fn whole(workspace: Workspace) -> Explanation {
    explain(&registry(workspace), &id(), &host(), &disk()).unwrap()
}

fn source(rule: &RuleExplained) -> String {
    let path = rule.path.to_text();
    match &rule.from {
        RuleSource::Registry { key, .. } => key.trim_start_matches("filesystem.").to_owned(),
        RuleSource::Link { target } => format!("link {path} to {}", target.to_text()),
        from => format!("{from:?} {path}").replace("Toolchains { written: \"/home/ann/.cargo\" }", "Toolchains"),
    }
}

/// `access at path by source, not other (why)`.
fn line(explained: &PathExplained) -> String {
    let by = explained.decided_by.as_ref().map_or_else(|| "nobody".to_owned(), source);
    let beaten = explained.beaten.iter().map(|beaten| format!(", not {} ({:?})", source(&beaten.rule), beaten.because));
    format!("{:?} at {} by {by}{}", explained.access, explained.path.to_text(), beaten.collect::<String>())
}

#[test]
fn the_rule_that_decides_is_the_nearest_and_of_one_path_the_strictest() {
    let policy = workspace(
        &["both", "/srv/data/deep", "/etc", "/run/runner"],
        &["both", "/srv/data", "/srv/named", "secrets/open"],
        &["secrets", "both", "/srv/data/deep", "/tmp/secret"],
    );
    let not_root = ", not Workspace /ws (LessSpecific)";
    for (asked, expected) in [
        // The workspace and what is in it.
        (".", "Write at /ws by Workspace /ws".to_owned()),
        ("src", "Write at /ws/src by Workspace /ws".to_owned()),
        ("src/none", "Write at /ws/src/none by Workspace /ws".to_owned()),
        ("secrets/key", format!("Deny at /ws/secrets/key by deny[0]{not_root}")),
        // Nearer than what denies.
        (
            "secrets/open/x",
            format!("Write at /ws/secrets/open/x by write[3], not deny[0] (LessSpecific){not_root}"),
        ),
        // Ties: deny, then read.
        ("both", format!("Deny at /ws/both by deny[1], not read[0] (LessStrict), not write[0] (LessStrict){not_root}")),
        (
            "/srv/data/deep/x",
            "Deny at /srv/data/deep/x by deny[2], not read[1] (LessStrict), not write[2] (LessSpecific), not write[1] \
             (LessSpecific)"
                .to_owned(),
        ),
        // Two names of one path.
        ("/srv/data", "Write at /srv/data by write[2], not write[1] (SaysTheSame)".to_owned()),
        // Links and dots, as written and as they lead.
        ("in", "Write at /ws/src by Workspace /ws".to_owned()),
        ("in/../secrets/key", format!("Deny at /ws/secrets/key by deny[0]{not_root}")),
        ("hidden", format!("Deny at /ws/secrets/key by deny[0]{not_root}")),
        ("out", "Write at /srv/data by write[2], not write[1] (SaysTheSame)".to_owned()),
        ("/srv/named/x", "Write at /srv/data/x by write[2], not write[1] (SaysTheSame)".to_owned()),
        ("src/../../srv/data", "Write at /srv/data by write[2], not write[1] (SaysTheSame)".to_owned()),
        // Outside.
        ("..", "Absent at / by nobody".to_owned()),
        ("/srv/other", "Absent at /srv/other by nobody".to_owned()),
        ("/home/ann/.ssh/id", "Absent at /home/ann/.ssh/id by nobody".to_owned()),
        // The system, the toolchains, the sandbox's own.
        ("/bin/sh", "Read at /usr/bin/sh by System /usr".to_owned()),
        ("/etc/hosts", "ReadPublic at /etc/hosts by System /etc, not read[2] (StaysPublic)".to_owned()),
        ("/home/ann/.cargo/bin", "Read at /home/ann/.cargo/bin by Toolchains /home/ann/.cargo".to_owned()),
        (
            "/home/ann/.cargo/credentials.toml",
            "Deny at /home/ann/.cargo/credentials.toml by Credentials /home/ann/.cargo/credentials.toml, not Toolchains \
             /home/ann/.cargo (LessSpecific)"
                .to_owned(),
        ),
        ("/tmp/x", "Private at /tmp/x by Sandbox /tmp".to_owned()),
        ("/tmp/secret", "Private at /tmp/secret by deny[3], not Sandbox /tmp (LessSpecific)".to_owned()),
        ("/proc/1", "Private at /proc/1 by Sandbox /proc".to_owned()),
        // Nothing shows what is the Runner's own.
        (
            "/run/runner/runner.sock",
            "Absent at /run/runner/runner.sock by Runner /run/runner, not read[3] (RunnersOwn)".to_owned(),
        ),
    ] {
        assert_eq!(line(&path_in(&policy, asked)), expected, "{asked}");
    }
}

#[test]
fn the_runners_own_paths_win_against_every_rule() {
    let policy = workspace(&["/run", "/run/runner", "/run/runner/runner.sock"], &[], &[]);
    assert_eq!(
        line(&path_in(&policy, "/run/runner/runner.sock")),
        "Deny at /run/runner/runner.sock by Runner /run/runner, not read[2] (RunnersOwn), not read[1] (RunnersOwn), not \
         read[0] (LessSpecific)"
    );
}

#[test]
fn a_read_only_workspace_and_a_mount_point_on_the_way_are_told_as_what_they_are() {
    let policy = Workspace { profile: Profile::ReadOnly, ..workspace(&[], &[], &[]) };
    let explained = path_in(&policy, "src/none");
    assert_eq!(line(&explained), "Read at /ws/src/none by Workspace /ws");
    assert_eq!(explained.notes, ["it does not exist, and no command can create it"]);

    let policy = workspace(&[], &[], &["secrets/key"]);
    let explained = path_in(&policy, "secrets");
    assert_eq!(line(&explained), "Write at /ws/secrets by Workspace /ws", "the mount point is no decision");
    assert!(explained.notes[0].contains("/ws/secrets/key"), "{:?}", explained.notes);
    let rules = whole(policy).rules;
    let pinned = rules.iter().find(|rule| rule.path.to_text() == "/ws/secrets").unwrap();
    assert_eq!((pinned.access, &pinned.from), (Shown::Write, &RuleSource::Pin));
}

#[test]
fn what_does_not_exist_is_told_as_what_it_would_be() {
    let policy = workspace(&[], &[], &["/srv/other/none"]);
    let explained = path_in(&policy, "/srv/other/none");
    assert_eq!((explained.access, explained.exists), (Shown::Absent, false));
    assert!(explained.notes[0].contains("/srv/other/none") && explained.notes[0].contains("holds by itself"));
    assert_eq!(explained.beaten[0].because, Why::NothingThere);
    assert_eq!(path_in(&policy, "new").notes, ["it does not exist; a command may create it"]);

    // Within something writable it cannot be held: no command runs.
    let policy = workspace(&["later/too"], &[], &["later"]);
    let explained = path_in(&policy, "later");
    assert!(explained.notes[0].contains("refuses every command"), "{:?}", explained.notes);
    assert_eq!(explained.notes.len(), 1, "{:?}", explained.notes);
    assert!(explained.refused.is_some());
    let whole = whole(policy);
    assert_eq!(whole.refused.unwrap().code, codespace_domain::ErrorCode::SandboxUnavailable);
    assert_eq!(whole.unenforceable.len(), 2, "{:?}", whole.unenforceable);
}

#[test]
fn a_link_that_is_not_shown_leads_nowhere_inside() {
    let disk = disk().link("/home/ann/ws", "/ws");
    let registry = registry(workspace(&[], &[], &[]));
    let explained = explain_path(&registry, &id(), Path::new("/home/ann/ws/src"), &host(), &disk).unwrap();
    assert_eq!((explained.access, explained.path.to_text().as_ref()), (Shown::Absent, "/home/ann/ws/src"));
    assert!(explained.notes[0].contains("/ws/src"), "{:?}", explained.notes);
    let named = Workspace { root: "/home/ann/ws".into(), ..workspace(&[], &[], &[]) };
    let explained = explain_path(&super::tests::registry(named), &id(), Path::new("src"), &host(), &disk).unwrap();
    assert_eq!(line(&explained), "Write at /ws/src by Workspace /ws", "the workspace's own name is a link of the view");
}

#[test]
fn a_path_out_of_the_workspace_is_told_to_be_one() {
    let policy = workspace(&[], &["/srv/data"], &[]);
    assert!(path_in(&policy, "../srv/data").notes[0].contains("leads out of the workspace by `..`"));
    assert!(path_in(&policy, "out").notes[0].contains("leads out of the workspace by a link"));
    assert_eq!(path_in(&policy, "/srv/data").notes, Vec::<String>::new());
}

#[test]
fn a_whole_workspace_is_told_in_order_with_names_and_no_values() {
    let mut policy = workspace(&["/srv/named"], &[], &["secrets"]);
    policy.env = EnvPolicy {
        inherit: vec!["TOKEN".into(), "LANG".into(), "NOT_THERE".into()],
        set: [("CI".to_owned(), "hunter2".to_owned())].into(),
    };
    policy.timeout_ms = TimeoutPolicy { default: Some(5), max: Some(9) };
    let whole = whole(policy);
    let rules: Vec<_> = whole.rules.iter().map(|rule| format!("{:?} {}", rule.access, source(rule))).collect();
    assert_eq!(
        rules,
        [
            "Private Sandbox /proc",
            "Private Sandbox /dev",
            "Private Sandbox /tmp",
            "Symlink System /bin",
            "ReadPublic System /etc",
            "Symlink System /lib",
            "Read System /usr",
            "Write Workspace /ws",
            "Read read[0]",
            "Symlink link /srv/named to /srv/data",
            "Deny deny[0]",
            "Read Toolchains /home/ann/.cargo",
            "Deny Credentials /home/ann/.cargo/credentials.toml",
        ]
    );
    let env: Vec<_> = whole.env.iter().map(|v| format!("{} {:?}", v.name.to_text(), v.from)).collect();
    let expected = [
        "CARGO_HOME Toolchain",
        "CI Set",
        "HOME Default",
        "LANG Inherit",
        "PATH Default",
        "TMPDIR Default",
        "TOKEN Inherit",
    ];
    assert_eq!(env, expected);
    assert_eq!((whole.timeout_ms, whole.max_timeout_ms, whole.refused.clone()), (Some(5), Some(9), None));
    let json = serde_json::to_string(&whole).unwrap();
    assert!(!json.contains("hunter2") && !json.contains("\"de\""), "{json}");
}

#[test]
fn a_host_is_reached_as_the_network_says() {
    let with = |network: NetworkPolicy, sandbox: SandboxChoice| {
        registry(Workspace { network, sandbox, ..Workspace::new("/ws") })
    };
    let list = || NetworkPolicy::List(NetworkList { allow: vec!["example.com".into()], deny: vec![] });
    use NetworkPolicy::{Enabled, Host, Restricted};
    for (network, sandbox, asked, reach) in [
        (Restricted, SandboxChoice::Auto, "example.com:443", Reach::Nothing),
        (Restricted, SandboxChoice::Auto, "localhost:8080", Reach::OwnLoopback),
        (Restricted, SandboxChoice::Auto, "127.0.0.9", Reach::OwnLoopback),
        (Restricted, SandboxChoice::Auto, "[::1]:80", Reach::OwnLoopback),
        (Restricted, SandboxChoice::None, "example.com", Reach::Host),
        (Host, SandboxChoice::Auto, "example.com", Reach::Host),
        (Enabled, SandboxChoice::Auto, "example.com", Reach::Refused),
        (list(), SandboxChoice::Auto, "example.com", Reach::Refused),
    ] {
        let registry = with(network.clone(), sandbox);
        let explained = explain_host(&registry, &id(), asked, &host(), &disk()).unwrap();
        assert_eq!(explained.reach, reach, "{network:?} {sandbox:?} {asked}");
        assert_eq!(explained.refused.is_some(), reach == Reach::Refused, "{network:?} {asked}");
    }
    let bad = explain_host(&with(Host, SandboxChoice::Auto), &id(), "http://x", &host(), &disk()).unwrap_err();
    assert_eq!(bad.code, codespace_domain::ErrorCode::InvalidCommand);
}

#[test]
fn a_refused_start_is_told_beside_the_view_that_there_would_be() {
    let listed = Workspace { network: NetworkPolicy::Enabled, ..workspace(&[], &[], &["secrets"]) };
    let whole = whole(listed.clone());
    assert!(whole.refused.unwrap().message.contains("network") && !whole.rules.is_empty());
    assert_eq!(path_in(&listed, "secrets").access, Shown::Deny);
    // A host without an engine.
    let none = HostFacts { engine: None, ..host() };
    let explained = explain(&registry(workspace(&[], &[], &[])), &id(), &none, &disk()).unwrap();
    assert!(explained.refused.is_some() && !explained.rules.is_empty());
    // No view at all.
    let disk = disk().gone("/ws");
    let explained = explain(&registry(workspace(&[], &[], &[])), &id(), &host(), &disk).unwrap();
    assert!(explained.refused.is_some() && explained.rules.is_empty());
    assert!(explain_path(&registry(workspace(&[], &[], &[])), &id(), Path::new("x"), &host(), &disk).is_err());
}

#[test]
fn without_a_sandbox_everything_is_the_hosts() {
    let open = Workspace { sandbox: SandboxChoice::None, ..Workspace::new("/ws") };
    assert_eq!(line(&path_in(&open, "/home/ann")), "Host at /home/ann by NoSandbox /");
    let whole = whole(open);
    assert_eq!((whole.sandboxed, whole.network, whole.rules.len()), (false, Reach::Host, 1));
}

proptest! {
    /// What is told as deciding says what the plan says, for every path and every set of rules.
    #[test]
    fn an_explanation_says_what_the_plan_says(
        rules in proptest::collection::vec((0..3_usize, "(/ws|/srv|/run/runner|/tmp)?(/[abc]){0,3}"), 0..6),
        asked in "(/ws|/srv|/run/runner|/etc|/usr|/tmp)(/[abc]){0,4}",
    ) {
        let disk = disk().dir("/ws/a/b/c").dir("/ws/b/a").link("/ws/c", "/srv/a").dir("/srv/a/b").dir("/srv/b/c").dir("/tmp/a/b");
        let mut lists = [Vec::new(), Vec::new(), Vec::new()];
        for (list, path) in rules.iter().filter(|(_, path)| !path.is_empty()) {
            lists[*list].push(path.as_str());
        }
        let policy = workspace(&lists[0], &lists[1], &lists[2]);
        let registry = registry(policy.clone());
        if let Ok(explained) = explain_path(&registry, &id(), Path::new(&asked), &host(), &disk) {
            // Each rule of the view has a source; only a mount point on the way was named by nobody.
            let whole = explain(&registry, &id(), &host(), &disk).unwrap();
            let unnamed = whole.rules.iter().filter(|rule| rule.from == RuleSource::Pin);
            prop_assert!(unnamed.clone().all(|rule| rule.access == Shown::Write), "{:?} {:?}", lists, whole.rules);
            let plan = Explained::new(&registry, &id(), &host(), &disk).unwrap().plan.unwrap();
            let accesses = Accesses::of(&plan.view);
            let nearest = accesses.nearest(explained.path.as_path());
            let told = explained.decided_by.as_ref().map(|rule| rule.access);
            let holds = nearest.map(|(_, access)| sources::shown(access));
            let unnamed = if explained.path.as_path().starts_with("/tmp") { Shown::Private } else { Shown::Absent };
            prop_assert_eq!(explained.access, holds.unwrap_or(unnamed));
            // Where nothing shows the path, something may hide it all the same.
            let told = told.filter(|told| holds.is_some() || !matches!(told, Shown::Deny | Shown::Private));
            prop_assert_eq!(told, holds, "{:?} {:?}", lists, explained);
            // Nobody who is told to have lost for being stricter or nearer said the same.
            for beaten in &explained.beaten {
                let lost = matches!(beaten.because, Why::LessStrict | Why::RunnersOwn | Why::StaysPublic);
                prop_assert!(!lost || beaten.rule.access != explained.access, "{:?}", explained);
                let same_path = explained.decided_by.as_ref().is_some_and(|rule| rule.path == beaten.rule.path);
                prop_assert!(beaten.because != Why::LessStrict || same_path, "{:?} {:?}", lists, explained);
            }
        }
    }
}
