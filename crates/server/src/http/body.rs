//! A request's body: taken whole, within its bounds, before anybody looks at it. A peer that sends it byte by byte holds
//! nothing but its own connection, and not for long.

use std::error::Error as _;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::LengthLimitError;
use tokio::time::timeout;

use super::MAX_BODY;
use super::guard::refuse;

/// Passes the request on with its body in memory.
pub(super) async fn whole(State(deadline): State<Duration>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(deadline, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) if error.source().is_some_and(|cause| cause.is::<LengthLimitError>()) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body has more than 8 MiB; send it in parts (write_stdin takes as many calls as it needs)",
        ),
        Ok(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the body broke off, or is no body"),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the body took more than 30 s; send it faster, or in parts"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::Router;
    use axum::body::{Bytes, HttpBody};
    use axum::routing::post;
    use hyper::body::Frame;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    /// One byte after the other, whenever it is asked; never the end.
    struct Endless;

    /// Nothing more after the first byte.
    struct Stuck(bool);

    /// Breaks off.
    struct Broken;

    type Next = Poll<Option<Result<Frame<Bytes>, io::Error>>>;

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Next {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))))
        }
    }

    impl HttpBody for Stuck {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Next {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    impl HttpBody for Broken {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Next {
            Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
        }
    }

    async fn sent(body: Body, deadline: Duration) -> StatusCode {
        let app = Router::new()
            .route("/", post(async |body: Bytes| format!("{} bytes", body.len())))
            .layer(axum::middleware::from_fn_with_state(deadline, whole));
        let request = axum::http::Request::post("/").body(body).expect("a request");
        let answer = hyper::service::Service::call(&TowerToHyperService::new(app), request).await;
        answer.expect("an answer").status()
    }

    #[tokio::test]
    async fn a_body_has_its_bounds_in_time_and_room() {
        let far = Duration::from_secs(600);
        assert_eq!(sent(Body::from(vec![b'x'; 1024]), far).await, StatusCode::OK);
        assert_eq!(sent(Body::from(vec![b'x'; MAX_BODY + 1]), far).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(sent(Body::new(Endless), far).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(sent(Body::new(Stuck(false)), Duration::from_millis(20)).await, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(sent(Body::new(Broken), far).await, StatusCode::BAD_REQUEST);
    }
}
