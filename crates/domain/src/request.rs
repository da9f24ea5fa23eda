//! The closed list of what can be asked of a Runner and is answered once, and of those answers. What is answered by more
//! than one message is in `subscription.rs`.

use serde::{Deserialize, Serialize};

use crate::{
    Encoding, Enforcement, ExecReply, ExecRequest, ProcessId, ProcessKey, ProcessStatus, ReadReply, ReadRequest,
    SignalName, State, WorkspaceId, WorkspaceInfoReply, WorkspaceInfoRequest,
};

/// The version of the wire protocol.
pub const PROTOCOL: u32 = 1;

/// Everything that can be asked. The tag and content are the wire's `method` and `params`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the method of its name, documented at its params")]
pub enum Request {
    Hello(HelloRequest),
    WorkspaceInfo(WorkspaceInfoRequest),
    Exec(Box<ExecRequest>),
    WriteStdin(WriteStdinRequest),
    CloseStdin(CloseStdinRequest),
    ReadProcess(ReadRequest),
    ProcessStatus(StatusRequest),
    ListProcesses(ListRequest),
    ProcessResize(ResizeRequest),
    SignalProcess(SignalRequest),
    TerminateProcess(TerminateRequest),
    TerminateWorkspace(TerminateWorkspaceRequest),
    Stop(StopRequest),
}

impl Request {
    /// The wire's names of all methods.
    pub const METHODS: [&str; 13] = [
        "hello",
        "workspace_info",
        "exec",
        "write_stdin",
        "close_stdin",
        "read_process",
        "process_status",
        "list_processes",
        "process_resize",
        "signal_process",
        "terminate_process",
        "terminate_workspace",
        "stop",
    ];
}

/// Everything that can be answered. On the wire it is the bare result; which one it is follows from the method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each is the result of the method of its name")]
pub enum Reply {
    Hello(HelloReply),
    WorkspaceInfo(WorkspaceInfoReply),
    Exec(ExecReply),
    WriteStdin(WriteStdinReply),
    Read(ReadReply),
    Status(Box<ProcessStatus>),
    List(ListReply),
    Resize(ResizeReply),
    TerminateWorkspace(TerminateWorkspaceReply),
    Stop(StopReply),
    /// `close_stdin`, `signal_process`.
    Done(Empty),
}

/// `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {}

/// Params of `hello`, the first request of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloRequest {
    /// The version that the client speaks.
    #[cfg_attr(feature = "schema", schemars(extend("const" = PROTOCOL)))]
    pub protocol: u32,
    /// Who the client is.
    pub client: ClientInfo,
}

/// Who a client is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the words are the meaning")]
pub struct ClientInfo {
    pub name: String,
    #[serde(default)]
    pub version: String,
}

/// Result of `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloReply {
    /// The version that the Runner speaks.
    #[cfg_attr(feature = "schema", schemars(extend("const" = PROTOCOL)))]
    pub protocol: u32,
    /// Who the Runner is.
    pub server: ServerInfo,
    /// What it can enforce.
    pub sandbox: SandboxInfo,
}

/// Who the Runner is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the words are the meaning")]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    pub pid: u32,
}

/// What this Runner can enforce on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxInfo {
    /// The engine that works here; `none` when no engine does.
    pub engine: Enforcement,
    /// Whether a command can be kept off the network.
    pub network_enforced: bool,
    /// What does not work, and why.
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// Params of `write_stdin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend(
    "if" = { "required": ["encoding"], "properties": { "encoding": { "const": "base64" } } },
    "then" = { "properties": { "data": { "pattern": crate::schema::BASE64 } } }
)))]
#[serde(deny_unknown_fields)]
pub struct WriteStdinRequest {
    /// The process.
    pub process_id: ProcessId,
    /// The bytes, in `encoding`.
    pub data: String,
    /// How the bytes come.
    #[serde(default)]
    pub encoding: Encoding,
    /// Makes a retry safe: the same key is written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_key: Option<String>,
}

/// Result of `write_stdin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteStdinReply {
    /// Bytes that the process's stdin has taken.
    pub written: u64,
}

/// Params of `close_stdin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CloseStdinRequest {
    /// The process.
    pub process_id: ProcessId,
}

/// Params of `process_status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    /// The process.
    pub process_id: ProcessId,
    /// How long to wait for its end, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Params of `list_processes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only of this workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
}

