//! A subscription: asked for once, answered by many notifications.

use serde::{Deserialize, Serialize};

use crate::{Encoding, ProcessId, ProcessStatus, ReadReply, Stream};

/// Params of `subscribe`. Its result is `{}`; the notifications follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubscribeRequest {
    /// The process.
    pub process_id: ProcessId,
    /// Offset of the first byte wanted, in both streams together.
    #[serde(default)]
    pub cursor: u64,
    /// How the bytes come.
    #[serde(default)]
    pub encoding: Encoding,
}

impl SubscribeRequest {
    /// The wire's name of the method.
    pub const METHOD: &'static str = "subscribe";

    /// Everything from the beginning, as text.
    pub fn new(process_id: ProcessId) -> Self {
        Self { process_id, cursor: 0, encoding: Encoding::Utf8 }
    }
}

/// What a subscription tells. The tag and content are the wire's `method` and `params`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Notification {
    /// The next bytes, in the order in which they came.
    Output(OutputNotice),
    /// The process has ended, and all of its output was told. Nothing follows.
    Exited(Box<ProcessStatus>),
}

impl Notification {
    /// The wire's names of all notifications.
    pub const METHODS: [&str; 2] = ["output", "exited"];
}

/// Params of `output`: the bytes of one label that follow each other. The last one has `eof` and may have no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputNotice {
    /// As the answer to a read of both streams.
    #[serde(flatten)]
    pub read: ReadReply,
    /// The label of these bytes.
    pub stream: Stream,
}
