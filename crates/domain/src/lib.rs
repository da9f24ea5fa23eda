//! The words of CodeSpace Runner: ids, requests, results, statuses and error codes.
//!
//! Plain data. This crate does no I/O, knows no socket, no JSON-RPC, no process and no file system; every other crate
//! speaks in these types. Names and values of fields are the outward contract (see `docs/protocol.md`).

mod bytes;
mod error;
pub mod escape;
mod exec;
mod ids;
mod output;
mod request;
#[cfg(feature = "schema")]
pub mod schema;
mod signal;
mod status;
mod subscription;
mod workspace;

pub use bytes::ByteString;
pub use error::{ErrorCode, RunnerError, Stage};
pub use exec::{Background, ExecReply, ExecRequest, Lifetime, Limits, OnFull, StdinMode};
pub use ids::{IdError, ProcessId, ProcessKey, WorkspaceId};
pub use output::{Encoding, ReadReply, ReadRequest, Stream, StreamSelection};
pub use request::{
    ClientInfo, CloseStdinRequest, Empty, HelloReply, HelloRequest, ListReply, ListRequest, PROTOCOL, ProcessRef,
    Reply, Request, ResizeReply, ResizeRequest, SandboxInfo, ServerInfo, SignalRequest, StatusRequest, StopReply,
    StopRequest, TerminateRequest, TerminateWorkspaceReply, TerminateWorkspaceRequest, WriteStdinReply,
    WriteStdinRequest,
};
pub use signal::{SignalName, signal_name};
pub use status::{
    EndedBy, Enforcement, LimitName, Phase, ProcessStatus, SignalInfo, State, Termination, TreeReport, Usage,
};
pub use subscription::{Notification, OutputNotice, SubscribeRequest};
pub use workspace::{ExecutionInfo, NetworkMode, Profile, WorkspaceInfo, WorkspaceInfoReply, WorkspaceInfoRequest};
