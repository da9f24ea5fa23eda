//! The command line of `codespace-mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

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
#[derive(Debug, Parser)]
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
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// The file with the token that HTTP clients have to present; CODESPACE_MCP_TOKEN is the other way to give it.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Let whoever reaches the port run commands. On loopback only.
    #[arg(long, requires = "http", conflicts_with = "token_file")]
    pub no_token: bool,
    /// A name beside loopback's that HTTP clients may address this server by (repeatable).
    #[arg(long, value_name = "NAME[:PORT]", requires = "http")]
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
