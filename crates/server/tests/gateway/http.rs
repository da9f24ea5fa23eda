//! A `codespace-mcp` that listens, and requests to it as they stand on the wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{Gateway, Place, SOON};

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
        let mut place = Place::new()?;
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

    /// Sends a request as it stands and reads the answer to the end of the connection.
    pub fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
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

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{headers}"), b"")
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A message to `/mcp` by somebody who may.
    pub fn post(&self, session: Option<&str>, message: &Value) -> Answer {
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}",
            self.host()
        );
        self.raw(&head, message.to_string().as_bytes())
    }
}

impl Answer {
    /// The message in it that has this id, whether it came as JSON or as an event.
    pub fn message(&self, id: u64) -> Value {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: ").or(Some(line)));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message["id"] == json!(id)).unwrap_or_else(|| panic!("no answer to {id}: {self:?}"))
    }
}
