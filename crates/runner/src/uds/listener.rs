//! The listening socket: mode 0600 from its first instant, in a private directory, for peers of our own uid only.
//!
//! Owns the socket's descriptor; whose the path is, is `place`'s. Never reads or writes a connection: a peer of another
//! uid is handed to `turned_away`.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;

use codespace_domain::{ErrorCode, RunnerError};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixStream};

use super::error::BindError;
#[cfg(target_os = "linux")]
use super::inherited::InheritedSocket;
use super::place::Place;
use super::turned_away::TurnedAway;

/// A socket that this Runner listens on. Dropping it closes and removes the socket and lets another Runner have the path.
#[derive(Debug)]
pub struct Listener {
    // Dropped before its place: the path is given up only when nobody is listening any more.
    socket: UnixListener,
    place: Place,
    foreign: TurnedAway,
}

impl Listener {
    /// Listens on `path`. Its directory is created with mode 0700 where it is missing; one that is there must be ours and
    /// closed to others. A stale socket is replaced, one of a live Runner is an error. Needs a tokio runtime.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let mut place = Place::take(path)?;
        let listening = open_socket(place.path()).and_then(|socket| {
            place.made()?;
            Ok(socket)
        });
        match listening {
            Ok(socket) => Ok(Self { socket, place, foreign: TurnedAway::new() }),
            Err(source) => Err(BindError::Listen { path: place.path().to_owned(), source }),
        }
    }

    /// Listens on a socket that a service manager has made: it stays the manager's, which goes on holding it, and its file
    /// is never removed here. Directory and file must be ours alone, as if they had been made here; a Runner that holds
    /// the path already is an error. Needs a tokio runtime.
    #[cfg(target_os = "linux")]
    pub fn adopt(inherited: InheritedSocket) -> Result<Self, BindError> {
        let place = Place::adopt(inherited.path())?;
        let failed = |source| BindError::Listen { path: place.path().to_owned(), source };
        let socket = StdUnixListener::from(inherited.into_descriptor());
        socket.set_nonblocking(true).map_err(failed)?;
        // Once more: a client that looks at who listens is shown who called this last.
        listen(&socket, Backlog::MAXCONN).map_err(|errno| failed(errno.into()))?;
        let socket = UnixListener::from_std(socket).map_err(failed)?;
        Ok(Self { socket, place, foreign: TurnedAway::new() })
    }

    /// For a path that nobody will come back to: the lock goes with the socket, and the directory too where nothing else
    /// is in it.
    pub fn for_once(&mut self) {
        self.place.for_once();
    }

    /// The socket's absolute path.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The lock beside it. Together with the socket's directory, it must be reachable from no sandbox.
    pub fn lock_path(&self) -> &Path {
        self.place.lock_path()
    }

    /// The next connection of a peer of our own uid. Others are refused here.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == geteuid().as_raw() => return Ok(stream),
                Ok(peer) => {
                    tracing::warn!(uid = peer.uid(), "refused a peer of another uid");
                    let text = "accept the connection: its peer has another uid";
                    self.foreign.tell(stream, &RunnerError::new(ErrorCode::Unauthorized, text));
                }
                Err(error) => tracing::warn!(%error, "refused a peer whose uid could not be told"),
            }
        }
    }
}

fn open_socket(path: &Path) -> io::Result<UnixListener> {
    let socket = private_socket()?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    if std::fs::symlink_metadata(path)?.permissions().mode() & 0o777 != 0o600 {
        // A umask that takes the owner's own bits; elsewhere than on Linux, any umask.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    }
    listen(&socket, Backlog::MAXCONN)?;
    UnixListener::from_std(StdUnixListener::from(socket))
}

/// Close-on-exec and non-blocking from its first instant, and what is bound to it is the owner's alone from its own.
#[cfg(target_os = "linux")]
fn private_socket() -> io::Result<OwnedFd> {
    use nix::sys::stat::{Mode, fchmod};

    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // Linux takes the new path's mode from the socket's own, less the umask. A chmod after the bind would leave a moment
    // with a wider mode, and a umask for the bind would be one for every other thread too.
    fchmod(socket.as_fd(), Mode::S_IRUSR | Mode::S_IWUSR)?;
    Ok(socket)
}

/// Elsewhere a socket has no mode to set: its path is closed to others after the bind, and meanwhile by its directory. A
/// program that another thread starts between the calls inherits the descriptor.
#[cfg(not(target_os = "linux"))]
fn private_socket() -> io::Result<OwnedFd> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    crate::sys::async_fd::set_nonblocking(socket.as_fd())?;
    Ok(socket)
}
