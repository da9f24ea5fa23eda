//! A client closes its session: whoever still waits in it is let go, and the answer says that the session is gone.
//!
//! The transport would let the calls that are under way finish, for some seconds, though nobody can read their answers any
//! more; until then the session, and each process whose lifetime it is, would go on. And it says "accepted" (202), which the
//! official Python SDK takes for a failure and warns of; the session is gone by then, so that 204 is as true.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

/// The sessions with calls under way, by their ids.
#[derive(Default)]
pub(crate) struct Busy(Mutex<HashMap<String, (usize, CancellationToken)>>);

/// A call under way in a session.
pub(crate) struct InSession {
    busy: Arc<Busy>,
    session: String,
    closed: CancellationToken,
}

impl Busy {
    /// A call begins; it is over when what this returns is dropped. `None`: it is in no session.
    pub(crate) fn call(self: &Arc<Self>, context: &RequestContext<RoleServer>) -> Option<InSession> {
        let session = session_of(&context.extensions.get::<Parts>()?.headers)?.to_owned();
        let closed = self.with(|sessions| {
            let (calls, closed) = sessions.entry(session.clone()).or_default();
            *calls += 1;
            closed.clone()
        });
        Some(InSession { busy: Arc::clone(self), session, closed })
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, (usize, CancellationToken)>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InSession {
    /// Returns when its client has closed the session.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for InSession {
    fn drop(&mut self) {
        self.busy.with(|sessions| {
            let Some((calls, _)) = sessions.get_mut(&self.session) else { return };
            *calls -= 1;
            if *calls == 0 {
                sessions.remove(&self.session);
            }
        });
    }
}

/// Lets go whoever waits in a session that was closed; 204 where it was 202.
pub(super) async fn answer(State(busy): State<Arc<Busy>>, request: Request, next: Next) -> Response {
    let closes = request.method() == Method::DELETE;
    let session = session_of(request.headers()).filter(|_| closes).map(str::to_owned);
    let mut response = next.run(request).await;
    if closes && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
        busy.with(|sessions| session.and_then(|id| sessions.get(&id)).inspect(|(_, closed)| closed.cancel()).is_some());
    }
    response
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}