/// Result of `list_processes`, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the words are the meaning")]
pub struct ListReply {
    pub processes: Vec<ProcessStatus>,
}

/// Params of `process_resize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    /// The process.
    pub process_id: ProcessId,
    /// At least 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub rows: u16,
    /// At least 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub cols: u16,
}

/// Result of `process_resize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the words are the meaning")]
pub struct ResizeReply {
    pub rows: u16,
    pub cols: u16,
}

/// Params of `signal_process`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// The process.
    pub process_id: ProcessId,
    /// Goes to the command's process group.
    pub signal: SignalName,
}

/// Which process is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ProcessRef {
    /// By its id.
    Id {
        /// The process.
        process_id: ProcessId,
    },
    /// By its client's key, also while its start is still pending.
    Key {
        /// The workspace.
        workspace_id: WorkspaceId,
        /// The key.
        process_key: ProcessKey,
    },
}

/// Params of `terminate_process`: `process_id`, or `workspace_id` and `process_key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(into = "TerminateParams"))]
#[serde(try_from = "TerminateParams")]
pub struct TerminateRequest {
    /// Which process.
    #[serde(flatten)]
    pub process: ProcessRef,
    /// SIGTERM first, and so long until the end, in milliseconds. Absent: what its `exec` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// `process_id`, or `workspace_id` and `process_key`; never both.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = [
    {
        "required": ["process_id"],
        "properties": {
            "process_id": { "type": "string" }, "workspace_id": { "type": "null" }, "process_key": { "type": "null" }
        }
    },
    {
        "required": ["workspace_id", "process_key"],
        "properties": {
            "process_id": { "type": "null" }, "workspace_id": { "type": "string" }, "process_key": { "type": "string" }
        }
    }
])))]
#[serde(deny_unknown_fields)]
struct TerminateParams {
    /// The process.
    process_id: Option<ProcessId>,
    /// The workspace of `process_key`.
    workspace_id: Option<WorkspaceId>,
    /// The process by its client's key, also while its start is still pending.
    process_key: Option<ProcessKey>,
    /// SIGTERM first, and so long until the end, in milliseconds. Absent: what its `exec` said.
    grace_ms: Option<u64>,
}

impl TryFrom<TerminateParams> for TerminateRequest {
    type Error = &'static str;

    fn try_from(params: TerminateParams) -> Result<Self, &'static str> {
        let process = match params {
            TerminateParams { process_id: Some(process_id), workspace_id: None, process_key: None, .. } => {
                ProcessRef::Id { process_id }
            }
            TerminateParams {
                process_id: None,
                workspace_id: Some(workspace_id),
                process_key: Some(process_key),
                ..
            } => ProcessRef::Key { workspace_id, process_key },
            _ => return Err("either process_id, or workspace_id and process_key expected"),
        };
        Ok(Self { process, grace_ms: params.grace_ms })
    }
}

/// Params of `terminate_workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TerminateWorkspaceRequest {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// As for `terminate_process`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Result of `terminate_workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminateWorkspaceReply {
    /// How many processes it ended.
    pub ended: u64,
    /// Their final statuses.
    pub processes: Vec<ProcessStatus>,
}

/// Params of `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// As for `terminate_process`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Result of `stop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopReply {
    /// How many processes it ended.
    pub ended: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_name_is_a_request() {
        for method in Request::METHODS {
            let bad = serde_json::json!({"method": method, "params": 7});
            let text = serde_json::from_value::<Request>(bad).unwrap_err().to_string();
            assert!(!text.contains("unknown variant"), "{method}: {text}");
        }
        let unknown = serde_json::json!({"method": "fork_bomb", "params": {}});
        assert!(serde_json::from_value::<Request>(unknown).is_err());
    }

    #[test]
    fn a_process_is_named_by_id_or_by_workspace_and_key() {
        let by_key: TerminateRequest =
            serde_json::from_value(serde_json::json!({"workspace_id": "w", "process_key": "k", "grace_ms": 5}))
                .unwrap();
        assert!(matches!(by_key.process, ProcessRef::Key { .. }));
        assert_eq!(by_key.grace_ms, Some(5));
        for bad in [
            serde_json::json!({"workspace_id": "w"}),
            serde_json::json!({"workspace_id": "w", "process_key": "k", "gracems": 5}),
            serde_json::json!({}),
        ] {
            assert!(serde_json::from_value::<TerminateRequest>(bad.clone()).is_err(), "{bad}");
        }
    }
}
