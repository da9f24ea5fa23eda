//! Any bytes in any pieces: frames come out as they went in, nothing panics, and memory follows what has come.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll};

use codespace_runner::wire::frame::{FrameError, FrameReader, HEADER, MAX_FRAME};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, ReadBuf};

/// The reader may be ahead of the bytes by one step, or double what is there.
const AHEAD: usize = 64 * 1024;

/// The first byte is how many of the next say where to cut; the rest is the stream.
struct Pieces<'a> {
    stream: &'a [u8],
    sizes: &'a [u8],
    turn: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let size = self.sizes.get(self.turn % self.sizes.len().max(1)).copied().unwrap_or(255);
        self.turn += 1;
        if size == 0 && self.turn % 2 == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let now = usize::from(size.max(1)).min(buf.remaining()).min(self.stream.len());
        buf.put_slice(&self.stream[..now]);
        self.stream = &self.stream[now..];
        Poll::Ready(Ok(()))
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&cuts, rest)) = input.split_first() else { return };
    let (sizes, stream) = rest.split_at(usize::from(cuts).min(rest.len()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut expected = stream;
        let mut reader = FrameReader::new(Pieces { stream, sizes, turn: 0 });
        loop {
            let next = reader.next().await;
            assert!(reader.allocated() <= (2 * stream.len()).max(AHEAD), "{} held", reader.allocated());
            let header = expected.first_chunk::<HEADER>().map(|length| u32::from_be_bytes(*length) as usize);
            match (next, header) {
                (Ok(None), None) if expected.is_empty() => return,
                (Err(FrameError::Truncated), None) if !expected.is_empty() => return,
                (Err(FrameError::TooLarge { length }), Some(said)) if said > MAX_FRAME && length == said => return,
                (Err(FrameError::Empty), Some(0)) => expected = &expected[HEADER..],
                (Err(FrameError::Truncated), Some(said)) if said > expected.len() - HEADER => return,
                (Ok(Some(payload)), Some(said)) => {
                    assert_eq!(payload, expected[HEADER..][..said]);
                    expected = &expected[HEADER + said..];
                }
                (other, _) => panic!("{other:?} with {} bytes to come, header {header:?}", expected.len()),
            }
        }
    });
});
