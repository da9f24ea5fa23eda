//! The flags of `run` as the registry that an operator would have written. Decides nothing: that is the policy's.

use codespace_domain::Profile;
use codespace_policy::{
    DEFAULT_WORKSPACE, EnvPolicy, Filesystem, Home, HostDisk, NetworkPolicy, Registry, SandboxChoice, Workspace,
};

use super::RunArgs;
use crate::error::CliError;

/// Names of the caller's environment that pass without being named.
const PASSING: [&str; 6] = ["PATH", "TERM", "LANG", "TZ", "COLORTERM", "NO_COLOR"];

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum NetworkArg {
    Restricted,
    Host,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum HomeArg {
    None,
    Toolchains,
}

/// A registry of one workspace: the current directory.
pub(super) fn registry(args: &RunArgs) -> Result<Registry, CliError> {
    let here = std::env::current_dir().map_err(|e| CliError::host("find the current directory", e))?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let workspace = Workspace {
        profile: if args.read_only { Profile::ReadOnly } else { Profile::WorkspaceWrite },
        sandbox: if args.no_sandbox { SandboxChoice::None } else { SandboxChoice::Auto },
        filesystem: Filesystem {
            read: args.read.clone(),
            write: args.write.clone(),
            deny: args.deny.clone(),
            home: match args.home {
                HomeArg::None => Home::None,
                HomeArg::Toolchains => Home::Toolchains,
            },
            ..Filesystem::default()
        },
        network: match args.network {
            NetworkArg::Restricted => NetworkPolicy::Restricted,
            NetworkArg::Host => NetworkPolicy::Host,
        },
        env: EnvPolicy { inherit: names.filter(|name| passes(name)).collect(), ..EnvPolicy::default() },
        allow_broad_root: args.allow_broad_root,
        ..Workspace::new(here)
    };
    DEFAULT_WORKSPACE
        .parse()
        .map_err(|e| CliError::host("name the workspace", std::io::Error::other(e)))
        .and_then(|id| Registry::single(id, workspace, &HostDisk).map_err(with_flags))
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
