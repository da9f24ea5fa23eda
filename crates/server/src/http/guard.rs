//! Who may pass: the right Host, the right Origin, the token. Says no in words that name the remedy, and never says what
//! it compared.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::token::Token;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The rules of one server.
pub(super) struct Guard {
    hosts: Vec<String>,
    token: Option<Token>,
    port: u16,
}

impl Guard {
    pub(super) fn new(allowed_hosts: Vec<String>, token: Option<Token>, address: SocketAddr) -> Self {
        let loopback = LOOPBACK.map(str::to_owned);
        let hosts = loopback.into_iter().chain(allowed_hosts.iter().map(|host| host.to_ascii_lowercase())).collect();
        Self { hosts, token, port: address.port() }
    }

    /// A name of ours, with our port or (behind a proxy) another one only where the name was allowed with it.
    fn is_ours(&self, authority: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        self.hosts.iter().any(|host| authority == *host || authority == format!("{host}:{}", self.port))
    }

    fn host_is_ours(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut named = headers.get_all(header::HOST).iter();
        let (host, second, authority) = (named.next(), named.next(), uri.authority());
        // Where both name one, both have to be ours: somebody on the way may have gone by either.
        let both = [host.map(|host| host.to_str().unwrap_or_default()), authority.map(|authority| authority.as_str())];
        let mut names = both.into_iter().flatten().peekable();
        second.is_none() && names.peek().is_some() && names.all(|name| self.is_ours(name))
    }

    /// Only browsers send an Origin; one of ours is that of our own page.
    fn origin_is_ours(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            authority.is_some_and(|authority| self.is_ours(authority) && !self.is_another_port(authority))
        })
    }

    /// Without a port, an Origin means that of its scheme, where on loopback somebody else listens.
    fn is_another_port(&self, authority: &str) -> bool {
        LOOPBACK.iter().any(|name| authority.eq_ignore_ascii_case(name)) && self.port != 80
    }

    fn token_is_right(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(presented), None) = (presented.next(), presented.next()) else { return false };
        let presented = presented.to_str().unwrap_or_default();
        let Some((scheme, presented)) = presented.split_once(' ') else { return false };
        scheme.eq_ignore_ascii_case("bearer") && token.is(presented.trim())
    }
}

/// Everything has to be meant for us, the page and the health check too.
pub(super) async fn host_and_origin(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if !guard.host_is_ours(request.headers(), request.uri()) {
        return refuse(
            StatusCode::FORBIDDEN,
            "this Host is not one of this server's; let it start with --allow-host NAME if it should be",
        );
    }
    if !guard.origin_is_ours(request.headers()) {
        return refuse(
            StatusCode::FORBIDDEN,
            "this Origin is not one of this server's; let it start with --allow-host NAME if it should be",
        );
    }
    next.run(request).await
}

/// What runs commands or tells of them has to be asked with the token.
pub(super) async fn token(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if guard.token_is_right(request.headers()) {
        return next.run(request).await;
    }
    let mut response =
        refuse(StatusCode::UNAUTHORIZED, "send the header Authorization: Bearer TOKEN with this server's token");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// An answer in words.
pub(super) fn refuse(status: StatusCode, why: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn guard(allowed: &[&str]) -> Guard {
        let token = Token::from_text("s3cret-token-of-some-length").expect("a token");
        Guard::new(allowed.iter().map(|h| (*h).to_owned()).collect(), Some(token), ([127, 0, 0, 1], 8080).into())
    }

    fn with(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn only_our_own_names_are_a_host() {
        let (guard, uri) = (guard(&["Runner.example", "proxied.example:443"]), Uri::from_static("/mcp"));
        for good in [
            "127.0.0.1:8080",
            "localhost:8080",
            "LOCALHOST",
            "[::1]:8080",
            "runner.example:8080",
            "proxied.example:443",
        ] {
            assert!(guard.host_is_ours(&with(header::HOST, &[good]), &uri), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1:9090",
            "localhost.evil.example:8080",
            "127.0.0.1:8080@evil.example",
            "",
            "proxied.example",
        ] {
            assert!(!guard.host_is_ours(&with(header::HOST, &[bad]), &uri), "{bad}");
        }
        assert!(!guard.host_is_ours(&HeaderMap::new(), &uri));
        for (absolute, ours) in [("http://localhost:8080/mcp", true), ("http://evil.example/mcp", false)] {
            let uri = Uri::from_static(absolute);
            assert_eq!(guard.host_is_ours(&HeaderMap::new(), &uri), ours, "{absolute}");
            assert_eq!(guard.host_is_ours(&with(header::HOST, &["localhost"]), &uri), ours, "{absolute}");
            assert!(!guard.host_is_ours(&with(header::HOST, &["evil.example"]), &uri), "{absolute}");
        }
        assert!(!guard.host_is_ours(&with(header::HOST, &["localhost", "evil.example"]), &uri));
    }

    #[test]
    fn an_origin_is_ours_or_is_not_there() {
        let guard = guard(&[]);
        assert!(guard.origin_is_ours(&HeaderMap::new()));
        assert!(guard.origin_is_ours(&with(header::ORIGIN, &["http://localhost:8080"])));
        for bad in [
            "http://localhost",
            "null",
            "https://evil.example",
            "http://localhost:3000",
            "file://",
            "http://127.0.0.1:8080.evil",
        ] {
            assert!(!guard.origin_is_ours(&with(header::ORIGIN, &[bad])), "{bad}");
        }
        assert!(!guard.origin_is_ours(&with(header::ORIGIN, &["http://localhost:8080", "https://evil.example"])));
    }

    #[test]
    fn only_the_whole_token_passes() {
        let guard = guard(&[]);
        for good in ["Bearer s3cret-token-of-some-length", "bearer  s3cret-token-of-some-length "] {
            assert!(guard.token_is_right(&with(header::AUTHORIZATION, &[good])), "{good}");
        }
        for bad in [
            "Bearer s3cret-token-of-some-lengt",
            "Bearer",
            "Basic s3cret-token-of-some-length",
            "",
            "s3cret-token-of-some-length",
            "Bearer s3cret-token-of-some-length2",
        ] {
            assert!(!guard.token_is_right(&with(header::AUTHORIZATION, &[bad])), "{bad}");
        }
        assert!(!guard.token_is_right(&HeaderMap::new()));
    }
}
