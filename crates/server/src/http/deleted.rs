//! The answer to a client that closes its session. The transport says "accepted" (202), which the official Python SDK takes
//! for a failure and warns of; the session is gone by then, so that 204 is as true.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

/// 204 where it was 202.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let closes = request.method() == Method::DELETE;
    let mut response = next.run(request).await;
    if closes && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}
