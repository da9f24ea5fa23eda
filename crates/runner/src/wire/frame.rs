//! Frames: a 4-byte big-endian length and that many bytes, 1 to [`MAX_FRAME`].
//!
//! Owns the length check and the growth of the receive buffer. The length is a peer's claim: it is checked before
//! anything is allocated, and memory follows the bytes that have really come. Never looks into a payload.

use std::io;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The most bytes of one payload: 16 MiB.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Bytes of the length in front of each payload.
pub const HEADER: usize = 4;

/// The receive buffer grows by at most so many bytes ahead of what has come, or doubles what is there.
const STEP: usize = 64 * 1024;

/// Why no frame could be read or made.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A length of 0. The stream is still in step: the next frame can be read.
    #[error("read a frame: its length is 0")]
    Empty,
    /// A length beyond [`MAX_FRAME`]. Nothing after it can be trusted.
    #[error("take a frame of {length} bytes: the most is {MAX_FRAME}")]
    TooLarge {
        /// The payload's length in bytes.
        length: usize,
    },
    /// The stream ended inside a frame.
    #[error("read a frame: the stream ended inside it")]
    Truncated,
    /// The payload could not be written as JSON.
    #[error("write a message as JSON")]
    Json(#[source] serde_json::Error),
    /// The stream itself failed.
    #[error("move a frame over the connection")]
    Io(#[from] io::Error),
}

/// Cuts frames out of a byte stream. `next` may be dropped at any await and called again; no byte is lost.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    header: [u8; HEADER],
    header_len: usize,
    body: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from the stream's present position, which must be the beginning of a frame.
    pub fn new(stream: R) -> Self {
        Self { stream, header: [0; HEADER], header_len: 0, body: Vec::new() }
    }

    /// The next payload; `None` when the stream ended between two frames.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        while self.header_len < HEADER {
            let read = self.stream.read(&mut self.header[self.header_len..]).await?;
            if read == 0 {
                return if self.header_len == 0 { Ok(None) } else { Err(FrameError::Truncated) };
            }
            self.header_len += read;
        }
        // A `u32` that does not fit a `usize` is too large anyway.
        let length = usize::try_from(u32::from_be_bytes(self.header)).unwrap_or(usize::MAX);
        match length {
            0 => {
                self.header_len = 0;
                return Err(FrameError::Empty);
            }
            1..=MAX_FRAME => {}
            _ => return Err(FrameError::TooLarge { length }),
        }
        while self.body.len() < length {
            let missing = length - self.body.len();
            if self.body.capacity() == self.body.len() {
                self.body.reserve_exact(missing.min(self.body.len().max(STEP)));
            }
            let mut rest = (&mut self.stream).take(missing as u64);
            if rest.read_buf(&mut self.body).await? == 0 {
                return Err(FrameError::Truncated);
            }
        }
        self.header_len = 0;
        Ok(Some(std::mem::take(&mut self.body)))
    }

    /// The stream, where no further frame is wanted. What was read of an unfinished one is lost.
    pub(crate) fn into_stream(self) -> R {
        self.stream
    }

    /// Bytes that are held for the frame under way.
    pub fn allocated(&self) -> usize {
        self.body.capacity()
    }
}

/// A message as one frame, ready to be sent: length and JSON in one buffer.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message).map_err(FrameError::Json)?;
    let header = header_of(frame.len() - HEADER)?;
    frame[..HEADER].copy_from_slice(&header);
    Ok(frame)
}

/// Writes one payload with its length in front and flushes. Not to be dropped half-way: the stream is then out of step.
pub async fn write_frame<W: AsyncWrite + Unpin>(stream: &mut W, payload: &[u8]) -> Result<(), FrameError> {
    let header = header_of(payload.len())?;
    stream.write_all(&header).await?;
    stream.write_all(payload).await?;
    stream.flush().await?;
    Ok(())
}

fn header_of(length: usize) -> Result<[u8; HEADER], FrameError> {
    match length {
        0 => Err(FrameError::Empty),
        1..=MAX_FRAME => u32::try_from(length).map(u32::to_be_bytes).map_err(|_| FrameError::TooLarge { length }),
        _ => Err(FrameError::TooLarge { length }),
    }
}
