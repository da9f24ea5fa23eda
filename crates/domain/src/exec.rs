//! A start: what a client asks for, and what it is answered.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ByteString, ProcessId, ProcessKey, ProcessStatus, ReadReply, WorkspaceId};

/// Params of `exec`. Times are milliseconds, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// Where the command runs.
    pub workspace_id: WorkspaceId,
    /// The argv; no shell is implied, never empty.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    #[cfg_attr(
        feature = "schema",
        schemars(extend("prefixItems" = [{ "$ref": "#/$defs/ByteString", "minLength": 1 }]))
    )]
    pub command: Vec<ByteString>,
    /// The working directory, relative to the workspace's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<ByteString>,
    /// Added to the Runner's own small environment; `null` removes a name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_name_once")]
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = { "pattern": "^[^=\\u0000]+$" })))]
    pub env: BTreeMap<String, Option<ByteString>>,
    /// Whether the command gets a terminal instead of pipes.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub tty: bool,
    /// The terminal's rows (default 24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 24)))]
    pub rows: Option<u16>,
    /// The terminal's columns (default 80).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 80)))]
    pub cols: Option<u16>,
    /// Whether stdin ends at once or stays open for `write_stdin`; a tty always has it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "none")))]
    pub stdin: StdinMode,
    /// Counts from the acceptance of `exec`. Absent: the workspace's default; 0: none, under the registry's `max` the `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// SIGTERM to the command first, and so long until the end, for every end that names no grace of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 0)))]
    pub grace_ms: u64,
    /// How long what the command left running may go on (default 250).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 250)))]
    pub linger_ms: Option<u64>,
    /// What the process's life is tied to.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "workspace")))]
    pub lifetime: Lifetime,
    /// Whether what the command left running is ended or kept.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "end")))]
    pub background: Background,
    /// How many of the latest output bytes are kept (default 1 MiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1_048_576)))]
    pub output_bytes: Option<u64>,
    /// What happens when unread output fills the budget.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "drop")))]
    pub on_full: OnFull,
    /// Limits of this process; they can only narrow the workspace's.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// A retry with the same key returns the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_key: Option<ProcessKey>,
    /// Wait for the end up to so long before the answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 0)))]
    pub wait_ms: u64,
}

impl ExecRequest {
    /// A request with defaults everywhere else.
    pub fn new(workspace_id: WorkspaceId, command: impl IntoIterator<Item = impl Into<ByteString>>) -> Self {
        Self {
            workspace_id,
            command: command.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            tty: false,
            rows: None,
            cols: None,
            stdin: StdinMode::None,
            timeout_ms: None,
            grace_ms: 0,
            linger_ms: None,
            lifetime: Lifetime::Workspace,
            background: Background::End,
            output_bytes: None,
            on_full: OnFull::Drop,
            limits: Limits::default(),
            process_key: None,
            wait_ms: 0,
        }
    }
}

/// What stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// At its end from the start, so that nothing hangs on it.
    #[default]
    None,
    /// Open for `write_stdin` until `close_stdin`.
    Pipe,
}

/// What a process's life is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// Outlives its client; ends with its workspace or the Runner.
    #[default]
    Workspace,
    /// Ends when the connection that started it closes.
    Connection,
}

/// What happens to processes that a command leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// They have `linger_ms` to finish, then they are ended.
    #[default]
    End,
    /// The process stays `running` until its whole tree is gone or is ended.
    Keep,
}

/// What happens when the output budget is full of bytes that nobody has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// The oldest bytes go, and readers are told.
    #[default]
    Drop,
    /// The command waits, as on a full pipe.
    Wait,
}

/// Limits of a process. Absent: not limited here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Memory of the whole tree, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub pids: Option<u64>,
    /// Processor time of each process, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub cpu_seconds: Option<u64>,
    /// The largest file that a process may write, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Open files of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub open_files: Option<u64>,
}

impl Limits {
    /// True when nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The stricter of both, field by field: a request can narrow a workspace's limits, never widen them.
    pub fn narrowed_by(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            memory_bytes: least(self.memory_bytes, other.memory_bytes),
            pids: least(self.pids, other.pids),
            cpu_seconds: least(self.cpu_seconds, other.cpu_seconds),
            file_bytes: least(self.file_bytes, other.file_bytes),
            open_files: least(self.open_files, other.open_files),
        }
    }
}

/// Result of `exec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecReply {
    /// The new process, or the one that already has this `process_key`.
    pub process_id: ProcessId,
    /// Always `confirmed`: the command's `execve` has succeeded, or the process was ended before that.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "confirmed")))]
    pub dispatch_status: String,
    /// With `wait_ms`, and for a start that was ended while it was pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<ProcessStatus>>,
    /// With `wait_ms`: the output so far, from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<ReadReply>>,
}

/// A map in which a name that is there twice is an error, and never one of the two taken.
fn each_name_once<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Option<ByteString>>, D::Error> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = BTreeMap<String, Option<ByteString>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("names with their values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut names = BTreeMap::new();
            while let Some((name, value)) = map.next_entry::<String, _>()? {
                if names.contains_key(&name) {
                    return Err(de::Error::custom(format_args!("duplicate name `{name}`")));
                }
                names.insert(name, value);
            }
            Ok(names)
        }
    }

    deserializer.deserialize_map(Names)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_is_short_and_an_unknown_field_is_refused() {
        let request = ExecRequest::new("demo".parse().unwrap(), ["true"]);
        let json = serde_json::to_value(&request).unwrap();
        assert_eq!(json, serde_json::json!({"workspace_id": "demo", "command": ["true"]}));
        assert_eq!(serde_json::from_value::<ExecRequest>(json).unwrap(), request);
        assert!(
            serde_json::from_str::<ExecRequest>(r#"{"workspace_id":"demo","command":["true"],"shell":true}"#).is_err()
        );
    }

    #[test]
    fn a_request_narrows_limits_and_never_widens_them() {
        let workspace = Limits { pids: Some(10), open_files: Some(64), ..Limits::default() };
        let request = Limits { pids: Some(20), cpu_seconds: Some(3), open_files: Some(5), ..Limits::default() };
        let both = workspace.narrowed_by(request);
        assert_eq!(both, Limits { pids: Some(10), cpu_seconds: Some(3), open_files: Some(5), ..Limits::default() });
    }
}
