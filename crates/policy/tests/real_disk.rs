//! The decisions on a real file system.

use std::os::unix::fs::symlink;
use std::path::Path;

use codespace_domain::{ErrorCode, ExecRequest};
use codespace_linux_sandbox_protocol::{Access, Engine, Plan};
use codespace_policy::{HostDisk, HostFacts, Registry, Workspace, admit, plan};

fn host() -> HostFacts {
    let engine = Some(Engine::Bubblewrap { program: "/usr/bin/bwrap".into() });
    HostFacts { engine, network_enforced: true, ..HostFacts::default() }
}

fn start(workspace: Workspace, cwd: &str) -> Result<Plan, codespace_domain::RunnerError> {
    let registry = Registry::single("demo".parse().unwrap(), workspace, &HostDisk).unwrap();
    let mut request = ExecRequest::new("demo".parse().unwrap(), ["true"]);
    request.cwd = Some(cwd.into());
    let admitted = admit(&registry, &request, &host())?;
    plan(&registry, &admitted, &request, &host(), &HostDisk)
}

fn access<'a>(plan: &'a Plan, path: &Path) -> Option<&'a Access> {
    let rules = &plan.view.rules;
    rules.iter().find(|rule| rule.path.as_path() == path).map(|rule| &rule.access)
}

#[test]
fn links_of_the_real_disk_are_followed_and_none_leads_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let root = dir.join("ws");
    std::fs::create_dir_all(root.join("src/deep")).unwrap();
    std::fs::create_dir(dir.join("cache")).unwrap();
    std::fs::write(root.join("secret"), "x").unwrap();
    symlink("src/deep", root.join("in")).unwrap();
    symlink("/etc", root.join("out")).unwrap();
    symlink(&root, dir.join("by-link")).unwrap();

    let mut workspace = Workspace::new(dir.join("by-link"));
    workspace.filesystem.write = vec![dir.join("cache")];
    workspace.filesystem.deny = vec!["secret".into()];
    let plan = start(workspace.clone(), "in").unwrap();
    assert_eq!(plan.command.cwd.as_path(), root.join("src/deep"));
    assert_eq!(access(&plan, &root), Some(&Access::Write));
    assert_eq!(access(&plan, &dir.join("cache")), Some(&Access::Write));
    assert_eq!(access(&plan, &root.join("secret")), Some(&Access::Deny));
    assert_eq!(access(&plan, &dir.join("by-link")), Some(&Access::Symlink { target: root.clone().into() }));
    assert!(access(&plan, Path::new("/usr")).is_some());

    for cwd in ["out", "out/none", "..", "in/../../../.."] {
        assert_eq!(start(workspace.clone(), cwd).unwrap_err().code, ErrorCode::PathEscape, "{cwd}");
    }
    std::fs::hard_link(root.join("secret"), root.join("other-name")).unwrap();
    assert!(start(workspace, "").unwrap_err().message.contains("secret"));
}

#[test]
fn ten_thousand_rules_are_decided_without_delay() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let mut workspace = Workspace::new(&root);
    for index in 0..10_000 {
        let name = format!("d{}/f{index}", index / 100);
        if index % 100 == 0 {
            std::fs::create_dir(root.join(&name).parent().unwrap()).unwrap();
        }
        std::fs::write(root.join(&name), "").unwrap();
        workspace.filesystem.deny.push(name.into());
    }
    let before = std::time::Instant::now();
    let plan = start(workspace, "").unwrap();
    assert!(plan.view.rules.len() >= 10_000);
    assert!(before.elapsed() < std::time::Duration::from_secs(10), "{:?}", before.elapsed());
}
