//! What a read answers, and why it may refuse. Knows the contract's words, not where the bytes come from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codespace_domain::{Encoding, ErrorCode, OutputNotice, ProcessId, ReadReply, RunnerError, State, Stream};

use super::text;

/// The least `max_bytes`: any one character fits.
pub(super) const LEAST_MAX_BYTES: u64 = 4;

/// A part of a process's output. Offsets count the bytes of the stream that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset for the next read.
    pub(crate) cursor: u64,
    /// The bytes, in `encoding`.
    pub(crate) chunk: String,
    /// How the bytes are written.
    pub(crate) encoding: Encoding,
    /// This read reached the end, and no more can come.
    pub(crate) eof: bool,
    /// This read skipped bytes that are gone.
    pub(crate) output_lost: bool,
    /// Where the latest kept bytes begin.
    pub(crate) retained_from: u64,
    /// Bytes so far.
    pub(crate) total: u64,
    /// The label of the bytes, where they were asked for one label at a time and there are any.
    pub(crate) label: Option<Stream>,
}

impl Chunk {
    /// The same as the contract's reply.
    pub(crate) fn into_reply(self, process_id: ProcessId, state: State) -> ReadReply {
        let Self { cursor, chunk, encoding, eof, output_lost, retained_from, total, label: _ } = self;
        ReadReply { process_id, cursor, chunk, encoding, eof, output_lost, retained_from, total, state }
    }

    /// The same as the contract's notification. No bytes at all are stdout's.
    pub(crate) fn into_notice(self, process_id: ProcessId, state: State) -> OutputNotice {
        let stream = self.label.unwrap_or(Stream::Stdout);
        OutputNotice { read: self.into_reply(process_id, state), stream }
    }
}

/// A read that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// The cursor lies beyond what there ever was.
    #[error("read at cursor {cursor}: there are {total} bytes so far")]
    PastEnd {
        /// What was asked for.
        cursor: u64,
        /// Bytes of that stream so far.
        total: u64,
    },
    /// A character might never fit.
    #[error("read at most {max_bytes} bytes: max_bytes is at least {LEAST_MAX_BYTES}")]
    MaxBytesTooSmall {
        /// What was asked for.
        max_bytes: u64,
    },
}

impl From<ReadError> for RunnerError {
    fn from(error: ReadError) -> Self {
        let code = match error {
            ReadError::PastEnd { .. } => ErrorCode::CursorOutOfRange,
            ReadError::MaxBytesTooSmall { .. } => ErrorCode::InvalidCommand,
        };
        RunnerError::new(code, error.to_string())
    }
}

/// Writes bytes the way that a reader asked for.
pub(super) fn encode(bytes: Vec<u8>, encoding: Encoding) -> String {
    match encoding {
        Encoding::Utf8 => text::to_text(bytes),
        Encoding::Base64 => STANDARD.encode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_contracts_code() {
        let past_end = RunnerError::from(ReadError::PastEnd { cursor: 9, total: 5 });
        assert_eq!(past_end.code, ErrorCode::CursorOutOfRange);
        assert_eq!(past_end.message, "read at cursor 9: there are 5 bytes so far");
        let too_small = RunnerError::from(ReadError::MaxBytesTooSmall { max_bytes: 3 });
        assert_eq!(too_small.code, ErrorCode::InvalidCommand);
        assert_eq!(too_small.message, "read at most 3 bytes: max_bytes is at least 4");
    }

    #[test]
    fn text_replaces_what_is_no_text_and_base64_carries_it() {
        assert_eq!(encode(b"a\xff\xe2\x82b".to_vec(), Encoding::Utf8), "a\u{fffd}\u{fffd}b");
        assert_eq!(encode(b"a\xff".to_vec(), Encoding::Base64), "Yf8=");
    }
}
