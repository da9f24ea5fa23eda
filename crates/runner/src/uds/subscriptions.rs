//! What one connection has subscribed to, and the sending of it.
//!
//! Owns a task for each subscription: it answers, then sends one notification after the other, each fetched only while
//! the outbox has room. So a peer that does not read is told nothing new, and costs nothing more. One process has one
//! subscription at most; another one takes its place, from its own cursor on.

use std::collections::HashMap;

use codespace_domain::{Empty, ErrorCode, Notification, ProcessId, Reply, RunnerError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::outbox::Outbox;
use super::session::{AnswerSlot, words};
use crate::api::Subscribing;
use crate::subscription::Subscription;
use crate::wire::frame;
use crate::wire::message::Told;

/// Subscriptions of one connection at a time; one more is refused.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1024;

/// Those of one connection. Dropping it ends them.
#[derive(Default)]
pub(super) struct Subscriptions {
    tasks: JoinSet<()>,
    of_process: HashMap<ProcessId, Place>,
}

/// How to reach the task that tells of a process.
struct Place {
    /// Makes it leave, once its request is answered.
    leave: oneshot::Sender<()>,
    /// Resolves when it has sent its last.
    gone: oneshot::Receiver<()>,
}

impl Subscriptions {
    /// Answers, and tells from then on.
    pub(super) fn add(&mut self, process_id: ProcessId, mut answer: AnswerSlot, subscribing: Subscribing) {
        while self.tasks.try_join_next().is_some() {}
        self.of_process.retain(|_, place| !place.leave.is_closed());
        // Those that were replaced count as well, until they have left.
        if self.tasks.len() >= MAX_SUBSCRIPTIONS {
            answer.fill(&Err(too_many()));
            return;
        }
        let before = self.of_process.remove(&process_id);
        let (leave, told_to_leave) = oneshot::channel();
        let (going, gone) = oneshot::channel::<()>();
        self.tasks.spawn(async move {
            let _going = going;
            if let Some(Place { leave, gone }) = before {
                // Nothing of the old one comes after the answer to the new one. It may have left by itself.
                leave.send(()).ok();
                drop(gone.await);
            }
            match answer.outbox.when_room(subscribing).await {
                Ok(mut subscription) => {
                    answer.fill(&Ok(Reply::Done(Empty {})));
                    tokio::select! {
                        () = send_all(&mut subscription, &answer.outbox) => {}
                        _ = told_to_leave => {}
                    }
                }
                Err(error) => answer.fill(&Err(error)),
            }
        });
        self.of_process.insert(process_id, Place { leave, gone });
    }

    /// Waits until each has told its last.
    pub(super) async fn all_told(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn send_all(subscription: &mut Subscription, outbox: &Outbox) {
    loop {
        outbox.until_wanting().await;
        match subscription.next().await {
            Some(Ok(notification)) => send(&notification, outbox),
            // A notification cannot say it; that none follows and no `exited` came is all that the peer sees.
            Some(Err(error)) => return tracing::warn!(%error, "failed to tell more of a process"),
            None => return,
        }
    }
}

fn send(notification: &Notification, outbox: &Outbox) {
    match frame::encode(&Told::new(notification)) {
        Ok(frame) => outbox.send(frame),
        // At most 64 KiB of output, or a status.
        Err(error) => tracing::error!(error = %words(&error), "failed to send a notification"),
    }
}

fn too_many() -> RunnerError {
    let message = format!("subscribe to one more process: a connection has at most {MAX_SUBSCRIPTIONS} subscriptions");
    RunnerError::new(ErrorCode::ResourceUnavailable, message).with_hint("use another connection")
}
