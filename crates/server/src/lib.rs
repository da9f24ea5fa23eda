//! `codespace-mcp`: the workspace orchestrator's gateway. An agent plugs the Runner in as an MCP server, over stdio or
//! Streamable HTTP, in front of a Runner in this process or an independent one.
//!
//! ```text
//! MCP client -> stdio | http { guard } -> Gateway (one session) -> tools, resources -> Client -> Runner
//! ```
//!
//! Knows MCP and HTTP. Never acts on a pid, decides no policy and starts no command: it asks a [`codespace_runner::Runner`].

pub mod backend;
pub mod cli;
pub mod gateway;
pub mod http;
mod paced;
mod progress;
mod resources;
pub mod run;
mod say;
mod stdio;
pub mod tools;
mod worker;
