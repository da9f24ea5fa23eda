//! The command line of `codespace-mcp`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use axum::http::uri::Authority;
use clap::Parser;

/// Where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RunnerChoice {
    /// In this process: they end with it.
    InProcess,
    /// Behind a socket: an independent Runner with --runner-socket, else a private one that ends with this process.
    Uds,
}

/// An MCP server that runs commands in workspaces, inside a sandbox, and ends them whole.
#[derive(Debug, Clone, Parser)]
#[command(name = "codespace-mcp", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Where commands run [default: in-process, or uds with --runner-socket].
    #[arg(long, value_name = "WHERE")]
    pub runner: Option<RunnerChoice>,
    /// The socket of an independent Runner (codespace-runner serve).
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    pub runner_socket: Option<PathBuf>,
    /// The registry of workspaces; without one, the current directory is the workspace `default`.
    #[arg(long, value_name = "FILE", env = "CODESPACE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Serve Streamable HTTP here instead of stdio, at /mcp.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// The file with the token that HTTP clients have to present; CODESPACE_MCP_TOKEN is the other way to give it.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Let whoever reaches the port run commands. On loopback only.
    #[arg(long, requires = "http", conflicts_with = "token_file")]
    pub no_token: bool,
    /// A name beside loopback's that HTTP clients may address this server by (repeatable).
    #[arg(long, value_name = "NAME[:PORT]", requires = "http", value_parser = host)]
    pub allow_host: Vec<String>,
    /// Show a live page at / for whoever watches: processes, their output as it comes, and buttons that stop them. It asks
    /// for the token before it shows anything.
    #[arg(long, requires = "http")]
    pub page: bool,
    /// The form of the log lines on stderr; RUST_LOG says which.
    #[arg(long, default_value = "text")]
    pub log_format: LogFormat,
}

impl Cli {
    /// Where commands run, also where that was not said.
    pub fn runner(&self) -> RunnerChoice {
        self.runner.unwrap_or(match self.runner_socket {
            Some(_) => RunnerChoice::Uds,
            None => RunnerChoice::InProcess,
        })
    }
}

/// Names are not looked up: whom one leads to is decided elsewhere.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "give an IP address and a port, for example 127.0.0.1:8931 or [::1]:8931")
}

/// What a `Host` header could have in it: one that never can would be a hole, or a door that nobody ever opens.
fn host(text: &str) -> Result<String, &'static str> {
    let authority: Authority = text.parse().map_err(|_| NO_HOST)?;
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
    };
    let rest = text.strip_prefix(name).ok_or(NO_HOST)?;
    let is_port = rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    if is_host && is_port { Ok(text.to_owned()) } else { Err(NO_HOST) }
}

const NO_HOST: &str = "give a name or an address as a Host header has it, one of each --allow-host: runner.example, \
                       runner.example:443, [2001:db8::1]";

/// The form of the log lines.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[expect(missing_docs, reason = "the words are the meaning")]
pub enum LogFormat {
    Text,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  codespace-mcp                                        the current directory, over stdio
  codespace-mcp --config registry.json                 the workspaces of a registry
  codespace-mcp --runner-socket /run/x/runner.sock     in front of an independent Runner
  codespace-mcp --http 127.0.0.1:8931 --token-file t   over HTTP
  codespace-mcp --http 127.0.0.1:8931 --token-file t --page
                                                       with a page to watch it at http://127.0.0.1:8931/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_host_header_can_name_may_be_allowed() {
        for good in ["runner.example", "Runner.example:443", "10.0.0.1", "[2001:db8::1]", "[::1]:80", "a.example."] {
            assert_eq!(host(good), Ok(good.to_owned()));
        }
        for bad in [
            "",
            " ",
            "*",
            "*.example",
            ":80",
            "http://runner.example",
            "runner.example/",
            "2001:db8::1",
            "a:b",
            "a:",
            "a:99999",
            "user@runner.example",
            "[::1",
            "[x]",
            "a,b",
        ] {
            assert_eq!(host(bad), Err(NO_HOST), "{bad:?}");
        }
    }
}
