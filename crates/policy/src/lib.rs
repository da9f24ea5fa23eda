//! Decides what a command may see, reach and use: registry + request + facts about the host -> [`Resolved`] or a refusal
//! that says why.
//!
//! - [`Registry`]: what the operator allows, as written in the registry file.
//! - [`Disk`]: the facts about the file system that the decisions need. [`HostDisk`] is the only I/O of this crate.
//! - [`resolve`]: one request made into a plan for the sandbox helper.
//!
//! This crate does not know processes, sockets, mounts or system calls: it says what is to hold, never how.

mod command;
mod cwd;
mod disk;
mod environment;
mod facts;
mod info;
mod limits;
mod paths;
mod registry;
mod resolve;
mod rules;
mod toolchains;
mod view;

#[cfg(test)]
mod fake;

pub use disk::HostDisk;
pub use facts::{Disk, Errno, HostFacts, Kind};
pub use info::{workspace_info, workspace_info_reply};
pub use registry::{
    DEFAULT_WORKSPACE, EnvPolicy, Filesystem, Home, Registry, RegistryError, SandboxChoice, TimeoutPolicy, Workspace,
    registry_schema,
};
pub use resolve::{Resolved, resolve};
