//! `/` and `/page/...`: the live page of whoever watches an agent, where it was asked for (`--page`).
//!
//! Files that are the same for everybody, built in: no data, no token. They need none, so that they can be loaded; what the
//! page shows it asks `/mcp` for, with the token, as any other client does. The headers let it do nothing else: no script
//! or style but these, no request but to this server, no frame around it.

use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! file {
    ($type:expr, $name:literal) => {
        (concat!("/page/", $name), $type, include_str!(concat!("../../page/", $name)))
    };
}

/// The path, the type and the text of each.
const FILES: [(&str, &str, &str); 21] = [
    ("/", HTML, include_str!("../../page/index.html")),
    file!("image/svg+xml", "icon.svg"),
    file!(STYLE, "page.css"),
    file!(STYLE, "terminal.css"),
    file!(SCRIPT, "answer.mjs"),
    file!(SCRIPT, "confirm.mjs"),
    file!(SCRIPT, "details.mjs"),
    file!(SCRIPT, "dom.mjs"),
    file!(SCRIPT, "follow.mjs"),
    file!(SCRIPT, "keys.mjs"),
    file!(SCRIPT, "list.mjs"),
    file!(SCRIPT, "main.mjs"),
    file!(SCRIPT, "mcp.mjs"),
    file!(SCRIPT, "output.mjs"),
    file!(SCRIPT, "palette.mjs"),
    file!(SCRIPT, "style.mjs"),
    file!(SCRIPT, "terminal.mjs"),
    file!(SCRIPT, "token.mjs"),
    file!(SCRIPT, "trouble.mjs"),
    file!(SCRIPT, "visible.mjs"),
    file!(SCRIPT, "words.mjs"),
];

/// No inline script or style, nothing from elsewhere, and text that is never taken for markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 9] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), clipboard-read=(), geolocation=(), microphone=(), usb=()",
    ),
];

/// The routes of the files.
pub(super) fn routes() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, content_type, text)| {
        router.route(path, get(move || async move { answer(content_type, text) }))
    })
}

fn answer(content_type: &'static str, text: &'static str) -> Response {
    (HEADERS, [(header::CONTENT_TYPE, content_type)], text).into_response()
}
