//! The policy of a `run`: its flags, which are those of `explain`, too.

use codespace_policy::Registry;

use super::RunArgs;
use crate::error::CliError;
use crate::policy_flags::PolicyFlags;
pub(super) use crate::policy_flags::{HomeArg, NetworkArg};

/// A registry of one workspace: the current directory.
pub(super) fn registry(args: &RunArgs) -> Result<Registry, CliError> {
    let flags = PolicyFlags {
        read: args.read.clone(),
        write: args.write.clone(),
        deny: args.deny.clone(),
        read_only: args.read_only,
        network: args.network,
        home: args.home,
        no_sandbox: args.no_sandbox,
        allow_broad_root: args.allow_broad_root,
    };
    flags.registry()
}
