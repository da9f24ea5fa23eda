//! Tells a client that waits for a call that there is progress, if it has asked for that.

use crate::say::bytes;
use codespace_domain::{Phase, ProcessStatus};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where to tell it, for one call.
pub(crate) struct Progress {
    wanted: Option<(ProgressToken, Peer<RoleServer>)>,
    told: AtomicU32,
}

impl Progress {
    /// Of this call.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let wanted = context.meta.get_progress_token().map(|token| (token, context.peer.clone()));
        Self { wanted, told: AtomicU32::new(0) }
    }

    /// Whether the client has asked for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// One step more. There is no total: nobody knows how long a command takes.
    pub(crate) async fn tell(&self, status: &ProcessStatus) {
        let Some((token, peer)) = &self.wanted else { return };
        let step = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let message = match status.phase {
            Some(Phase::Ending) => format!("{}: ending", status.process_id),
            _ => format!("{}: running, {} of output", status.process_id, bytes(status.output_total)),
        };
        let param = ProgressNotificationParam::new(token.clone(), f64::from(step)).with_message(message);
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "failed to tell a client of progress");
        }
    }
}
