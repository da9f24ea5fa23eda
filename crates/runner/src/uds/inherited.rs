//! The socket that a service manager gives (socket activation): exactly one listening Unix stream socket with a path, or an
//! error that says what came instead.
//!
//! Looks at the descriptor alone; whose its path is, and who can reach that, is `place`'s. The variables that announce it
//! stay in the environment, which a process with threads cannot change safely; no command is given them.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::sockopt::{AcceptConn, SockType as TypeOf};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike as _, SockaddrStorage, UnixAddr, getsockname, getsockopt,
};

use super::error::InheritError;
use crate::sys::given::take_descriptors;

/// A listening socket that this process was started with.
#[derive(Debug)]
pub struct InheritedSocket {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl InheritedSocket {
    /// The socket that this process was given, if it was: `LISTEN_PID` must name it. From here on no program that is
    /// started inherits it. To be called once, before this process opens anything; a second call finds nothing.
    ///
    /// # Errors
    /// What was given is not what the Runner can listen on.
    pub fn take() -> Result<Option<Self>, InheritError> {
        let mut given = take_descriptors().map_err(|source| InheritError::Unusable { source })?;
        let descriptor = match (given.pop(), given.len()) {
            (None, _) => return Ok(None),
            (Some(descriptor), 0) => descriptor,
            (Some(_), more) => return Err(InheritError::Several { count: more + 1 }),
        };
        let listening = getsockopt(&descriptor, AcceptConn).unwrap_or(false);
        let stream = getsockopt(&descriptor, TypeOf).is_ok_and(|kind| kind == SockType::Stream);
        let address = getsockname::<SockaddrStorage>(descriptor.as_raw_fd()).ok();
        let unix = address.and_then(|address| address.family()) == Some(AddressFamily::Unix);
        if !(listening && stream && unix) {
            return Err(InheritError::WrongKind);
        }
        let address = getsockname::<UnixAddr>(descriptor.as_raw_fd()).ok();
        match address.as_ref().and_then(UnixAddr::path).filter(|path| path.is_absolute()) {
            Some(path) => Ok(Some(Self { path: path.to_owned(), descriptor })),
            None => Err(InheritError::NoPath),
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}
