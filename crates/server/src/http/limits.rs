//! How many sessions there may be, and which requests have none.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::MAX_BODY;
use super::guard::refuse;

/// The places for sessions.
pub(super) struct Places {
    sessions: Arc<LocalSessionManager>,
    most: usize,
    /// Held while a session is opened, so that two never take the last place.
    opening: Mutex<()>,
}

/// As much of a message as has to be known here.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

impl Places {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, most: usize) -> Self {
        Self { sessions, most, opening: Mutex::default() }
    }
}

/// Lets in what opens a session only where there is a place for it, and what is no JSON not at all. Everything else needs
/// no place: also with all of them taken, requests without a session are answered. The body is in memory.
pub(super) async fn sessions(State(places): State<Arc<Places>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return refuse(StatusCode::BAD_REQUEST, "the body broke off");
    };
    let opens = match serde_json::from_slice::<Message<'_>>(&body) {
        Ok(message) => message.method.as_deref() == Some("initialize"),
        // JSON, but no message; the transport says what it should be.
        Err(error) if error.is_data() => false,
        Err(_) if body.is_empty() => false,
        Err(error) => return no_json(&error),
    };
    let request = Request::from_parts(head, Body::from(body));
    if !opens {
        return next.run(request).await;
    }
    let _alone = places.opening.lock().await;
    if places.sessions.sessions.read().await.len() >= places.most {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many sessions are open; close one (DELETE with its Mcp-Session-Id), or try again later",
        );
    }
    next.run(request).await
}

/// In the protocol's own form. Where it is wrong is said, and not what stands there.
fn no_json(error: &serde_json::Error) -> Response {
    let message = format!("the body is no JSON: look at line {}, column {}", error.line(), error.column());
    let answer = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": message}});
    (StatusCode::BAD_REQUEST, axum::Json(answer)).into_response()
}

/// True for a request that stands for itself, as all of the protocol from 2026-07-28 on do over HTTP, whatever session they
/// name.
pub(super) fn has_no_session(context: &RequestContext<RoleServer>) -> bool {
    let Some(parts) = context.extensions.get::<axum::http::request::Parts>() else { return false };
    let version = parts.headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    let stands_for_itself = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str());
    stands_for_itself || !parts.headers.contains_key("mcp-session-id")
}
