//! The other end of a connection: a [`Runner`] whose work is done elsewhere.
//!
//! Owns the ids of the requests and the table of those that wait for an answer. Requests leave in the order in which
//! they are asked. A lost connection fails everything that waits, and everything that is asked later.
//!
//! A subscription has a connection of its own: then a slow listener holds up the Runner's sending to it and nothing
//! else, and dropping the subscription ends it.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use codespace_domain::{
    ClientInfo, ErrorCode, HelloReply, HelloRequest, Notification, PROTOCOL, Request, RunnerError, SubscribeRequest,
};
use nix::unistd::geteuid;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::error::{ConnectError, MAX_SOCKET_PATH};
use crate::api::{Pending, Runner, Subscribing};
use crate::subscription::{Listener, Subscription};
use crate::wire::frame::{self, FrameError, FrameReader};
use crate::wire::id::Id;
use crate::wire::message::{Answer, Incoming, Outgoing, ReplyKind};

const CLOSED: &str = "the Runner has closed it";

/// Root, who needs no trap to learn what we do.
const SERVICE_MANAGER: u32 = 0;

/// A connection to a Runner. Dropping it closes the connection, which ends the processes whose lifetime it is.
#[derive(Debug)]
pub struct UdsClient {
    server: Option<HelloReply>,
    /// Where it leads, and who we are there.
    path: PathBuf,
    client: ClientInfo,
    shared: Arc<Shared>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    open: watch::Receiver<bool>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Shared(Mutex<Table>);

#[derive(Debug)]
struct Table {
    next_id: u64,
    /// Taken away when the connection is lost.
    waiting: Option<HashMap<u64, oneshot::Sender<Result<Value, RunnerError>>>>,
    /// Why it was lost: what the Runner has said about the connection, else what was seen.
    because: Option<RunnerError>,
}

impl UdsClient {
    /// Connects to the Runner at `path` and greets it. The Runner must be one of our own uid.
    pub async fn connect(path: &Path, client: ClientInfo) -> Result<Self, ConnectError> {
        Self::connect_for(path, client, None).await
    }

    /// The same, and what the Runner tells unasked goes to `notices`.
    async fn connect_for(
        path: &Path,
        client: ClientInfo,
        notices: Option<mpsc::Sender<Notification>>,
    ) -> Result<Self, ConnectError> {
        let length = path.as_os_str().as_bytes().len();
        if length > MAX_SOCKET_PATH {
            return Err(ConnectError::PathTooLong { path: path.to_owned(), length });
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ConnectError::NobodyListens { path: path.to_owned(), source }
            }
            _ => ConnectError::Connect { path: path.to_owned(), source },
        };
        let stream = UnixStream::connect(path).await.map_err(failed)?;
        // Commands and their environment go over this connection, so it must not be somebody else's trap. It is root's
        // where the system's service manager listens until there is a Runner to take over.
        let (peer, uid) = (stream.peer_cred().map_err(failed)?.uid(), geteuid().as_raw());
        if peer != uid && peer != SERVICE_MANAGER {
            return Err(ConnectError::ForeignPeer { path: path.to_owned(), peer, uid });
        }
        let mut this = Self::over(stream, path, client.clone(), notices);
        let hello = this.hello(HelloRequest { protocol: PROTOCOL, client }).await;
        this.server = Some(hello.map_err(|source| ConnectError::Hello { path: path.to_owned(), source })?);
        Ok(this)
    }

    /// What the Runner answered to the greeting.
    pub fn server(&self) -> Option<&HelloReply> {
        self.server.as_ref()
    }

    /// Whether the connection is there, as far as was seen.
    pub fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// Waits until the Runner has closed the connection, or it is lost.
    pub async fn closed(&self) {
        drop(self.open.clone().wait_for(|open| !open).await);
    }

    /// A client over a connection that is there, not greeted yet.
    fn over(stream: UnixStream, path: &Path, client: ClientInfo, notices: Option<mpsc::Sender<Notification>>) -> Self {
        let (input, output) = stream.into_split();
        let table = Table { next_id: 1, waiting: Some(HashMap::new()), because: None };
        let shared = Arc::new(Shared(Mutex::new(table)));
        let (frames, queue) = mpsc::unbounded_channel();
        let (still_open, open) = watch::channel(true);
        let reader = tokio::spawn(read_all(input, Arc::clone(&shared), notices, still_open)).abort_handle();
        let writer = tokio::spawn(write_requests(output, queue)).abort_handle();
        Self { server: None, path: path.to_owned(), client, shared, frames, open, tasks: [reader, writer] }
    }

