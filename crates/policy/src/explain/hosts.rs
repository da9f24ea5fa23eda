//! What a command reaches of the network, in general and for one host.

use std::net::IpAddr;

use codespace_domain::{ErrorCode, RunnerError};
use serde::Serialize;

use crate::{NetworkPolicy, SandboxChoice, Workspace};

/// What a command reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Nothing.
    Nothing,
    /// The sandbox's own loopback, where only what runs in the same sandbox listens.
    OwnLoopback,
    /// What the host reaches.
    Host,
    /// The policy asks for what this version cannot enforce, so that no command runs.
    Refused,
}

/// What the network policy does about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostExplained {
    /// The name or address.
    pub host: String,
    /// Its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What is reached under it.
    pub reach: Reach,
    /// The registry's key that decides.
    pub decided_by: &'static str,
    /// What a start is answered with now; absent when it is not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RunnerError>,
}

/// What the workspace's commands reach.
pub(super) fn reach(workspace: &Workspace) -> Reach {
    match (workspace.sandbox, &workspace.network) {
        (SandboxChoice::None, NetworkPolicy::Restricted | NetworkPolicy::Host) | (_, NetworkPolicy::Host) => {
            Reach::Host
        }
        (SandboxChoice::Auto | SandboxChoice::Bubblewrap, NetworkPolicy::Restricted) => Reach::OwnLoopback,
        (_, NetworkPolicy::Enabled | NetworkPolicy::List(_)) => Reach::Refused,
    }
}

pub(super) fn explain(
    workspace: &Workspace,
    written: &str,
    refused: Option<RunnerError>,
) -> Result<HostExplained, RunnerError> {
    let (host, port) = split(written).ok_or_else(|| {
        RunnerError::new(ErrorCode::InvalidCommand, format!("take {written:?} as a host")).with_hint(
            "such as example.com, example.com:443, 192.0.2.1:80 or [2001:db8::1]:443; a path begins with ./ or /",
        )
    })?;
    let reach = match reach(workspace) {
        Reach::OwnLoopback if !is_loopback(&host) => Reach::Nothing,
        other => other,
    };
    let decided_by = if workspace.sandbox == SandboxChoice::None { "sandbox" } else { "network" };
    Ok(HostExplained { host, port, reach, decided_by, refused })
}

/// `name`, `name:port`, `address`, `address:port`, `[v6]` or `[v6]:port`.
fn split(written: &str) -> Option<(String, Option<u16>)> {
    if let Ok(address) = written.parse::<IpAddr>() {
        return Some((address.to_string(), None));
    }
    let (host, port) = match written.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            match rest.strip_prefix(':') {
                None if !rest.is_empty() => return None,
                port => (address, port),
            }
        }
        None => match written.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (written, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port != 0)?),
        None => None,
    };
    let possible = |c: char| c.is_alphanumeric() || "-._:".contains(c);
    let name = !host.is_empty() && host.chars().all(possible) && (written.starts_with('[') || !host.contains(':'));
    name.then(|| (host.to_lowercase(), port))
}

fn is_loopback(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    name == "localhost" || name.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for (written, host, port) in [
            ("Example.com", "example.com", None),
            ("example.com:443", "example.com", Some(443)),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("::1", "::1", None),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
            ("[::1]", "::1", None),
            ("예시.kr", "예시.kr", None),
        ] {
            assert_eq!(split(written), Some((host.to_owned(), port)), "{written}");
        }
        for bad in ["", ":80", "a:b", "a:0", "a:70000", "a/b", "http://a", "[::1", "[::1]80", "[a]:80", "a b", "a:1:2"]
        {
            assert_eq!(split(bad), None, "{bad}");
        }
    }
}
