//! A transport that takes no further message while many answers have not been sent. Whoever asks and never reads is not
//! asked to remember: what it has not read is memory of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Messages that may wait to be sent while others are still taken.
const MOST_UNSENT: usize = 64;

/// A transport that knows how far its peer is behind.
pub(crate) struct Paced<T> {
    inner: T,
    unsent: Arc<Unsent>,
    /// Nobody can ask for more than what has come already; then it is better to see the end.
    hung_up: CancellationToken,
}

#[derive(Default)]
struct Unsent {
    count: AtomicUsize,
    fewer: Notify,
}

/// A message that is not sent yet.
struct One(Arc<Unsent>);

impl<T> Paced<T> {
    pub(crate) fn new(inner: T, hung_up: CancellationToken) -> Self {
        Self { inner, unsent: Arc::default(), hung_up }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Paced<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let one = Unsent::one(&self.unsent);
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            drop(one);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        tokio::select! {
            () = self.unsent.until_few() => {}
            () = self.hung_up.cancelled() => {}
        }
        self.inner.receive().await
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

impl Unsent {
    fn one(this: &Arc<Self>) -> One {
        this.count.fetch_add(1, Ordering::Relaxed);
        One(Arc::clone(this))
    }

    async fn until_few(&self) {
        loop {
            let fewer = self.fewer.notified();
            tokio::pin!(fewer);
            // From here on it hears of it, so that none is missed between the look and the wait.
            fewer.as_mut().enable();
            if self.count.load(Ordering::Relaxed) < MOST_UNSENT {
                return;
            }
            fewer.await;
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.fewer.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use rmcp::model::{RequestId, ServerJsonRpcMessage, ServerResult};
    use tokio::sync::Semaphore;

    use super::*;

    /// Sends one message for each permit, and has nothing to say.
    struct Slow(Arc<Semaphore>);

    impl Transport<RoleServer> for Slow {
        type Error = std::io::Error;

        fn send(
            &mut self,
            _message: TxJsonRpcMessage<RoleServer>,
        ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
            let permits = Arc::clone(&self.0);
            async move {
                permits.acquire_owned().await.map_err(std::io::Error::other)?.forget();
                Ok(())
            }
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
            None
        }

        async fn close(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn nothing_more_is_taken_until_a_peer_that_is_behind_has_read() {
        let permits = Arc::new(Semaphore::new(0));
        let hung_up = CancellationToken::new();
        let mut paced = Paced::new(Slow(Arc::clone(&permits)), hung_up.clone());
        let answer = || ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(1));
        let mut sends: Vec<_> = (0..MOST_UNSENT).map(|_| tokio::spawn(paced.send(answer()))).collect();
        {
            let mut receiving = pin!(paced.receive());
            let mut context = Context::from_waker(Waker::noop());
            assert!(receiving.as_mut().poll(&mut context).is_pending());
            permits.add_permits(1);
            assert!(receiving.await.is_none());
        }
        // One that nobody waits for any more is not counted either.
        let given_up = sends.pop().expect("a send");
        given_up.abort();
        assert!(given_up.await.is_err_and(|error| error.is_cancelled()));
        assert!(matches!(pin!(paced.receive()).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
        sends.extend((0..2).map(|_| tokio::spawn(paced.send(answer()))));
        {
            let mut receiving = pin!(paced.receive());
            assert!(receiving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            hung_up.cancel();
            assert!(receiving.await.is_none());
        }
        permits.close();
    }
}
