//! The place of a socket: its private directory, the lock beside it, and the path itself.
//!
//! Whose the path is, is decided by a lock that the kernel gives up with its holder's death, never by trying to connect:
//! two starts at the same moment would both find the old socket dead, and the second would unlink the first one's new
//! socket. The lock file stays for the next Runner, unless the place was for one alone.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::geteuid;

use super::error::{BindError, MAX_SOCKET_PATH};

/// A socket path that is ours until this is dropped. Dropping it removes the socket, if it was made here and is still the
/// same one, and then gives up the lock.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    lock_path: PathBuf,
    /// Device and inode of the socket that was made here; none where a service manager has made it.
    made: Option<(u64, u64)>,
    /// Whether nobody else will ever want this place.
    for_once: bool,
    _lock: Flock<File>,
}

impl Place {
    /// Takes the path, and leaves nothing at it.
    pub(super) fn take(path: &Path) -> Result<Self, BindError> {
        let path = std::path::absolute(path).map_err(|source| BindError::Listen { path: path.to_owned(), source })?;
        let length = path.as_os_str().as_bytes().len();
        if length > MAX_SOCKET_PATH {
            return Err(BindError::PathTooLong { path, length });
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(BindError::NoFile { path });
        };
        // 1. The directory, before anything is made in it: in one that others can enter, they could put a socket of
        //    their own in our place, or reach ours.
        private_directory(directory)?;

        // 2. The lock, before the path is touched: whatever is at the path of a lock that we hold is stale.
        let lock_path = lock_path(directory, name);
        let lock = lock(&lock_path, &path)?;

        // 3. The path. Only a socket is removed; anything else was put there by somebody who wants it. And only one that is
        //    dead: a service manager holds no lock of ours.
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => {
                if somebody_listens(&path) {
                    return Err(BindError::Held { path });
                }
                std::fs::remove_file(&path).map_err(|source| BindError::Replace { path: path.clone(), source })?
            }
            Ok(_) => return Err(BindError::NotASocket { path }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(BindError::Listen { path, source }),
        }
        Ok(Self { path, lock_path, made: None, for_once: false, _lock: lock })
    }

    /// Takes the path of a socket that somebody else has made and will remove. It must be there, and be ours alone.
    #[cfg(target_os = "linux")]
    pub(super) fn adopt(path: &Path) -> Result<Self, BindError> {
        let path = path.to_owned();
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(BindError::NoFile { path });
        };
        ours_alone(directory)?;
        let lock_path = lock_path(directory, name);
        let lock = lock(&lock_path, &path)?;
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => found,
            Ok(_) => return Err(BindError::NotASocket { path }),
            Err(source) => return Err(BindError::Listen { path, source }),
        };
        let (owner, uid, mode) = (found.uid(), geteuid().as_raw(), found.mode() & 0o7777);
        if owner != uid {
            return Err(BindError::ForeignSocket { path, owner, uid });
        }
        if mode & 0o077 != 0 {
            return Err(BindError::SocketOpenToOthers { path, mode });
        }
        Ok(Self { path, lock_path, made: None, for_once: false, _lock: lock })
    }

    /// Remembers the socket that is at the path now as the one to remove in the end.
    pub(super) fn made(&mut self) -> io::Result<()> {
        let found = std::fs::symlink_metadata(&self.path)?;
        self.made = Some((found.dev(), found.ino()));
        Ok(())
    }

    /// In the end, removes the lock too, and the directory where nothing else is in it.
    pub(super) fn for_once(&mut self) {
        self.for_once = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock_path(&self) -> &Path {
        &self.lock_path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(made) = self.made else { return };
        let is_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == made);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "failed to remove the socket");
        }
        if self.for_once {
            // While we hold it: who waits for it sees that it is no longer there. A directory that is in use stays.
            drop(std::fs::remove_file(&self.lock_path));
            drop(self.path.parent().map(std::fs::remove_dir));
        }
    }
}

/// Makes the directory, or makes sure that one that is there is ours alone. Never changes one that was there.
fn private_directory(path: &Path) -> Result<(), BindError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|source| BindError::CreateDirectory { path: path.to_owned(), source })?;
    ours_alone(path)
}

/// Nobody else can enter the directory.
fn ours_alone(path: &Path) -> Result<(), BindError> {
    // Looked at through a descriptor that follows no link, so that what is checked is a directory of this very name.
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
    let found = OpenOptions::new().read(true).custom_flags(flags).open(path).and_then(|d| d.metadata());
    let found = found.map_err(|source| BindError::OpenDirectory { path: path.to_owned(), source })?;
    let (owner, uid, mode) = (found.uid(), geteuid().as_raw(), found.mode() & 0o7777);
    if owner != uid {
        return Err(BindError::ForeignDirectory { path: path.to_owned(), owner, uid });
    }
    if mode & 0o077 != 0 {
        return Err(BindError::OpenToOthers { path: path.to_owned(), mode });
    }
    Ok(())
}

fn lock_path(directory: &Path, name: &OsStr) -> PathBuf {
    let mut lock_name = name.to_owned();
    lock_name.push(".lock");
    directory.join(lock_name)
}

/// Whether a connection to the socket would be taken. Asked under the lock, so no other Runner can come or go meanwhile.
fn somebody_listens(path: &Path) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let connected = UnixAddr::new(path).and_then(|address| {
        let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(probe.as_raw_fd(), &address)
    });
    // Where the queue is full, somebody has made one.
    matches!(connected, Ok(()) | Err(Errno::EAGAIN))
}

/// How long a lock may outlive the Runner that held it.
const HOLDOVER: Duration = Duration::from_millis(500);

fn lock(lock_path: &Path, path: &Path) -> Result<Flock<File>, BindError> {
    let failed = |source| BindError::Lock { path: lock_path.to_owned(), source };
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
    let open =
        || OpenOptions::new().read(true).write(true).create(true).mode(0o600).custom_flags(flags).open(lock_path);
    let began = Instant::now();
    loop {
        let file = open().map_err(failed)?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            // A Runner that was killed a moment ago may have left a copy of its lock in a child that had not yet become
            // its helper, and that is dying as well.
            Err((_, Errno::EWOULDBLOCK)) if began.elapsed() < HOLDOVER => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err((_, Errno::EWOULDBLOCK)) => return Err(BindError::InUse { path: path.to_owned() }),
            Err((_, Errno::EINTR)) => continue,
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        // Somebody may have removed the file between our open and our lock; then the lock is worth nothing.
        let held = lock.metadata().map_err(failed)?;
        match std::fs::symlink_metadata(lock_path) {
            Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(lock),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(source)),
        }
    }
}
