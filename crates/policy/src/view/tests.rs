//! Whole views, compared rule by rule.

use codespace_domain::{ErrorCode, Profile};

use super::*;
use crate::fake::FakeDisk;
use crate::rules::resolve_rules;
use crate::{Filesystem, Home};

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

fn workspace(read: &[&str], write: &[&str], deny: &[&str]) -> Workspace {
    let filesystem = Filesystem { read: paths(read), write: paths(write), deny: paths(deny), ..Filesystem::default() };
    Workspace { filesystem, ..Workspace::new("/ws") }
}

fn build(workspace: &Workspace, disk: &FakeDisk) -> Result<ViewMap, RunnerError> {
    build_with(workspace, &[], &[], disk)
}

fn build_with(
    workspace: &Workspace,
    toolchains: &[Toolchain],
    forbidden: &[PathBuf],
    disk: &FakeDisk,
) -> Result<ViewMap, RunnerError> {
    let root = walk(disk, &workspace.root).path;
    let rules = resolve_rules(&workspace.filesystem, workspace.profile, &root, disk).unwrap();
    ViewMap::build(workspace, &root, &rules.there, toolchains, forbidden, disk)
}

/// The view as lines of access and path.
fn lines(map: ViewMap) -> Vec<String> {
    let line = |rule: Rule| match rule.access {
        Access::Symlink { target } => format!("link {} -> {}", rule.path.to_text(), target.to_text()),
        Access::Read => format!("read {}", rule.path.to_text()),
        Access::ReadPublic => format!("public {}", rule.path.to_text()),
        Access::Write => format!("write {}", rule.path.to_text()),
        Access::Deny => format!("deny {}", rule.path.to_text()),
    };
    map.into_view().rules.into_iter().map(line).collect()
}

/// The same without the system's part.
fn own_lines(map: ViewMap) -> Vec<String> {
    lines(map).split_off(4)
}

#[test]
fn a_simple_view_is_the_system_and_the_workspace() {
    let disk = FakeDisk::debian().dir("/ws");
    let view = build(&workspace(&[], &[], &[]), &disk).unwrap();
    assert_eq!(lines(view), ["link /bin -> usr/bin", "public /etc", "link /lib -> usr/lib", "read /usr", "write /ws"]);
    let read_only = Workspace { profile: Profile::ReadOnly, ..Workspace::new("/ws") };
    assert_eq!(own_lines(build(&read_only, &disk).unwrap()), ["read /ws"]);
}

#[test]
fn a_system_directory_behind_a_link_is_shown_where_it_is_and_found_by_its_name() {
    let disk = FakeDisk::debian().dir("/ws").dir("/data/nix/store").link("/nix", "/data/nix");
    assert_eq!(
        own_lines(build(&workspace(&[], &[], &[]), &disk).unwrap()),
        ["write /ws", "link /nix/store -> /data/nix/store", "read /data/nix/store"]
    );
}

#[test]
fn the_most_specific_rule_wins_and_parents_come_first() {
    let disk = FakeDisk::debian().dir("/ws/a/b/c").dir("/opt/sdk/private").dir("/srv/cache").dir("/ws/z");
    let view =
        build(&workspace(&["/ws/a", "/opt/sdk"], &["a/b/c", "/srv/cache"], &["a/b", "/opt/sdk/private", "z"]), &disk);
    assert_eq!(
        own_lines(view.unwrap()),
        [
            "write /ws",
            "read /opt/sdk",
            "write /srv/cache",
            "read /ws/a",
            "deny /ws/z",
            "deny /opt/sdk/private",
            "deny /ws/a/b",
            "write /ws/a/b/c",
        ]
    );
}

#[test]
fn on_a_tie_deny_wins_then_read() {
    let disk = FakeDisk::debian().dir("/ws/a").dir("/ws/b").link("/ws/also-a", "a");
    let view = build(&workspace(&["a", "b"], &["a", "b"], &["also-a"]), &disk).unwrap();
    assert_eq!(own_lines(view), ["write /ws", "deny /ws/a", "read /ws/b"]);
    let view = build(&workspace(&["."], &[], &[]), &disk).unwrap();
    assert_eq!(own_lines(view), ["read /ws"]);
}

#[test]
fn rules_that_say_nothing_new_cost_nothing() {
    let disk = FakeDisk::debian().dir("/ws/a").dir("/opt/x").dir("/srv/secret");
    let view = build(&workspace(&["/usr/lib", "/etc"], &["a"], &["/srv/secret", "/opt/x"]), &disk).unwrap();
    assert_eq!(own_lines(view), ["write /ws"]);
}

#[test]
fn a_denied_parent_of_the_workspace_is_simply_not_there() {
    let disk = FakeDisk::debian().dir("/srv/team/ws");
    let filesystem = Filesystem { deny: paths(&["/srv"]), ..Filesystem::default() };
    let view = build(&Workspace { filesystem, ..Workspace::new("/srv/team/ws") }, &disk).unwrap();
    assert_eq!(own_lines(view), ["write /srv/team/ws"]);
}

