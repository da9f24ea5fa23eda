//! The plan: what to run, and what it may see and reach. All paths are absolute and resolved (no links).

use codespace_domain::ByteString;
use serde::{Deserialize, Serialize};

/// The version of the plan and of the messages. Runner and helper come from one build; another number is refused.
pub const PLAN_PROTOCOL: u32 = 1;

/// Everything the helper needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_PROTOCOL`].
    pub protocol: u32,
    /// Who builds the sandbox.
    pub engine: Engine,
    /// What the command sees of the file system.
    pub view: View,
    /// What it reaches of the network.
    pub network: Network,
    /// The command.
    pub command: CommandSpec,
}

/// Who builds the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Nobody: the host's file system and network.
    None {
        /// Whether the command gets a PID namespace of its own for the sake of its end. `false`: it is only supervised,
        /// for hosts without PID namespaces.
        pid_namespace: bool,
    },
    /// The bubblewrap program at this path.
    Bubblewrap {
        /// Absolute path of `bwrap`.
        program: ByteString,
    },
}

/// What the command sees of the file system. It starts empty but for a private `/tmp`, `/dev`, `/dev/shm` and `/proc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Applied in this order; a later rule lies on top of an earlier one. A parent comes before what is below it.
    pub rules: Vec<Rule>,
}

/// One path and how it is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Absolute, resolved path, the same inside as on the host.
    pub path: ByteString,
    /// How it is seen.
    pub access: Access,
}

/// How a path is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The host's, read-only.
    Read,
    /// The host's, read-only, and of what is below it only what others than its owner and group may read (`/etc`).
    ReadPublic,
    /// The host's, writable.
    Write,
    /// Not there: an empty, unreadable stand-in.
    Deny,
    /// A symbolic link, as on the host (`/bin` -> `usr/bin`).
    Symlink {
        /// What it points to, as written.
        target: ByteString,
    },
}

/// What the command reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A network namespace with only its own loopback up.
    Isolated,
    /// The host's.
    Host,
}

/// The command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Not empty. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<ByteString>,
    /// The whole environment.
    pub env: Vec<(ByteString, ByteString)>,
    /// Absolute working directory.
    pub cwd: ByteString,
    /// Its standard descriptors are a terminal, which becomes its controlling one.
    pub tty: bool,
    /// Limits of each process.
    #[serde(default)]
    pub rlimits: Rlimits,
}

/// Limits that the kernel keeps per process; `None` leaves what the Runner has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rlimits {
    /// RLIMIT_CPU, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// RLIMIT_FSIZE, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// RLIMIT_NOFILE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}
