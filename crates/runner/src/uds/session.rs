//! One connection: `hello`, then requests in the order in which they come, each answered when its answer is there.
//!
//! Owns the connection's Runner: it is dropped with the connection, which ends what lives as long as that. A request
//! takes effect in [`Runner::call`], before the next frame is looked at; its answer is waited for in a task of its own, so
//! that a waiting read delays nothing. Knows no method but `hello`; what a subscription tells is `subscriptions`' to send.
//!
//! ```text
//! greeting --hello--> serving --end of input, stop of the Runner--> answering what is pending --> closed
//!     \--anything else, 10 s--\--frame out of bounds--> sending what is queued --> closed
//!  at any moment: the peer has hung up, or nothing can be written to it --> closed
//! ```

use std::time::Duration;

use codespace_domain::{ErrorCode, PROTOCOL, Reply, RunnerError};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::hangup::Hangup;
use super::outbox::{self, Outbox};
use super::subscriptions::Subscriptions;
use super::turned_away::{PATIENCE, discard};
use crate::api::Runner;
use crate::wire::frame::{self, FrameError, FrameReader};
use crate::wire::id::Id;
use crate::wire::message::{Asked, Call, ErrorObject, Fault, INTERNAL_ERROR, INVALID_REQUEST, Response};

/// How long a peer may take for its `hello`.
pub(super) const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection that the Runner closes may take for what it has still to be sent.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// How long the taking of what a peer had sent before it left may take. Its bytes are all there, so it takes no time.
const REST_DEADLINE: Duration = Duration::from_secs(1);

/// Requests of one connection whose answers may be pending at once; more are not looked at until one is answered.
pub(super) const MAX_PENDING: usize = 1024;

/// Why no further request of a connection is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The peer has sent all that it will; it still waits for its answers.
    NoMoreInput,
    /// The Runner is going; what is pending is answered by that.
    Closing,
    /// The peer has broken the protocol; it is told so, and that is all.
    Fault,
    /// There is nobody to send anything to.
    Gone,
}

/// Serves one connection until its end. `closing` turning true is the Runner's own end.
pub(super) async fn converse<S: Runner + 'static>(
    stream: UnixStream,
    runner: S,
    mut closing: watch::Receiver<bool>,
    hello_deadline: Duration,
) {
    let hangup = match Hangup::of(&stream) {
        Ok(hangup) => hangup,
        Err(error) => return tracing::warn!(%error, "failed to watch a connection"),
    };
    let (input, output) = stream.into_split();
    let (outbox, mut writer) = outbox::open(output);
    let mut session = Session {
        runner,
        frames: FrameReader::new(input),
        outbox,
        answers: JoinSet::new(),
        subscriptions: Subscriptions::default(),
        greeted: false,
    };
    tracing::debug!("a connection was opened");

    let mut end = tokio::select! {
        biased;
        () = hangup.wait() => End::Gone,
        _ = writer.join_next() => End::Gone,
        end = session.serve(&mut closing, hello_deadline) => end,
    };
    if end == End::NoMoreInput {
        tokio::select! {
            biased;
            () = hangup.wait() => end = End::Gone,
            _ = writer.join_next() => end = End::Gone,
            () = session.answer_pending() => {}
            _ = closing.wait_for(|closing| *closing) => end = End::Closing,
        }
    }
    // One time for all that is still to be said: a peer that does not read must not hold up the Runner's end twice.
    let mut until = None;
    if end == End::Closing {
        let closed_by = *until.insert(Instant::now() + CLOSE_DEADLINE);
        tokio::select! {
            () = hangup.wait() => end = End::Gone,
            _ = writer.join_next() => end = End::Gone,
            answered = timeout_at(closed_by, session.answer_pending()) => if answered.is_err() {
                tracing::warn!("closed a connection with pending requests");
            },
        }
    }
    if end == End::Gone {
        // It has sent that and then left: what came whole takes effect, whoever waits for the answer.
        drop(timeout(REST_DEADLINE, session.take_the_rest()).await);
    }
    // The connection is at its end for the Runner from here on; the last frames need no session.
    let Session { runner, frames, outbox, answers, subscriptions, greeted: _ } = session;
    drop((runner, outbox, answers, subscriptions));
    if end != End::Gone {
        let until = until.unwrap_or_else(|| Instant::now() + CLOSE_DEADLINE);
        tokio::select! {
            () = hangup.wait() => {}
            sent = timeout_at(until, writer.join_next()) => if sent.is_err() {
                tracing::debug!("closed a connection whose peer does not read");
            },
        }
    }
    if end == End::Fault {
        // A close with unread bytes of the peer would reset the connection, and the peer might never read what it did wrong.
        drop(timeout(PATIENCE, discard(&mut frames.into_stream())).await);
    }
    tracing::debug!(?end, "a connection was closed");
}