#[test]
fn what_was_named_through_a_link_is_found_by_both_names() {
    let disk = FakeDisk::debian()
        .dir("/ws")
        .dir("/data/sdk-1/bin")
        .link("/opt/sdk", "../data/sdk-1")
        .link("/data/ws-link", "/ws")
        .link("/usr/lib/jvm", "/data/sdk-1");
    let view = build(&workspace(&["/opt/sdk", "/opt/sdk/bin", "/usr/lib/jvm"], &[], &[]), &disk).unwrap();
    assert_eq!(own_lines(view), ["write /ws", "read /data/sdk-1", "link /opt/sdk -> /data/sdk-1"]);
    let by_link = build(&Workspace::new("/data/ws-link"), &disk).unwrap();
    assert_eq!(own_lines(by_link), ["write /ws", "link /data/ws-link -> /ws"]);
}

#[test]
fn the_runners_own_paths_are_in_no_view() {
    let disk = FakeDisk::debian().dir("/ws/state/sub").file("/usr/bin/codespace-runner").dir("/run/user/0/codespace");
    let mut demo = workspace(&["/ws/state/sub", "/run/user"], &["/ws/state"], &[]);
    let forbidden = paths(&["/ws/state", "/bin/codespace-runner", "/run/user/0/codespace", "/none", "/var/lib"]);
    let view = |demo: &Workspace| build_with(demo, &[], &forbidden, &disk);
    assert_eq!(
        own_lines(view(&demo).unwrap()),
        [
            "write /ws",
            "read /run/user",
            "deny /ws/state",
            "deny /usr/bin/codespace-runner",
            "deny /run/user/0/codespace",
        ]
    );
    demo.root = "/ws/state/sub".into();
    let error = build_with(&demo, &[], &forbidden, &disk).unwrap_err();
    assert_eq!((error.code, error.stage), (ErrorCode::ProcessSpawnFailed, Some(Stage::Prepare)));
}

#[test]
fn toolchains_are_read_only_and_without_their_credentials() {
    let disk = FakeDisk::debian()
        .dir("/ws")
        .file("/root/.cargo/credentials.toml")
        .dir("/root/.cargo/bin")
        .dir("/data/rustup")
        .link("/root/.rustup", "/data/rustup");
    let host = crate::HostFacts { runner_home: Some("/root".into()), ..Default::default() };
    let toolchains = crate::toolchains::find(&host, &disk);
    let mut demo = Workspace::new("/ws");
    demo.filesystem.home = Home::Toolchains;
    let view = |demo: &Workspace| build_with(demo, &toolchains, &[], &disk).unwrap();
    assert_eq!(
        own_lines(view(&demo)),
        [
            "write /ws",
            "read /data/rustup",
            "read /root/.cargo",
            "link /root/.rustup -> /data/rustup",
            "deny /root/.cargo/credentials.toml",
        ]
    );
    // What the operator names has its way.
    demo.filesystem.write = paths(&["/root/.cargo"]);
    demo.filesystem.read = paths(&["/root/.cargo/credentials.toml"]);
    assert!(own_lines(view(&demo)).ends_with(&["read /root/.cargo/credentials.toml".to_owned()]));
    assert_eq!(view(&demo).access(Path::new("/root/.cargo/bin")), Some(&Access::Write));
}

#[test]
fn a_denied_file_with_two_names_is_refused_by_path() {
    let disk = FakeDisk::debian().hard_linked("/ws/secret", 2).file("/ws/other");
    let error = build(&workspace(&[], &[], &["other", "secret"]), &disk).unwrap_err();
    assert_eq!(error.stage, Some(Stage::Prepare));
    assert!(error.message.contains("/ws/secret") && error.message.contains("2 names"), "{error}");
}

#[test]
fn the_hosts_network_comes_with_its_name_servers() {
    let disk = FakeDisk::debian()
        .dir("/ws")
        .file("/run/systemd/resolve/stub-resolv.conf")
        .link("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
    let mut demo = Workspace::new("/ws");
    assert_eq!(own_lines(build(&demo, &disk).unwrap()), ["write /ws"]);
    demo.network = NetworkPolicy::Host;
    assert_eq!(own_lines(build(&demo, &disk).unwrap())[1..], ["read /run/systemd/resolve/stub-resolv.conf"]);
}

#[test]
fn the_whole_disk_as_a_workspace_keeps_the_system_read_only() {
    let disk = FakeDisk::debian();
    let view = build(&Workspace { allow_broad_root: true, ..Workspace::new("/") }, &disk).unwrap();
    assert_eq!(lines(view), ["write /", "public /etc", "read /usr"]);
}

#[test]
fn folders_above_what_is_kept_from_writing_cannot_be_renamed_away() {
    let disk = FakeDisk::debian().dir("/ws").dir("/ws/a/b").file("/ws/a/b/secret").dir("/ws/c/d");
    let view = build(&workspace(&["c/d"], &[], &["a/b/secret"]), &disk).unwrap();
    assert_eq!(
        own_lines(view),
        ["write /ws", "write /ws/a", "write /ws/c", "write /ws/a/b", "read /ws/c/d", "deny /ws/a/b/secret"]
    );
}
