//! The live page of `codespace-mcp`: whether it is there, who gets it, and that what is built in can do nothing but ask
//! this server. What it shows is tested in a browser (`scripts/browser`).
#![cfg(target_os = "linux")]

mod gateway;

use std::path::{Path, PathBuf};

use codespace_domain::escape::needs_escape;
use gateway::http::{Server, TOKEN};

/// Every file of the page with its text.
fn files() -> Vec<(String, String)> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).expect("the page's folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    files
}

/// Named again where the tests run elsewhere than they were built.
fn folder() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("page")
}

fn path_of(name: &str) -> String {
    if name == "index.html" { "/".to_owned() } else { format!("/page/{name}") }
}

#[test]
fn there_is_no_page_unless_it_was_asked_for() {
    let Some(server) = Server::start(&[]) else { return };
    let bearer = format!("Bearer {TOKEN}");
    for (name, _) in files() {
        for headers in [vec![("Host", server.host())], vec![("Host", server.host()), ("Authorization", bearer.clone())]]
        {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(server.get(&path_of(&name), &headers).status, 404, "{name} {headers:?}");
        }
    }
}

#[test]
fn the_files_come_without_a_token_and_as_they_are() {
    let Some(server) = Server::start(&["--page"]) else { return };
    for (name, text) in files() {
        let answer = server.get(&path_of(&name), &[("Host", &server.host())]);
        assert_eq!((answer.status, answer.body.as_str()), (200, text.as_str()), "{name}: {}", answer.head);
        let content_type = match name.rsplit_once('.').expect("an extension").1 {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "mjs" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("what is a .{other}?"),
        };
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
        for header in [
            &format!("content-type: {content_type}"),
            policy,
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "x-frame-options: deny",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-embedder-policy: require-corp",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.lines().any(|line| line == header), "{name} lacks {header}: {}", answer.head);
        }
    }
}

#[test]
fn the_page_opens_no_other_door() {
    let Some(server) = Server::start(&["--page"]) else { return };
    let host = server.host();
    for path in ["/", "/page/main.mjs"] {
        assert_eq!(server.get(path, &[("Host", "evil.example")]).status, 403, "{path}");
        assert_eq!(server.get(path, &[("Host", &host), ("Origin", "https://evil.example")]).status, 403, "{path}");
        assert_eq!(server.raw(&format!("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n"), b"").status, 200, "{path}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let answer = server.raw(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n"), b"");
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.head);
        }
    }
    for path in [
        "/page",
        "/page/",
        "/page/nothing",
        "/page/../main.mjs",
        "/page/%2e%2e/mod.rs",
        "/page/tests/words.test.mjs",
        "/index.html",
        "//",
    ] {
        assert_eq!(server.get(path, &[("Host", &host)]).status, 404, "{path}");
    }
    for path in ["/mcp", "/metrics"] {
        assert_eq!(server.get(path, &[("Host", &host)]).status, 401, "{path} still asks for the token");
    }
}

#[test]
fn the_files_hold_no_data_and_ask_nobody_else() {
    for (name, text) in files() {
        let text = text.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for banned in [
            "://",
            "src=\"//",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "import(",
            "WebSocket",
            "EventSource",
            "XMLHttpRequest",
            "sendBeacon",
            "Storage",
            "cookie",
            "postMessage",
            "window.open",
            "<style",
            " style=",
            "<iframe",
            "url(",
            "@import",
            TOKEN,
        ] {
            assert!(!text.contains(banned), "{name} has {banned}");
        }
        // Handlers in the markup, and scripts between tags, would be refused by the policy.
        let inline = text.split('<').filter(|tag| name.ends_with(".html") && tag.contains(" on")).collect::<Vec<_>>();
        assert!(
            inline.iter().all(|tag| !tag.split('>').next().is_some_and(|tag| tag.contains(" on"))),
            "{name}: {inline:?}"
        );
        assert_eq!(text.matches("fetch(").count(), usize::from(name == "mcp.mjs"), "{name}");
    }
}

#[test]
fn the_page_shows_the_same_characters_as_escapes_as_the_command_line() {
    let text = std::fs::read_to_string(folder().join("visible.mjs")).expect("visible.mjs");
    let list = text.split_once("SHOWN_AS_ESCAPES = [").and_then(|(_, rest)| rest.split_once("];")).expect("the list").0;
    let numbers: Vec<u32> = list
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(|word| word.strip_prefix("0x"))
        .map(|hex| u32::from_str_radix(hex, 16).expect("a number"))
        .collect();
    let ranges: Vec<_> = numbers.chunks(2).map(|pair| pair[0]..=pair[1]).collect();
    assert!(ranges.len() > 4, "{ranges:x?}");
    for c in char::MIN..=char::MAX {
        let shown = ranges.iter().any(|range| range.contains(&u32::from(c)));
        assert_eq!(shown, needs_escape(c), "{}", c.escape_unicode());
    }
}