struct Session<S> {
    runner: S,
    frames: FrameReader<OwnedReadHalf>,
    outbox: Outbox,
    answers: JoinSet<()>,
    subscriptions: Subscriptions,
    greeted: bool,
}

impl<S: Runner + 'static> Session<S> {
    async fn serve(&mut self, closing: &mut watch::Receiver<bool>, hello_deadline: Duration) -> End {
        let greeted = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(End::Closing),
            greeted = timeout(hello_deadline, self.greet()) => greeted.unwrap_or_else(|_| {
                let text = format!("wait for hello: none came within {hello_deadline:?}");
                self.refuse(None, &RunnerError::new(ErrorCode::Timeout, text));
                Err(End::Fault)
            }),
        };
        if let Err(end) = greeted {
            return end;
        }
        loop {
            let full = self.outbox.is_full();
            let may_read = !full && self.answers.len() < MAX_PENDING;
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return End::Closing,
                Some(_) = self.answers.join_next() => {}
                () = self.outbox.until_full(false), if full => {}
                frame = self.frames.next(), if may_read => if let Err(end) = self.take(frame) {
                    return end;
                },
            }
        }
    }

    /// Takes what a peer that has left had sent before: no more than its socket held.
    async fn take_the_rest(&mut self) {
        if !self.greeted && self.greet().await.is_err() {
            return;
        }
        loop {
            let frame = self.frames.next().await;
            if self.take(frame).is_err() {
                return;
            }
        }
    }

    /// Takes the `hello`, and answers it before anything else is looked at.
    async fn greet(&mut self) -> Result<(), End> {
        let call = match self.frames.next().await {
            Ok(Some(payload)) => Call::parse(&payload),
            Ok(None) => return Err(End::NoMoreInput),
            Err(error) => return Err(self.unreadable(&error).err().unwrap_or(End::Fault)),
        };
        let call = call.and_then(|call| match &call.id {
            Some(_) if call.method == "hello" => Ok(call),
            _ => Err(before_hello(call.id)),
        });
        let call = call.map_err(|fault| self.fault(&fault))?;
        self.check_protocol(&call)?;
        let hello = match call.into_asked() {
            Ok((id, Asked::Request(hello))) => Ok((id, hello)),
            // Not for a method that is `hello`.
            Ok((id, Asked::Subscribe(_))) => Err(before_hello(id)),
            Err(fault) => Err(fault),
        };
        let (id, hello) = hello.map_err(|fault| self.fault(&fault))?;
        let outcome = self.runner.call(hello).await;
        if let Some(id) = &id {
            answer(&self.outbox, id, &outcome);
        }
        self.greeted = outcome.is_ok();
        outcome.map(drop).map_err(|_| End::Fault)
    }

    /// One frame, or why there is none. An error ends the taking of requests.
    fn take(&mut self, frame: Result<Option<Vec<u8>>, FrameError>) -> Result<(), End> {
        let payload = match frame {
            Ok(Some(payload)) => payload,
            Ok(None) => return Err(End::NoMoreInput),
            Err(error) => return self.unreadable(&error),
        };
        let call = match Call::parse(&payload) {
            Ok(call) => call,
            Err(fault) => {
                self.fault(&fault);
                return Ok(());
            }
        };
        if call.method == "hello" {
            self.check_protocol(&call)?;
        }
        match call.into_asked() {
            Ok((id, Asked::Subscribe(request))) => {
                let subscribing = self.runner.subscribe(request.clone());
                self.subscriptions.add(request.process_id, AnswerSlot { id, outbox: self.outbox.clone() }, subscribing);
            }
            Ok((id, Asked::Request(request))) => {
                let pending = self.runner.call(request);
                // Nobody waits for the answer to a notification; its effect is there already.
                if let Some(id) = id {
                    let mut slot = AnswerSlot { id: Some(id), outbox: self.outbox.clone() };
                    self.answers.spawn(async move {
                        let outcome = slot.outbox.when_room(pending).await;
                        slot.fill(&outcome);
                    });
                }
            }
            // A notification is never answered, not even a wrong one.
            Err(fault) if fault.id.is_none() => {}
            Err(fault) => drop(self.fault(&fault)),
        }
        Ok(())
    }

    /// Until there is nothing more to send: a process that is subscribed to has been told of to its end.
    async fn answer_pending(&mut self) {
        while self.answers.join_next().await.is_some() {}
        self.subscriptions.all_told().await;
    }

    fn check_protocol(&self, call: &Call) -> Result<(), End> {
        match call.protocol() {
            Some(theirs) if theirs.as_u64() != Some(u64::from(PROTOCOL)) => {
                let text = format!("speak protocol {theirs}: this Runner speaks {PROTOCOL}");
                self.refuse(call.id.as_ref(), &RunnerError::new(ErrorCode::ProtocolMismatch, text));
                Err(End::Fault)
            }
            _ => Ok(()),
        }
    }

    /// Answers a frame that cannot be read; an error when the stream is of no use any more.
    fn unreadable(&self, error: &FrameError) -> Result<(), End> {
        let end = match error {
            FrameError::Empty => Ok(()),
            FrameError::TooLarge { .. } | FrameError::Truncated | FrameError::Json(_) => Err(End::Fault),
            FrameError::Io(error) => {
                tracing::debug!(%error, "a connection broke");
                return Err(End::Gone);
            }
        };
        self.fault(&Fault::nameless(error.to_string()));
        end
    }

    /// Answers a message that cannot be taken. What it gives back is for where the connection then closes.
    fn fault(&self, fault: &Fault) -> End {
        queue(&self.outbox, &fault.response());
        End::Fault
    }

    fn refuse(&self, id: Option<&Id>, error: &RunnerError) {
        queue(&self.outbox, &Response::error(id, error.into()));
    }
}

