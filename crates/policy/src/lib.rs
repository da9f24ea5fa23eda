//! Decides what a command may see, reach and use: registry + request + facts about the host -> [`Admitted`] and its plan,
//! or a refusal that says why.
//!
//! - [`Registry`]: what the operator allows, as written in the registry file.
//! - [`Disk`]: the facts about the file system that the decisions need. [`HostDisk`] is the only I/O of this crate.
//! - [`admit()`]: whether a request may start and on which terms; needs no disk and never blocks.
//! - [`plan()`]: what the sandbox helper is then given; asks the disk.
//! - [`explain()`]: the same plan for people, with where each rule of it comes from.
//!
//! This crate does not know processes, sockets, mounts or system calls: it says what is to hold, never how.

mod admit;
mod command;
mod cwd;
mod disk;
mod environment;
mod explain;
mod facts;
mod info;
mod limits;
mod paths;
mod plan;
mod registry;
mod rules;
mod toolchains;
mod view;

#[cfg(test)]
mod fake;

pub use admit::{Admitted, admit};
pub use disk::HostDisk;
pub use explain::{
    Beaten, Explanation, HostExplained, PathExplained, Reach, RuleExplained, RuleSource, Shown, VariableExplained,
    VariableSource, Why, explain, explain_host, explain_path,
};
pub use facts::{Disk, Errno, HostFacts, Kind};
pub use info::{workspace_info, workspace_info_reply};
pub use plan::plan;
pub use registry::{
    DEFAULT_WORKSPACE, EnvPolicy, Filesystem, Home, NetworkList, NetworkPolicy, Registry, RegistryError, SandboxChoice,
    TimeoutPolicy, Workspace, registry_schema,
};
