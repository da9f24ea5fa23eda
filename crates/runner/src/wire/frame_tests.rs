//! Frames survive any cut of the stream, and a length is never believed.

use std::pin::Pin;
use std::task::{Context, Poll};

use proptest::prelude::*;
use tokio::io::{AsyncRead, ReadBuf};

use super::frame::{FrameError, FrameReader, HEADER, MAX_FRAME, encode, write_frame};

/// Gives its bytes in pieces of the given sizes, and says `Pending` between them.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
    ready: bool,
}

impl Pieces {
    fn new(bytes: Vec<u8>, sizes: Vec<usize>) -> Self {
        Self { bytes, at: 0, sizes, turn: 0, ready: false }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        self.ready = !self.ready;
        if !self.ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let size = self.sizes.get(self.turn % self.sizes.len().max(1)).copied().unwrap_or(1).max(1);
        self.turn += 1;
        let end = self.bytes.len().min(self.at + size.min(buf.remaining()));
        buf.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

async fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        write_frame(&mut bytes, payload).await.unwrap();
    }
    bytes
}

proptest! {
    #[test]
    fn payloads_come_back_whole_however_the_stream_is_cut(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..6),
        sizes in prop::collection::vec(1usize..50, 1..8),
    ) {
        block_on(async {
            let mut reader = FrameReader::new(Pieces::new(framed(&payloads).await, sizes));
            for payload in &payloads {
                let got = reader.next().await.unwrap();
                assert_eq!(got.as_ref(), Some(payload));
            }
            assert!(reader.next().await.unwrap().is_none());
        });
    }

    #[test]
    fn a_reader_that_is_dropped_at_every_await_loses_nothing(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 1..4),
    ) {
        block_on(async {
            let mut reader = FrameReader::new(Pieces::new(framed(&payloads).await, vec![3]));
            let mut got = Vec::new();
            loop {
                // `biased` polls the reader once and gives it up as soon as it has to wait.
                tokio::select! {
                    biased;
                    frame = reader.next() => match frame.unwrap() {
                        Some(frame) => got.push(frame),
                        None => break,
                    },
                    () = std::future::ready(()) => {}
                }
            }
            assert_eq!(got, payloads);
        });
    }
}

#[test]
fn a_stream_cut_at_any_byte_is_an_end_between_frames_and_truncated_inside_one() {
    block_on(async {
        let whole = framed(&[b"{}".to_vec(), b"[1]".to_vec()]).await;
        for cut in 0..=whole.len() {
            let mut reader = FrameReader::new(&whole[..cut]);
            let last = loop {
                match reader.next().await {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            if [0, HEADER + 2, whole.len()].contains(&cut) {
                assert!(matches!(last, Ok(None)), "{cut}: {last:?}");
            } else {
                assert!(matches!(last, Err(FrameError::Truncated)), "{cut}: {last:?}");
            }
        }
    });
}

#[test]
fn a_length_of_zero_is_an_error_and_the_next_frame_is_still_read() {
    block_on(async {
        let mut bytes = vec![0; HEADER];
        bytes.extend(framed(&[b"7".to_vec()]).await);
        let mut reader = FrameReader::new(bytes.as_slice());
        assert!(matches!(reader.next().await, Err(FrameError::Empty)));
        assert_eq!(reader.next().await.unwrap().as_deref(), Some(b"7".as_slice()));
    });
}

#[test]
fn sixteen_mebibytes_pass_and_one_byte_more_does_not() {
    block_on(async {
        let largest = vec![b' '; MAX_FRAME];
        let mut bytes = framed(std::slice::from_ref(&largest)).await;
        let mut reader = FrameReader::new(bytes.as_slice());
        assert_eq!(reader.next().await.unwrap().map(|b| b.len()), Some(MAX_FRAME));

        bytes[..HEADER].copy_from_slice(&u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes());
        let mut reader = FrameReader::new(bytes.as_slice());
        assert!(matches!(reader.next().await, Err(FrameError::TooLarge { length }) if length == MAX_FRAME + 1));

        let mut sink = Vec::new();
        let too_large = write_frame(&mut sink, &vec![b' '; MAX_FRAME + 1]).await;
        assert!(matches!(too_large, Err(FrameError::TooLarge { .. })));
        assert!(sink.is_empty(), "nothing is written of a frame that is refused");
        assert!(matches!(write_frame(&mut sink, b"").await, Err(FrameError::Empty)));
    });
}

#[test]
fn a_large_length_costs_no_memory_before_its_bytes_come() {
    block_on(async {
        let mut bytes = u32::try_from(MAX_FRAME).unwrap().to_be_bytes().to_vec();
        bytes.push(b'x');
        let mut reader = FrameReader::new(bytes.as_slice());
        assert!(matches!(reader.next().await, Err(FrameError::Truncated)));
        assert!(reader.allocated() <= 128 * 1024, "{} bytes held for one that came", reader.allocated());
    });
}

#[test]
fn an_encoded_message_is_one_frame() {
    block_on(async {
        let frame = encode(&serde_json::json!({"a": 1})).unwrap();
        let mut reader = FrameReader::new(frame.as_slice());
        assert_eq!(reader.next().await.unwrap().as_deref(), Some(br#"{"a":1}"#.as_slice()));
        assert!(matches!(encode(&"x".repeat(MAX_FRAME)), Err(FrameError::TooLarge { .. })));
    });
}
