//! `explain`: what a policy lets a command see and reach, rule by rule; or what decides about one path or one host.
//!
//! The policy is that of `run` with these flags here, or that of a registry's workspace. What is said is the policy's own
//! word (`codespace_policy::explain`); the lines are made in `text`.

mod text;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use codespace_domain::WorkspaceId;
use codespace_policy::{
    DEFAULT_WORKSPACE, HostDisk, HostFacts, PathExplained, Registry, Shown, explain, explain_host, explain_path,
};
use codespace_runner::RunnerConfig;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::exit;
use crate::policy_flags::PolicyFlags;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A path as a command would name it, or a host with or without a port; without it, the whole policy. What exists, or
    /// begins with `/` or `.`, is a path; else what has a dot or a colon is a host.
    #[arg(value_name = "PATH|HOST[:PORT]")]
    about: Option<PathBuf>,
    /// The workspace of a registry, instead of this directory with the flags of `run`.
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["read", "write", "deny", "read_only", "network", "home", "no_sandbox", "allow_broad_root"]
    )]
    workspace: Option<WorkspaceId>,
    /// The registry of that workspace [env: CODESPACE_CONFIG]; without one, this directory is the workspace `default`.
    #[arg(long, value_name = "FILE", requires = "workspace")]
    config: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyFlags,
    /// Not connected to, only kept out of the command's reach.
    #[command(flatten)]
    socket: SocketFlag,
}

pub(crate) async fn run(args: ExplainArgs, render: Render) -> Result<u8, CliError> {
    let asked = Asked::of(&args)?;
    let mut config = RunnerConfig::new(asked.registry);
    config.forbidden.extend(args.socket.path().parent().filter(|dir| dir.exists()).map(Into::into));
    config.forbidden.extend(asked.file);
    let host = config.host_facts().await;
    let (registry, id) = (&config.registry, &asked.id);
    let paint = render.paint();
    match args.about {
        None => {
            let whole = explain(registry, id, &host, &HostDisk)?;
            render.result(&whole, || text::whole(&whole, &asked.names, paint))?;
        }
        Some(about) => match as_host(&about, registry, id)? {
            Some(name) => {
                let about = explain_host(registry, id, name, &host, &HostDisk)?;
                render.result(&about, || text::host(&about, paint))?;
            }
            None => {
                let about = path(registry, id, &about, &host)?;
                render.result(&about, || text::path(&about, &asked.names, paint))?;
            }
        },
    }
    Ok(exit::OK)
}

/// Whose policy is meant, and how its keys are called.
struct Asked {
    registry: Registry,
    id: WorkspaceId,
    file: Option<PathBuf>,
    names: text::Names,
}

impl Asked {
    fn of(args: &ExplainArgs) -> Result<Self, CliError> {
        let Some(id) = &args.workspace else {
            let id = DEFAULT_WORKSPACE
                .parse()
                .map_err(|e| CliError::host("name the workspace", std::io::Error::other(e)))?;
            return Ok(Self { registry: args.policy.registry()?, id, file: None, names: text::Names::Flags });
        };
        let named = std::env::var_os("CODESPACE_CONFIG").map(PathBuf::from);
        let file = args.config.clone().or(named).filter(|file| !file.as_os_str().is_empty());
        let registry = super::serve::load(file.as_deref(), args.policy.allow_broad_root)?;
        let file = file.map(|file| std::path::absolute(&file).unwrap_or(file));
        Ok(Self { registry, id: id.clone(), file, names: text::Names::Registry(id.clone()) })
    }
}

/// The argument as a host, if it is meant as one.
fn as_host<'a>(about: &'a Path, registry: &Registry, id: &WorkspaceId) -> Result<Option<&'a str>, CliError> {
    let root = &registry.find(id)?.root;
    let exists = root.join(about).symlink_metadata().is_ok();
    let name = about.to_str().filter(|name| !exists && looks_like_a_host(name));
    Ok(name)
}

fn looks_like_a_host(name: &str) -> bool {
    let path = name.starts_with(['/', '.', '~']) || name.contains('/') && !name.contains("://");
    !path && (name.contains(['.', ':']) || name == "localhost")
}

fn path(registry: &Registry, id: &WorkspaceId, about: &Path, host: &HostFacts) -> Result<PathExplained, CliError> {
    let mut explained = explain_path(registry, id, about, host, &HostDisk)?;
    if explained.access == Shown::ReadPublic && explained.exists && !is_public(explained.path.as_path()) {
        let hidden = "hidden: others than its owner and group may not read it, or not enter a folder above it";
        explained.notes.insert(0, hidden.to_owned());
    }
    Ok(explained)
}

/// What the helper looks at when it hides what is not public: whether others may read it, and enter what is above it.
fn is_public(path: &Path) -> bool {
    let mode = |path: &Path| path.symlink_metadata().map(|found| (found.is_dir(), found.permissions().mode()));
    let open = |path: &Path| match mode(path) {
        Ok((true, mode)) => mode & 0o005 == 0o005,
        Ok((false, mode)) => mode & 0o004 != 0,
        Err(_) => false,
    };
    path.ancestors().take_while(|above| *above != Path::new("/")).all(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_from_a_path_by_how_it_is_written() {
        for host in ["example.com", "example.com:443", "localhost", "10.0.0.1:80", "[::1]:80", "http://example.com/"] {
            assert!(looks_like_a_host(host), "{host}");
        }
        for path in ["/etc", "./a.b", "../x.y", "src", "src/main.rs", ".git", "~/x.y", "a/b:c"] {
            assert!(!looks_like_a_host(path), "{path}");
        }
    }

    #[test]
    fn what_others_may_not_read_is_not_public() {
        assert!(is_public(Path::new("/etc/passwd")));
        assert!(!is_public(Path::new("/etc/no-such-file")));
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, "").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_public(&key), "its directory is closed to others");
    }
}