    /// Queues a request under an id of its own; its answer, when it is there.
    fn ask(
        &self,
        message: impl FnOnce(u64) -> Result<Vec<u8>, FrameError>,
    ) -> Result<oneshot::Receiver<Result<Value, RunnerError>>, RunnerError> {
        self.shared.with(|table| {
            let Some(waiting) = table.waiting.as_mut() else {
                return Err(table.because.clone().unwrap_or_else(|| lost("it was closed")));
            };
            let id = table.next_id;
            let frame = message(id).map_err(|error| {
                RunnerError::new(ErrorCode::ResourceUnavailable, format!("send the request: {error}"))
            })?;
            table.next_id += 1;
            let (answer, answered) = oneshot::channel();
            waiting.insert(id, answer);
            // Within the lock, so that two threads' requests leave in the order of their ids. Where the writer has ended,
            // the reader is about to lose the table, and with it this request.
            if self.frames.send(frame).is_err() {
                waiting.remove(&id);
                return Err(lost("it is broken"));
            }
            Ok(answered)
        })
    }
}

impl Drop for UdsClient {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.lose("it was closed");
    }
}

impl Runner for UdsClient {
    fn call(&self, request: Request) -> Pending {
        let kind = ReplyKind::of(&request);
        let queued = self.ask(|id| frame::encode(&Outgoing::new(id, &request)));
        Box::pin(async move { kind.decode(answer_to(queued).await?) })
    }

    fn subscribe(&self, request: SubscribeRequest) -> Subscribing {
        let (path, client) = (self.path.clone(), self.client.clone());
        Box::pin(async move {
            let (notices, told) = mpsc::channel(1);
            let connection = Self::connect_for(&path, client, Some(notices)).await.map_err(RunnerError::from)?;
            answer_to(connection.ask(|id| frame::encode(&Outgoing::subscribe(id, &request)))).await?;
            Ok(Subscription::told_by(|listener| pass_on(connection, told, listener)))
        })
    }
}

async fn answer_to(
    queued: Result<oneshot::Receiver<Result<Value, RunnerError>>, RunnerError>,
) -> Result<Value, RunnerError> {
    queued?.await.unwrap_or_else(|_| Err(lost("it was closed")))
}

/// Passes on what comes over a subscription's own connection, to its `exited` or to the loss of the connection.
async fn pass_on(connection: UdsClient, mut told: mpsc::Receiver<Notification>, listener: Listener) {
    while let Some(notification) = told.recv().await {
        let last = matches!(notification, Notification::Exited(_));
        if !listener.tell(Ok(notification)).await || last {
            return;
        }
    }
    let because = connection.shared.with(|table| table.because.clone());
    listener.tell(Err(because.unwrap_or_else(|| lost(CLOSED)))).await;
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails everything that waits or will be asked.
    fn lose(&self, seen: &str) {
        let (waiting, because) = self.with(|table| {
            let because = table.because.get_or_insert_with(|| lost(seen)).clone();
            (table.waiting.take(), because)
        });
        for (_, answer) in waiting.into_iter().flatten() {
            if answer.send(Err(because.clone())).is_err() {
                tracing::trace!("nobody waited for an answer");
            }
        }
    }
}

async fn read_all(
    input: OwnedReadHalf,
    shared: Arc<Shared>,
    notices: Option<mpsc::Sender<Notification>>,
    still_open: watch::Sender<bool>,
) {
    let mut frames = FrameReader::new(input);
    let seen = loop {
        match frames.next().await {
            Ok(Some(payload)) => match Incoming::parse(&payload) {
                Ok(Incoming::Answer(answer)) => deliver(&shared, answer),
                // Where it has to wait, so have the frames behind it.
                Ok(Incoming::Told(notification)) => match &notices {
                    Some(notices) if notices.send(*notification).await.is_ok() => {}
                    Some(_) | None => tracing::debug!("the Runner told what nobody listens to"),
                },
                Ok(Incoming::Unknown) => tracing::debug!("the Runner told what this version does not know"),
                Err(error) => break format!("the Runner sent what cannot be read: {error}"),
            },
            Ok(None) => break CLOSED.to_owned(),
            // A Runner that is gone with unread requests.
            Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => break CLOSED.to_owned(),
            Err(error) => break format!("failed to {error}"),
        }
    };
    shared.lose(&seen);
    still_open.send_replace(false);
}

fn deliver(shared: &Shared, answer: Answer) {
    let id = answer.id.as_ref().and_then(Id::as_u64);
    let outcome = answer.into_outcome();
    let waiting = shared.with(|table| id.and_then(|id| table.waiting.as_mut()?.remove(&id)));
    match (waiting, outcome) {
        (Some(waiting), outcome) => {
            if waiting.send(outcome).is_err() {
                tracing::trace!("nobody waited for an answer");
            }
        }
        // Said to no request in particular: it is about the connection, whose end will follow.
        (None, Err(error)) => shared.with(|table| table.because = Some(error)),
        (None, Ok(_)) => tracing::debug!("the Runner answered what nobody asked"),
    }
}

async fn write_requests(mut output: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = queue.recv().await {
        if let Err(error) = output.write_all(&frame).await {
            // The reader may still find an answer that says why, and then the end of the stream, which loses the rest.
            tracing::debug!(%error, "failed to send a request");
            return;
        }
    }
}

fn lost(because: &str) -> RunnerError {
    RunnerError::new(
        ErrorCode::ResourceUnavailable,
        format!("get an answer over the connection to the Runner: {because}"),
    )
    .with_hint("connect again; what goes on is found by its id or its key, where the Runner still lives")
}
