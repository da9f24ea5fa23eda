//! One client over stdio, which has started this process. It has left when it has closed our stdin: what it asked before
//! that is still answered, for a few seconds. And it is gone, with nobody to answer to, when our stdout has no reader.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{self, Context, Poll};

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf, Ready};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::paced::Paced;

/// Serves until the client has left or is gone.
///
/// # Errors
/// What broke the conversation.
pub(crate) async fn serve(gateway: Gateway) -> io::Result<()> {
    let leaving = CancellationToken::new();
    let input = UntilEnd { input: tokio::io::stdin(), ended: leaving.clone() };
    let hung_up = CancellationToken::new();
    let conversation = async {
        let transport = Paced::new(AsyncRwTransport::new_server(input, tokio::io::stdout()), hung_up.clone());
        match gateway.until(leaving).serve(transport).await {
            Ok(session) => session.waiting().await.map(drop).map_err(io::Error::other),
            // Whoever leaves before it has said hello wants nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    };
    let hang_up = async {
        no_writer(io::stdin().as_fd().try_clone_to_owned()?).await;
        hung_up.cancel();
        std::future::pending().await
    };
    tokio::select! {
        served = conversation => served,
        () = no_reader(io::stdout().as_fd().try_clone_to_owned()?) => Ok(()),
        failed = hang_up => failed,
    }
}

/// An input whose end is told.
struct UntilEnd<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = task::ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}

/// Returns when nobody can read any more what is written there. A file always can be read.
async fn no_reader(output: OwnedFd) {
    until(output, Interest::WRITABLE, |ready| ready.is_write_closed() || ready.is_error()).await;
}

/// Returns when nobody can write there any more, also while what was written is not read.
async fn no_writer(input: OwnedFd) {
    until(input, Interest::READABLE, Ready::is_read_closed).await;
}

/// Returns when this has come to the descriptor; never for one to which nothing can come.
async fn until(descriptor: OwnedFd, interest: Interest, has_come: impl Fn(Ready) -> bool) {
    // SAFETY: the value owns its descriptor, which is closed only when the AsyncFd has deregistered and drops it.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    let Ok(watched) = watched else { return std::future::pending().await };
    while let Ok(mut ready) = watched.ready(interest).await {
        if has_come(ready.ready()) {
            return;
        }
        // That something can be written or read is no news; only the next event is.
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _, pipe};
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn a_pipe_or_socket_without_a_reader_is_noticed_and_one_that_is_only_full_or_emptied_is_not() {
        let (mut reader, mut writer) = pipe().expect("a pipe");
        let mut gone = pin!(no_reader(writer.try_clone().expect("a copy").into()));
        writer.write_all(b"x").expect("to write");
        reader.read_exact(&mut [0]).expect("to read");
        tokio::task::yield_now().await;
        assert_eq!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        drop(reader);
        gone.await;

        let (theirs, ours) = UnixStream::pair().expect("sockets");
        let mut gone = pin!(no_reader(ours.into()));
        theirs.shutdown(std::net::Shutdown::Write).expect("to end our stdin");
        tokio::task::yield_now().await;
        assert_eq!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        drop(theirs);
        gone.await;
    }

    #[tokio::test]
    async fn an_input_without_a_writer_is_noticed_while_it_is_full_and_one_with_a_writer_is_not() {
        let (reader, mut writer) = pipe().expect("a pipe");
        let mut gone = pin!(no_writer(reader.try_clone().expect("a copy").into()));
        writer.write_all(b"unread").expect("to write");
        tokio::task::yield_now().await;
        assert_eq!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        drop(writer);
        gone.await;

        let (theirs, ours) = UnixStream::pair().expect("sockets");
        theirs.shutdown(std::net::Shutdown::Write).expect("to end our stdin");
        no_writer(ours.into()).await;
    }

    #[tokio::test]
    async fn a_file_always_has_a_reader() {
        let file = tempfile::tempfile().expect("a file");
        let mut gone = pin!(no_reader(file.into()));
        assert_eq!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    }
}
