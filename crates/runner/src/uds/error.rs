//! Why a socket could not be had, for the two ends: binding it and connecting to it. Each names the path.

use std::io;
use std::path::PathBuf;

use codespace_domain::{ErrorCode, RunnerError};

/// The most bytes of a socket's path, as `sockaddr_un` holds 108 with the final NUL, and 104 on the BSDs and macOS.
pub(super) const MAX_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Why the Runner cannot listen on a path.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the meaning; `path` is the one that each is about")]
pub enum BindError {
    #[error("listen on {}: the path has {length} bytes, a socket's has at most {MAX_SOCKET_PATH}", path.display())]
    PathTooLong { path: PathBuf, length: usize },
    #[error("listen on {}: it names no file in a directory", path.display())]
    NoFile { path: PathBuf },
    #[error("create the socket's directory {}", path.display())]
    CreateDirectory { path: PathBuf, source: io::Error },
    #[error("open the socket's directory {}", path.display())]
    OpenDirectory { path: PathBuf, source: io::Error },
    #[error("use the socket's directory {}: it belongs to uid {owner}, not to uid {uid}", path.display())]
    ForeignDirectory { path: PathBuf, owner: u32, uid: u32 },
    #[error("use the socket's directory {}: its mode is {mode:04o}, so that others can enter it", path.display())]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error("lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("listen on {}: a live Runner holds it", path.display())]
    InUse { path: PathBuf },
    #[error("listen on {}: somebody who is no Runner listens there already", path.display())]
    Held { path: PathBuf },
    #[error("use the given socket {}: it belongs to uid {owner}, not to uid {uid}", path.display())]
    ForeignSocket { path: PathBuf, owner: u32, uid: u32 },
    #[error("use the given socket {}: its mode is {mode:04o}, so that others can connect to it", path.display())]
    SocketOpenToOthers { path: PathBuf, mode: u32 },
    #[error("listen on {}: something that is no socket is there", path.display())]
    NotASocket { path: PathBuf },
    #[error("replace the stale socket {}", path.display())]
    Replace { path: PathBuf, source: io::Error },
    #[error("listen on {}", path.display())]
    Listen { path: PathBuf, source: io::Error },
}

impl BindError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::PathTooLong { .. } => Some("choose a shorter path with --socket".to_owned()),
            Self::ForeignDirectory { .. } => Some(
                "choose a directory of your own with --socket, or with ListenStream= of the socket unit".to_owned(),
            ),
            Self::OpenToOthers { path, .. } => Some(format!(
                "close it with chmod 0700 {}, or choose another one with --socket; DirectoryMode=0700 in a socket unit",
                path.display()
            )),
            Self::Held { .. } => Some(
                "stop that one (a service manager's socket unit?), or choose another path with --socket".to_owned(),
            ),
            Self::ForeignSocket { .. } => {
                Some("let SocketUser= of the socket unit and User= of the service name the same user".to_owned())
            }
            Self::SocketOpenToOthers { .. } => Some("set SocketMode=0600 in the socket unit".to_owned()),
            Self::InUse { .. } => {
                Some("end that one with codespace-runner stop, or choose another path with --socket".to_owned())
            }
            Self::NotASocket { .. } => Some("move it away, or choose another path with --socket".to_owned()),
            Self::CreateDirectory { .. } | Self::Lock { .. } | Self::Replace { .. } => {
                Some("choose a directory that you can write in with --socket".to_owned())
            }
            Self::NoFile { .. } | Self::OpenDirectory { .. } | Self::Listen { .. } => None,
        }
    }
}

/// Why what a service manager gives cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the meaning")]
pub enum InheritError {
    #[error("take the socket that the service manager gives (LISTEN_FDS)")]
    Unusable { source: io::Error },
    #[error("take the socket that the service manager gives: it gives {count} descriptors, the Runner listens on one")]
    Several { count: usize },
    #[error("listen on the descriptor that the service manager gives: it is no listening Unix stream socket")]
    WrongKind,
    #[error("listen on the socket that the service manager gives: its address is no absolute path")]
    NoPath,
    #[error("listen on {}: the service manager gives the socket {}", named.display(), given.display())]
    AnotherPath { named: PathBuf, given: PathBuf },
}

impl InheritError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unusable { .. } => {
                "start it from a service manager that keeps to sd_listen_fds(3), or unset LISTEN_FDS"
            }
            Self::Several { .. } => "leave one ListenStream= in the socket unit",
            Self::WrongKind => "let the socket unit have one ListenStream= with an absolute path, and Accept=no",
            Self::NoPath => "let ListenStream= of the socket unit be an absolute path",
            Self::AnotherPath { .. } => {
                "leave --socket and CODESPACE_RUNNER_SOCKET out of the service, or name the same path"
            }
        }
        .to_owned()
    }
}

/// Why a client has no connection to a Runner.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the meaning; `path` is the one that each is about")]
pub enum ConnectError {
    #[error("connect to a Runner at {}: the path has {length} bytes, a socket's has at most {MAX_SOCKET_PATH}", path.display())]
    PathTooLong { path: PathBuf, length: usize },
    #[error("connect to a Runner at {}: none is listening there", path.display())]
    NobodyListens { path: PathBuf, source: io::Error },
    #[error("connect to a Runner at {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("trust the Runner at {}: it runs as uid {peer}, not as uid {uid}", path.display())]
    ForeignPeer { path: PathBuf, peer: u32, uid: u32 },
    #[error("greet the Runner at {}: {}", path.display(), source.message)]
    Hello { path: PathBuf, source: RunnerError },
}

impl ConnectError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NobodyListens { .. } => {
                Some("start one with codespace-runner serve, or name its socket with --socket".to_owned())
            }
            Self::ForeignPeer { .. } => Some("name your own Runner's socket with --socket".to_owned()),
            Self::Hello { source, .. } => source.hint.clone(),
            Self::PathTooLong { .. } | Self::Connect { .. } => None,
        }
    }

    /// The code for it among the contract's.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Hello { source, .. } => source.code,
            Self::ForeignPeer { .. } => ErrorCode::Unauthorized,
            Self::PathTooLong { .. } | Self::NobodyListens { .. } | Self::Connect { .. } => {
                ErrorCode::ResourceUnavailable
            }
        }
    }
}

impl From<ConnectError> for RunnerError {
    /// The whole chain in `message`, the advice in `hint`.
    fn from(error: ConnectError) -> Self {
        let (code, hint) = (error.code(), error.hint());
        // What the Runner itself has said is in the words already.
        let cause = std::error::Error::source(&error).filter(|cause| !cause.is::<RunnerError>());
        let message = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        Self { hint, ..Self::new(code, message) }
    }
}
