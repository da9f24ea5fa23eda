//! A peer that does not read: what waits to be sent to it may wait for so long without one byte more, and then the
//! connection breaks. Without that, whoever asks for something and never reads it would hold a connection for ever, and some
//! of these are all there are.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when they have stood still for too long.
pub(super) struct Impatient<S> {
    stream: S,
    deadline: Duration,
    /// Since a write had to wait.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, deadline: Duration) -> Self {
        Self { stream, deadline, waits: None }
    }

    /// What came of a write; too late where it has waited for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(self.deadline)));
        ready!(waits.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        several: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, several);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use hyper::server::conn::http1;
    use hyper_util::rt::TokioIo;
    use hyper_util::service::TowerToHyperService;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    const ASKED: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const LONG: usize = 100_000;

    fn app() -> TowerToHyperService<Router> {
        TowerToHyperService::new(Router::new().route("/", get(async || "x".repeat(LONG))))
    }

    #[tokio::test]
    async fn a_connection_whose_peer_does_not_read_breaks() {
        let (mut theirs, ours) = duplex(1000);
        let ours = Impatient::new(ours, Duration::from_millis(20));
        theirs.write_all(ASKED).await.expect("to ask");
        let connection = http1::Builder::new().serve_connection(TokioIo::new(ours), app());
        let ended = timeout(Duration::from_secs(60), connection).await.expect("it to end");
        assert!(ended.is_err(), "{ended:?}");
        drop(theirs);
    }

    #[tokio::test]
    async fn one_that_reads_slowly_gets_all_of_it() {
        let (mut theirs, ours) = duplex(1000);
        let ours = Impatient::new(ours, Duration::from_secs(60));
        theirs.write_all(ASKED).await.expect("to ask");
        let served = tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(ours), app()));
        let mut got = 0;
        let mut some = [0; 100];
        while got < LONG {
            got += theirs.read(&mut some).await.expect("to read");
            tokio::task::yield_now().await;
        }
        drop(theirs);
        drop(served.await.expect("no panic"));
    }
}
