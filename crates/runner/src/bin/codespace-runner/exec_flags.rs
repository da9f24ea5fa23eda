//! The flags of a start, which `run` and `start` share.

use std::ffi::OsString;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use codespace_domain::{ByteString, ExecRequest, Limits, WorkspaceId};

use crate::values::{self, EnvEntry};

/// What a start may say about itself.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecFlags {
    /// End the command after so long (500ms, 30s, 5m).
    #[arg(long, value_name = "DURATION", value_parser = values::millis)]
    timeout: Option<u64>,
    /// How long an end that was asked for lets the command finish by itself.
    #[arg(long, value_name = "DURATION", value_parser = values::millis)]
    pub(crate) grace: Option<u64>,
    /// How long what the command left running may go on.
    #[arg(long, value_name = "DURATION", value_parser = values::millis)]
    linger: Option<u64>,
    /// The working directory, relative to the workspace.
    #[arg(long, value_name = "PATH")]
    cwd: Option<OsString>,
    /// Set NAME in the command's environment, or let it pass from ours.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(values::env_entry))]
    env: Vec<EnvEntry>,
    /// Keep so many of the latest output bytes.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    output_bytes: Option<u64>,
    /// Memory of the whole tree.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    limit_memory: Option<u64>,
    /// Processes and threads of the whole tree.
    #[arg(long, value_name = "COUNT")]
    limit_pids: Option<u64>,
    /// Processor time of each process.
    #[arg(long, value_name = "DURATION", value_parser = values::seconds)]
    limit_cpu: Option<u64>,
    /// The largest file that a process may write.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    limit_file_size: Option<u64>,
    /// Open files of one process.
    #[arg(long, value_name = "COUNT")]
    limit_open_files: Option<u64>,
    /// The command and its arguments, after --.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl ExecFlags {
    /// The request that they make.
    pub(crate) fn request(&self, workspace_id: WorkspaceId) -> ExecRequest {
        ExecRequest {
            cwd: self.cwd.clone().map(ByteString::from),
            // A name that our own environment does not have has nothing to pass.
            env: self.env.iter().filter(|e| e.value.is_some()).map(|e| (e.name.clone(), e.value.clone())).collect(),
            timeout_ms: self.timeout,
            grace_ms: self.grace.unwrap_or(0),
            linger_ms: self.linger,
            output_bytes: self.output_bytes,
            limits: Limits {
                memory_bytes: self.limit_memory,
                pids: self.limit_pids,
                cpu_seconds: self.limit_cpu,
                file_bytes: self.limit_file_size,
                open_files: self.limit_open_files,
            },
            ..ExecRequest::new(workspace_id, self.command.iter().cloned())
        }
    }
}
