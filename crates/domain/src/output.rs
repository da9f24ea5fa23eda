//! Output: one byte stream with two labels, read by cursor.

use serde::{Deserialize, Serialize};

use crate::{ProcessId, State};

/// A label of the output stream. A terminal's output is all `stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the meaning")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Which bytes a read is about. With one stream, the cursor counts that stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the meaning")]
pub enum StreamSelection {
    #[default]
    Combined,
    Stdout,
    Stderr,
}

/// How bytes are put into a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Encoding {
    /// Text; bytes that are no UTF-8 become U+FFFD.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Any bytes.
    #[serde(rename = "base64")]
    Base64,
}

/// Params of `read_process`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The process.
    pub process_id: ProcessId,
    /// Offset of the first byte wanted.
    #[serde(default)]
    pub cursor: u64,
    /// How long to wait for a byte or the end, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// The most bytes to return, at least 4.
    #[serde(default = "default_max_bytes")]
    #[cfg_attr(feature = "schema", schemars(range(min = 4)))]
    pub max_bytes: u64,
    /// Which stream.
    #[serde(default)]
    pub stream: StreamSelection,
    /// Only the last so many bytes of what there is; then `cursor` does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_bytes: Option<u64>,
    /// How the bytes come.
    #[serde(default)]
    pub encoding: Encoding,
    /// Only look: under `on_full: "wait"` these bytes do not count as read, so that whoever watches makes no room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peek: bool,
}

impl ReadRequest {
    /// A read from the beginning with the contract's defaults.
    pub fn new(process_id: ProcessId) -> Self {
        Self {
            process_id,
            cursor: 0,
            wait_ms: 0,
            max_bytes: default_max_bytes(),
            stream: StreamSelection::Combined,
            tail_bytes: None,
            encoding: Encoding::Utf8,
            peek: false,
        }
    }
}

fn default_max_bytes() -> u64 {
    65536
}

/// Result of `read_process`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadReply {
    /// The process.
    pub process_id: ProcessId,
    /// Offset for the next read.
    pub cursor: u64,
    /// The bytes, in `encoding`.
    pub chunk: String,
    /// How the bytes come.
    pub encoding: Encoding,
    /// This read reached the end, and no more can come.
    pub eof: bool,
    /// This read skipped bytes that are gone.
    pub output_lost: bool,
    /// Where the latest kept bytes begin.
    pub retained_from: u64,
    /// Bytes so far.
    pub total: u64,
    /// Running or exited.
    pub state: State,
}
