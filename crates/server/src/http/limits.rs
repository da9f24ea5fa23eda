//! How many sessions there may be, and which requests have none.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for sessions.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// One, until it is dropped.
    pub(super) fn take(&self) -> io::Result<OwnedSemaphorePermit> {
        let taken = Arc::clone(&self.0).try_acquire_owned();
        taken.map_err(|_| io::Error::other("too many sessions are open: close one, or try again later"))
    }
}

/// True for a request that stands for itself, as all of the protocol of 2026-07-28 do over HTTP.
pub(super) fn has_no_session(context: &RequestContext<RoleServer>) -> bool {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    parts.is_some_and(|parts| !parts.headers.contains_key("mcp-session-id"))
}
