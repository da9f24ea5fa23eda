//! CodeSpace Runner: runs commands in a workspace inside a Linux sandbox, streams their output, and ends them **whole**:
//! when a command is ended, by whatever cause and at whatever moment, everything that it started is gone, its output ends
//! at once, and the answer says that this was seen.
//!
//! ```no_run
//! use codespace_policy::{HostDisk, Registry, Workspace};
//! use codespace_runner::domain::{ExecRequest, StatusRequest};
//! use codespace_runner::{InProcessRunner, Runner, RunnerConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::single("demo".parse()?, Workspace::new("/srv/demo"), &HostDisk)?;
//! let runner = InProcessRunner::start(RunnerConfig::new(registry)).await?;
//! let session = runner.session();
//! let started = session.exec(ExecRequest::new("demo".parse()?, ["make", "test"])).await?;
//! let status = session.process_status(StatusRequest { process_id: started.process_id, wait_ms: 60_000 }).await?;
//! assert!(status.tree.is_some_and(|tree| tree.confirmed));
//! # Ok(())
//! # }
//! ```
//!
//! This crate does not know mounts (the helper's), what may be seen and why (policy's), nor MCP.

mod api;
#[cfg(target_os = "linux")]
mod cgroups;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod fault;
mod in_process;
#[cfg(target_os = "linux")]
mod launch;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the owner of a running command follows it, which there is on Linux alone")
)]
mod lifecycle;
pub mod linux_sandbox;
#[cfg(target_os = "linux")]
mod orphans;
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_imports, reason = "only a running command has output to read, which there is on Linux alone")
)]
#[cfg_attr(
    not(any(target_os = "linux", test)),
    expect(dead_code, reason = "but for the tests, only a running command writes output")
)]
mod output;
#[cfg(target_os = "linux")]
mod proc_stat;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "the owner that fails every start needs neither the questions nor the answers")
)]
mod process;
#[cfg(target_os = "linux")]
mod sandbox_tree;
mod session;
mod subscription;
mod sys;
pub mod uds;
pub mod wire;

pub use api::{Pending, Runner, Subscribing};
pub use codespace_domain as domain;
/// The registry of workspaces, which a Runner is made from.
pub use codespace_policy as registry;
pub use in_process::{InProcessRunner, RunnerConfig};
pub use linux_sandbox::HelperLocation;
pub use process::Retention;
pub use session::Session;
pub use subscription::Subscription;
pub use sys::descriptor_limit::raise_descriptor_limit;
pub use sys::subreaper::become_subreaper;