/// The place of an answer. Where its making panics, the peer is told that, instead of waiting for ever.
pub(super) struct AnswerSlot {
    id: Option<Id>,
    pub(super) outbox: Outbox,
}

impl AnswerSlot {
    pub(super) fn fill(&mut self, outcome: &Result<Reply, RunnerError>) {
        if let Some(id) = self.id.take() {
            answer(&self.outbox, &id, outcome);
        }
    }
}

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(id) = self.id.take()
        {
            let error = ErrorObject::protocol(INTERNAL_ERROR, "make an answer: a fault of the Runner");
            queue(&self.outbox, &Response::error(Some(&id), error));
        }
    }
}

fn answer(outbox: &Outbox, id: &Id, outcome: &Result<Reply, RunnerError>) {
    match frame::encode(&Response::new(id, outcome)) {
        Ok(frame) => outbox.send(frame),
        Err(error) => {
            let error = RunnerError::new(ErrorCode::ResourceUnavailable, format!("send the answer: {}", words(&error)))
                .with_hint("ask for less at a time: fewer max_bytes, or one workspace's processes");
            queue(outbox, &Response::error(Some(id), ErrorObject::from(&error)));
        }
    }
}

fn queue(outbox: &Outbox, response: &Response<'_>) {
    match frame::encode(response) {
        Ok(frame) => outbox.send(frame),
        // Errors are short, and so are ids.
        Err(error) => tracing::debug!(error = %words(&error), "failed to send an error"),
    }
}

fn before_hello(id: Option<Id>) -> Fault {
    Fault { id, error: ErrorObject::protocol(INVALID_REQUEST, "take a request before hello: hello comes first") }
}

pub(super) fn words(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{cause}")
}
