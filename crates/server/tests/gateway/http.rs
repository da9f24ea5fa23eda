//! A `codespace-mcp` that listens, and requests to it as they stand on the wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Gateway, Place, SOON};

/// The protocol in which each request stands for itself.
pub const NEWEST: &str = "2026-07-28";
pub const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A server of a place, which listens.
pub struct Server {
    pub port: u16,
    pub gateway: Gateway,
    pub place: Place,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Server {
    /// One with a token, and with these flags besides.
    pub fn start(flags: &[&str]) -> Option<Self> {
        Self::start_with(flags, |_| {})
    }

    /// The same; `prepare` is given the place before anything runs there.
    pub fn start_with(flags: &[&str], prepare: impl FnOnce(&Place)) -> Option<Self> {
        let mut place = Place::new()?;
        prepare(&place);
        let token = place.ground.private().join("token");
        std::fs::write(&token, TOKEN).expect("to write the token");
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("to close it");
        let token = token.to_str().expect("a path").to_owned();
        let (log, stderr) = std::io::pipe().expect("a pipe");
        let http = ["--http", "127.0.0.1:0", "--token-file", &token, "--log-format", "json"];
        let gateway = place.start_with(&[&http, flags].concat(), stderr.into());
        let mut lines = BufReader::new(log).lines();
        let port = loop {
            let line = lines.next().expect("it to listen").expect("a line");
            let said: Value = serde_json::from_str(&line).unwrap_or_default();
            let address = said["fields"]["address"].as_str().and_then(|address| address.parse::<SocketAddr>().ok());
            if let Some(address) = address {
                break address.port();
            }
        };
        // A log that nobody reads any more would be an error to it.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { port, gateway, place })
    }

    /// Sends a request as it stands.
    pub fn raw(&self, head: &str, body: &[u8]) -> Answer {
        raw(self.port, head, body)
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{headers}"), b"")
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The head of a message to `/mcp` by somebody who may, but for what says how long the body is.
    pub fn post_head(&self, session: Option<&str>) -> String {
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}",
            self.host()
        )
    }

    /// A message to `/mcp` by somebody who may.
    pub fn post(&self, session: Option<&str>, message: &Value) -> Answer {
        self.raw(&self.post_head(session), message.to_string().as_bytes())
    }

    /// The same, of the protocol that has no sessions: a call of a tool.
    pub fn call_head(&self, tool: &str) -> String {
        format!(
            "{}MCP-Protocol-Version: {NEWEST}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n",
            self.post_head(None)
        )
    }

    /// Opens a session and returns its id.
    pub fn greeted(&self) -> String {
        let client = json!({"name": "test", "version": "0"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let greeted = self.post(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
        assert_eq!(greeted.message(1)["result"]["protocolVersion"], "2025-06-18", "{greeted:?}");
        let session = greeted.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(Some(session), &initialized).status, 202);
        session.to_owned()
    }

    /// Closes a session.
    pub fn close(&self, session: &str) -> Answer {
        let head = format!(
            "DELETE /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nMcp-Session-Id: {session}\r\n",
            self.host()
        );
        self.raw(&head, b"")
    }

    /// The value of a line of `/metrics`.
    pub fn metric(&self, name: &str) -> u64 {
        let bearer = format!("Bearer {TOKEN}");
        let metrics = self.get("/metrics", &[("Host", &self.host()), ("Authorization", &bearer)]).body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Waits until a line of `/metrics` has this value.
    pub fn wait_for_metric(&self, name: &str, wanted: u64) {
        let until = Instant::now() + SOON;
        loop {
            let value = self.metric(name);
            if value == wanted {
                return;
            }
            assert!(Instant::now() < until, "{name} stays {value}, not {wanted}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Sends a request as it stands and reads the answer to the end of the connection.
pub fn raw(port: u16, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a deadline");
    let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).expect("to send");
    // One that is refused for its size may not be read to its end.
    stream.write_all(body).ok();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// A call of a tool in the protocol that has no sessions.
pub fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

impl Answer {
    /// The message in it that has this id, whether it came as JSON or as an event.
    pub fn message(&self, id: u64) -> Value {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: ").or(Some(line)));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message["id"] == json!(id)).unwrap_or_else(|| panic!("no answer to {id}: {self:?}"))
    }
}
