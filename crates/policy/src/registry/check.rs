//! Holds one workspace of the registry against the disk and against itself: what is wrong, or cannot be meant, is an error
//! here. What is right and cannot be enforced by this version is `unenforceable`'s.

use std::path::{Path, PathBuf};

use codespace_domain::{Profile, WorkspaceId};

use super::{NetworkPolicy, RegistryError, SandboxChoice, Workspace};
use crate::environment::name_fault;
use crate::facts::errno_text;
use crate::paths::walk;
use crate::rules::{check_protected, check_sockets, resolve_rules};
use crate::{Disk, Kind};

/// Nobody's workspace: a command that may write here changes the system, or all users' files.
const SYSTEM: [&str; 22] = [
    "/",
    "/home",
    "/media",
    "/mnt",
    "/nix",
    "/nix/store",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/include",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];

/// The same, with everything below.
const SYSTEM_TREES: [&str; 17] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/sbin",
];

/// Checks `workspace`; the error's key starts with `workspaces.<id>`.
pub(super) fn workspace(id: &WorkspaceId, workspace: &Workspace, disk: &dyn Disk) -> Result<(), RegistryError> {
    let at = |key: &str, message: &str| RegistryError::at(format!("workspaces.{id}.{key}"), message);
    let root = root(id, workspace, disk)?;
    contradiction(workspace).map_or(Ok(()), |(key, message)| Err(at(key, message)))?;
    for (index, name) in workspace.env.inherit.iter().enumerate() {
        name_fault(name).map_or(Ok(()), |fault| Err(at(&format!("env.inherit[{index}]"), fault)))?;
    }
    for (name, value) in &workspace.env.set {
        name_fault(name).map_or(Ok(()), |fault| Err(at("env.set", &format!("{name:?}: {fault}"))))?;
        if value.contains('\0') {
            return Err(at(&format!("env.set.{name}"), "the value has a NUL byte"));
        }
    }
    if let NetworkPolicy::List(list) = &workspace.network {
        list.fault().map_or(Ok(()), |(key, message)| Err(at(&format!("network.{key}"), &message)))?;
    }
    resolve_rules(&workspace.filesystem, workspace.profile, &root, disk)
        .and_then(|_| check_protected(&workspace.filesystem.protect, &root, disk))
        .and_then(|()| check_sockets(&workspace.unix_sockets, &root, disk))
        .map_err(|refusal| refusal.at_load(id.as_str()))
}

fn root(id: &WorkspaceId, workspace: &Workspace, disk: &dyn Disk) -> Result<PathBuf, RegistryError> {
    let written = &workspace.root;
    let at = |message: String| RegistryError::at(format!("workspaces.{id}.root"), message);
    if !written.is_absolute() {
        return Err(at(format!("{written:?} is relative; an absolute path expected")));
    }
    let walked = walk(disk, written);
    match walked.end {
        Ok(Kind::Dir) => {}
        Ok(_) => return Err(at(format!("{} is no directory", written.display()))),
        Err(errno) => return Err(at(format!("{}: {}", written.display(), errno_text(errno)))),
    }
    match broad(&walked.path, disk) {
        Some(what) if !workspace.allow_broad_root => Err(at(format!("{} is {what}", written.display()))
            .with_hint("choose a directory of its own, or say \"allow_broad_root\": true")),
        _ => Ok(walked.path),
    }
}

/// What makes a directory too much for a workspace.
fn broad(root: &Path, disk: &dyn Disk) -> Option<&'static str> {
    // Both names of a home directory that is reached through a link.
    let home = disk.home();
    let homes = home.iter().map(|home| walk(disk, home).path).chain(home.clone());
    for home in homes {
        if root == home {
            return Some("the home directory");
        }
        if home.starts_with(root) {
            return Some("a parent of the home directory");
        }
    }
    let below_shm = root.starts_with("/dev/shm") && root != Path::new("/dev/shm");
    let system = SYSTEM.iter().any(|dir| root == Path::new(dir))
        || (SYSTEM_TREES.iter().any(|dir| root.starts_with(dir)) && !below_shm);
    system.then_some("a system directory")
}

/// What cannot be meant.
fn contradiction(workspace: &Workspace) -> Option<(&'static str, &'static str)> {
    let Workspace { sandbox, filesystem, network, unix_sockets, limits, timeout_ms, .. } = workspace;
    let sandboxed = *sandbox != SandboxChoice::None;
    let proxied = matches!(network, NetworkPolicy::Enabled | NetworkPolicy::List(_));
    let longer = timeout_ms.max.zip(timeout_ms.default).is_some_and(|(max, default)| default > max);
    let faults = [
        (sandboxed && !workspace.pid_namespace, "pid_namespace", "only sandbox \"none\" can do without"),
        (!sandboxed && workspace.profile == Profile::ReadOnly, "profile", "read-only cannot hold without a sandbox"),
        (!sandboxed && !filesystem.read.is_empty(), "filesystem.read", "no rule can hold without a sandbox"),
        (!sandboxed && !filesystem.deny.is_empty(), "filesystem.deny", "no rule can hold without a sandbox"),
        (!sandboxed && !filesystem.protect.is_empty(), "filesystem.protect", "no rule can hold without a sandbox"),
        (!sandboxed && proxied, "network", "neither \"enabled\" nor a list can hold without a sandbox"),
        (!sandboxed && !unix_sockets.is_empty(), "unix_sockets", "no list can hold without a sandbox"),
        (!sandboxed && workspace.nested_sandboxes, "nested_sandboxes", "nothing is nested without a sandbox"),
        (timeout_ms.max == Some(0), "timeout_ms.max", "at least 1 expected"),
        (longer, "timeout_ms.default", "longer than max"),
        (workspace.max_processes == 0, "max_processes", "at least 1 expected"),
        (limits.memory_bytes == Some(0), "limits.memory_bytes", "at least 1 expected"),
        (limits.pids == Some(0), "limits.pids", "at least 1 expected"),
        (limits.cpu_seconds == Some(0), "limits.cpu_seconds", "at least 1 expected"),
        (limits.open_files == Some(0), "limits.open_files", "at least 1 expected"),
    ];
    faults.into_iter().find_map(|(fault, key, message)| fault.then_some((key, message)))
}
