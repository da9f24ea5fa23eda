//! The verb `subscribe`, on a slot's journal.

use std::sync::Arc;

use codespace_domain::{ErrorCode, Notification, ReadRequest, RunnerError, SubscribeRequest};

use crate::process::{End, Slot};
use crate::subscription::{Listener, Subscription};

/// Answers when the command has started, so that whatever is told is of a process that there is.
pub(super) async fn subscribe(slot: Arc<Slot>, request: SubscribeRequest) -> Result<Subscription, RunnerError> {
    if let Some(End::StartFailed(_)) = slot.started().await.end {
        let message = format!("subscribe to {}: its start has failed, so there is nothing to tell", slot.id);
        return Err(RunnerError::new(ErrorCode::ProcessNotFound, message));
    }
    let total = slot.journal.totals().total;
    if request.cursor > total {
        let message = format!("subscribe at cursor {}: there are {total} bytes so far", request.cursor);
        return Err(RunnerError::new(ErrorCode::CursorOutOfRange, message).about(slot.id));
    }
    Ok(Subscription::told_by(|listener| tell(slot, request, listener)))
}

async fn tell(slot: Arc<Slot>, request: SubscribeRequest, listener: Listener) {
    let encoding = request.encoding;
    let mut read = ReadRequest { cursor: request.cursor, wait_ms: u64::MAX, encoding, ..ReadRequest::new(slot.id) };
    let mut eof = false;
    while !eof {
        let chunk = match slot.journal.read_one_label(&read).await {
            Ok(chunk) => chunk,
            // Never: the cursor was looked at, and goes where the reads say.
            Err(error) => {
                listener.tell(Err(RunnerError::from(error).about(slot.id))).await;
                return;
            }
        };
        (read.cursor, eof) = (chunk.cursor, chunk.eof);
        if !listener.tell(Ok(Notification::Output(chunk.into_notice(slot.id, slot.state())))).await {
            return;
        }
    }
    let last = match slot.ended().await.end {
        Some(End::StartFailed(error)) => Err(error),
        Some(End::Ended(_)) | None => Ok(Notification::Exited(Box::new(slot.status()))),
    };
    listener.tell(last).await;
}
