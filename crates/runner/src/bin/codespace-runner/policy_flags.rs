//! The flags of a policy for the current directory, which `run` and `explain` share: as the registry that an operator would
//! have written. Decides nothing: that is the policy's.

use std::path::PathBuf;

use codespace_domain::Profile;
use codespace_policy::{
    DEFAULT_WORKSPACE, EnvPolicy, Filesystem, Home, HostDisk, NetworkPolicy, Registry, SandboxChoice, Workspace,
};

use crate::error::CliError;

/// Names of the caller's environment that pass without being named.
const PASSING: [&str; 6] = ["PATH", "TERM", "LANG", "TZ", "COLORTERM", "NO_COLOR"];

/// What a command of the current directory may see and reach.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyFlags {
    /// Show this path read-only. May be given several times, as may --write and --deny.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Show this path writable.
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Show nothing at this path.
    #[arg(long, value_name = "PATH")]
    deny: Vec<PathBuf>,
    /// Let the command only read the workspace.
    #[arg(long)]
    read_only: bool,
    /// What the command reaches: nothing but a loopback of its own, or the host's network.
    #[arg(long, default_value = "restricted")]
    network: NetworkArg,
    /// What of the home directory is shown.
    #[arg(long, default_value = "none")]
    home: HomeArg,
    /// Run without a sandbox: the command sees and reaches what you do. It is still ended whole.
    #[arg(long)]
    no_sandbox: bool,
    /// Allow the home directory, its parents and system directories as the workspace.
    #[arg(long)]
    pub(crate) allow_broad_root: bool,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum NetworkArg {
    #[default]
    Restricted,
    Host,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum HomeArg {
    #[default]
    None,
    Toolchains,
}

impl PolicyFlags {
    /// A registry of one workspace: the current directory.
    pub(crate) fn registry(&self) -> Result<Registry, CliError> {
        let here = std::env::current_dir().map_err(|e| CliError::host("find the current directory", e))?;
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let workspace = Workspace {
            profile: if self.read_only { Profile::ReadOnly } else { Profile::WorkspaceWrite },
            sandbox: if self.no_sandbox { SandboxChoice::None } else { SandboxChoice::Auto },
            filesystem: Filesystem {
                read: self.read.clone(),
                write: self.write.clone(),
                deny: self.deny.clone(),
                home: match self.home {
                    HomeArg::None => Home::None,
                    HomeArg::Toolchains => Home::Toolchains,
                },
                ..Filesystem::default()
            },
            network: match self.network {
                NetworkArg::Restricted => NetworkPolicy::Restricted,
                NetworkArg::Host => NetworkPolicy::Host,
            },
            env: EnvPolicy { inherit: names.filter(|name| passes(name)).collect(), ..EnvPolicy::default() },
            allow_broad_root: self.allow_broad_root,
            ..Workspace::new(here)
        };
        DEFAULT_WORKSPACE
            .parse()
            .map_err(|e| CliError::host("name the workspace", std::io::Error::other(e)))
            .and_then(|id| Registry::single(id, workspace, &HostDisk).map_err(with_flags))
    }
}

/// In words of the flags where there is no file to change.
fn with_flags(mut error: codespace_policy::RegistryError) -> CliError {
    error.hint = error.hint.map(|hint| match hint.contains("allow_broad_root") {
        true => "go to a directory of the project, or pass --allow-broad-root".to_owned(),
        false => hint,
    });
    CliError::Registry { file: None, error }
}

fn passes(name: &str) -> bool {
    PASSING.contains(&name) || name.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_environment_only_the_documented_names_pass() {
        for name in ["PATH", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLORTERM", "NO_COLOR"] {
            assert!(passes(name), "{name}");
        }
        for name in ["HOME", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PATHS", "LANGUAGE"] {
            assert!(!passes(name), "{name}");
        }
    }
}
