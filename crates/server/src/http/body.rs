//! A request's body: taken whole, within its bounds, before anybody looks at it. A peer that sends it byte by byte holds
//! nothing but its own connection, and not for long.

use std::error::Error as _;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::LengthLimitError;
use tokio::time::timeout;

use super::guard::refuse;
use super::{BODY_DEADLINE, MAX_BODY};

/// Passes the request on with its body in memory.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(BODY_DEADLINE, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) if error.source().is_some_and(|cause| cause.is::<LengthLimitError>()) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body has more than 8 MiB; send it in parts (write_stdin takes as many calls as it needs)",
        ),
        Ok(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the body broke off, or is no body"),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the body took more than 30 s; send it faster, or in parts"),
    }
}
