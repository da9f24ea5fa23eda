//! What went wrong, in one closed list of codes that a caller can match on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The kind of a failure. The text form is the contract's: `WORKSPACE_BUSY`, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The client speaks another protocol version.
    ProtocolMismatch,
    /// The peer may not use this Runner.
    Unauthorized,
    /// No workspace is registered under this id.
    WorkspaceNotFound,
    /// The live-process limit is reached, or an exclusive workspace is in use.
    WorkspaceBusy,
    /// An empty argv or a bad argument.
    InvalidCommand,
    /// The command could not be started; see `stage` and `errno`.
    ProcessSpawnFailed,
    /// The sandbox that the workspace asks for cannot be had.
    SandboxUnavailable,
    /// A path leads out of the workspace.
    PathEscape,
    /// No process has this id or key.
    ProcessNotFound,
    /// The process has no terminal.
    ProcessNotTty,
    /// The process has ended.
    ProcessNotRunning,
    /// The process's stdin is closed, or was never open.
    StdinClosed,
    /// A cursor past the end of the output.
    CursorOutOfRange,
    /// The same `process_key` with a different request.
    KeyConflict,
    /// A limit that this host cannot enforce.
    LimitUnsupported,
    /// The host has run out of something (descriptors, memory, processes).
    ResourceUnavailable,
    /// The Runner is being stopped.
    RunnerStopping,
    /// The workspace is being ended.
    WorkspaceEnding,
    /// A client call's own deadline has passed.
    Timeout,
    /// A fault of the Runner itself.
    Internal,
}

impl ErrorCode {
    /// The contract's text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProtocolMismatch => "PROTOCOL_MISMATCH",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::WorkspaceNotFound => "WORKSPACE_NOT_FOUND",
            Self::WorkspaceBusy => "WORKSPACE_BUSY",
            Self::InvalidCommand => "INVALID_COMMAND",
            Self::ProcessSpawnFailed => "PROCESS_SPAWN_FAILED",
            Self::SandboxUnavailable => "SANDBOX_UNAVAILABLE",
            Self::PathEscape => "PATH_ESCAPE",
            Self::ProcessNotFound => "PROCESS_NOT_FOUND",
            Self::ProcessNotTty => "PROCESS_NOT_TTY",
            Self::ProcessNotRunning => "PROCESS_NOT_RUNNING",
            Self::StdinClosed => "STDIN_CLOSED",
            Self::CursorOutOfRange => "CURSOR_OUT_OF_RANGE",
            Self::KeyConflict => "KEY_CONFLICT",
            Self::LimitUnsupported => "LIMIT_UNSUPPORTED",
            Self::ResourceUnavailable => "RESOURCE_UNAVAILABLE",
            Self::RunnerStopping => "RUNNER_STOPPING",
            Self::WorkspaceEnding => "WORKSPACE_ENDING",
            Self::Timeout => "TIMEOUT",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Before anything was created: the workspace, the plan, the descriptors.
    Prepare,
    /// The sandbox's own set-up.
    Sandbox,
    /// Changing to the working directory.
    Cwd,
    /// The command's `execve`.
    Exec,
}

/// A failure as the outside sees it. `message` is a lower-case fragment that finishes "failed to ..."; advice is in
/// `hint`. Never holds a secret, an environment value or an output byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{code}: {message}")]
pub struct RunnerError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What happened, naming the thing.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where a start failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The operating system's error number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The process that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<ProcessId>,
}

impl RunnerError {
    /// An error with a code and a message, and nothing else yet.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, stage: None, errno: None, process_id: None }
    }

    /// A start that failed at `stage`.
    pub fn spawn_failed(stage: Stage, errno: Option<i32>, message: impl Into<String>) -> Self {
        Self { stage: Some(stage), errno, ..Self::new(ErrorCode::ProcessSpawnFailed, message) }
    }

    /// The same error with advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, naming its process.
    pub fn about(mut self, process_id: ProcessId) -> Self {
        self.process_id = Some(process_id);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_and_the_serialised_form_are_the_same() {
        for code in
            [ErrorCode::ProtocolMismatch, ErrorCode::CursorOutOfRange, ErrorCode::Internal, ErrorCode::ProcessNotTty]
        {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn absent_fields_are_not_sent() {
        let json = serde_json::to_value(RunnerError::new(ErrorCode::Timeout, "x")).unwrap();
        assert_eq!(json, serde_json::json!({"code": "TIMEOUT", "message": "x"}));
    }
}
