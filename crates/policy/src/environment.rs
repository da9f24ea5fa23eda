//! A command's environment: a few standard variables, what the registry passes or sets, and what the request asks for,
//! each over the one before. Nothing else of the Runner's own reaches a command.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use codespace_domain::{ByteString, ExecRequest};

use crate::paths::walk;
use crate::toolchains::Toolchain;
use crate::view::ViewMap;
use crate::{Disk, Home, HostFacts, Kind, Workspace};

/// The programs of the system.
const FIXED_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What is wrong with a variable's name; `None` when it is good.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("the name is empty")
    } else if name.contains('=') {
        Some("the name has a '='")
    } else if name.contains('\0') {
        Some("the name has a NUL byte")
    } else {
        None
    }
}

/// Sorted by name. `view` is `None` without a sandbox, where the Runner's own PATH holds.
pub(crate) fn build(
    workspace: &Workspace,
    request: &ExecRequest,
    root: &Path,
    host: &HostFacts,
    seen: Option<(&ViewMap, &[Toolchain])>,
    disk: &dyn Disk,
) -> Vec<(ByteString, ByteString)> {
    let runner_path = host.runner_env.get(OsStr::new("PATH"));
    let path = match seen {
        Some((view, _)) if workspace.filesystem.home == Home::Toolchains => path_within(view, runner_path, disk).into(),
        Some(_) => FIXED_PATH.into(),
        None => runner_path.filter(|path| !path.is_empty()).cloned().map_or(FIXED_PATH.into(), ByteString::from),
    };
    let mut env = BTreeMap::from([
        ("PATH".into(), path),
        ("HOME".into(), root.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TMPDIR".into(), "/tmp".into()),
    ]);
    if request.tty {
        env.insert("TERM".into(), "xterm-256color".into());
    }
    for (name, dir) in seen.iter().flat_map(|(view, toolchains)| variables(view, toolchains)) {
        env.insert(name.into(), dir.into());
    }
    for name in &workspace.env.inherit {
        if let Some(value) = host.runner_env.get(OsStr::new(name)) {
            env.insert(name.as_str().into(), value.clone().into());
        }
    }
    for (name, value) in &workspace.env.set {
        env.insert(name.as_str().into(), value.as_str().into());
    }
    for (name, value) in &request.env {
        let name = ByteString::from(name.as_str());
        match value {
            Some(value) => env.insert(name, value.clone()),
            None => env.remove(&name),
        };
    }
    env.into_iter().collect()
}

/// The variables of those toolchains that are seen.
fn variables<'a>(
    view: &'a ViewMap,
    toolchains: &'a [Toolchain],
) -> impl Iterator<Item = (&'static str, &'a Path)> + use<'a> {
    toolchains.iter().filter(|toolchain| view.shows(&toolchain.resolved)).filter_map(|toolchain| {
        let name = if view.leads_to(&toolchain.written) { &toolchain.written } else { &toolchain.resolved };
        toolchain.variable.map(|variable| (variable, name.as_path()))
    })
}

/// Those entries of the Runner's PATH that are seen, then the system's; each once.
fn path_within(view: &ViewMap, runner_path: Option<&OsString>, disk: &dyn Disk) -> OsString {
    let runners = runner_path.map(|path| std::env::split_paths(path).collect::<Vec<PathBuf>>()).unwrap_or_default();
    let seen = runners.into_iter().filter(|entry| entry.is_absolute()).filter_map(|entry| {
        let walked = walk(disk, &entry);
        let there = walked.end == Ok(Kind::Dir) && view.shows(&walked.path);
        there.then(|| if view.leads_to(&entry) { entry } else { walked.path })
    });
    let mut before = BTreeSet::new();
    let mut path = OsString::new();
    for entry in seen.chain(std::env::split_paths(FIXED_PATH)) {
        if before.insert(entry.clone()) {
            if !path.is_empty() {
                path.push(":");
            }
            path.push(entry);
        }
    }
    path
}
