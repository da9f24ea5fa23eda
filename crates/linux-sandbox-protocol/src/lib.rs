//! What the Runner and its sandbox helper say to each other.
//!
//! - [`Plan`]: what to run and what it may see. Travels in a sealed memfd, never in argv, never in a file.
//! - [`FromSandbox`] and [`ToSandbox`]: one JSON object per packet of a `SOCK_SEQPACKET` pair; the helper and the inner
//!   stage hold the one end, the Runner the other.
//! - [`ProbeReport`]: what `codespace-linux-sandbox probe` prints.
//!
//! This crate does not know policy (why something may be seen) nor mounts (how it is shown).

mod fds;
mod messages;
mod plan;
mod probe;

pub use codespace_domain::{ByteString, Stage};
pub use fds::{CONTROL_FD, PLAN_FD, RUNNER_PIDFD};
pub use messages::{CommandEnd, FromSandbox, MAX_MESSAGE, StageFailure, ToSandbox, TreeUsage};
pub use plan::{Access, CommandSpec, Engine, Network, PLAN_PROTOCOL, Plan, Rlimits, Rule, View};
pub use probe::{Finding, ProbeReport};
