//! Whose the socket's path is, and who can reach it.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::MAX_SOCKET_PATH;
use super::{BindError, Listener};

fn private() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    let socket = directory.path().join("runner.sock");
    (directory, socket)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn a_missing_directory_is_made_private_and_so_is_the_socket() {
    let (directory, _) = private();
    let socket = directory.path().join("a/b/runner.sock");
    let listener = Listener::bind(&socket).unwrap();
    assert_eq!(mode(&directory.path().join("a/b")), 0o700);
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(listener.lock_path()), 0o600);
    assert_eq!(listener.path(), socket);
    drop(listener);
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_place_for_once_leaves_nothing_and_takes_nothing_that_is_not_its_own() {
    let (directory, _) = private();
    for (name, also_there) in [("alone", false), ("shared", true)] {
        let place = directory.path().join(name);
        let mut listener = Listener::bind(&place.join("runner.sock")).unwrap();
        let lock = listener.lock_path().to_owned();
        if also_there {
            std::fs::write(place.join("mine"), "").unwrap();
        }
        listener.for_once();
        drop(listener);
        assert!(!lock.exists());
        assert_eq!((place.exists(), place.join("mine").exists()), (also_there, also_there));
    }
}

#[tokio::test]
async fn a_directory_that_others_can_enter_is_refused_and_left_as_it_is() {
    for open in [0o755, 0o710, 0o701, 0o1777] {
        let (directory, socket) = private();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(open)).unwrap();
        let error = Listener::bind(&socket).unwrap_err();
        assert!(matches!(error, BindError::OpenToOthers { mode, .. } if mode == open), "{error}");
        assert!(error.hint().unwrap().contains("chmod"));
        assert_eq!(mode(directory.path()), open);
        assert!(!socket.exists());
    }
}

#[tokio::test]
async fn a_directory_that_is_a_link_is_refused() {
    let (directory, _) = private();
    let (elsewhere, _) = private();
    let link = directory.path().join("link");
    symlink(elsewhere.path(), &link).unwrap();
    let error = Listener::bind(&link.join("runner.sock")).unwrap_err();
    assert!(matches!(error, BindError::OpenDirectory { .. }), "{error}");
}

#[tokio::test]
async fn a_directory_of_another_user_is_refused() {
    let (directory, socket) = private();
    if !nix::unistd::geteuid().is_root() {
        // Only root can give a directory away; as another user, the root directory is somebody else's.
        assert!(matches!(Listener::bind(Path::new("/runner.sock")), Err(BindError::ForeignDirectory { .. })));
        return;
    }
    std::os::unix::fs::chown(directory.path(), Some(65534), None).unwrap();
    let error = Listener::bind(&socket).unwrap_err();
    assert!(matches!(error, BindError::ForeignDirectory { owner: 65534, .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_a_live_runner_holds_is_an_error_that_names_it() {
    let (_directory, socket) = private();
    let first = Listener::bind(&socket).unwrap();
    let error = Listener::bind(&socket).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("runner.sock"));
    assert!(socket.exists(), "the live one keeps its socket");
    drop(first);
    Listener::bind(&socket).unwrap();
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let (_directory, socket) = private();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let listener = Listener::bind(&socket).unwrap();
    tokio::net::UnixStream::connect(&socket).await.unwrap();
    drop(listener);
}

#[tokio::test]
async fn whatever_is_no_socket_is_left_alone() {
    for kind in ["file", "directory", "link"] {
        let (directory, socket) = private();
        match kind {
            "file" => std::fs::write(&socket, "precious").unwrap(),
            "directory" => std::fs::create_dir(&socket).unwrap(),
            _ => symlink(directory.path().join("nowhere"), &socket).unwrap(),
        }
        let error = Listener::bind(&socket).unwrap_err();
        assert!(matches!(error, BindError::NotASocket { .. }), "{kind}: {error}");
        assert!(std::fs::symlink_metadata(&socket).is_ok(), "{kind}");
    }
}

#[tokio::test]
async fn a_link_to_a_socket_is_neither_followed_nor_removed_whether_that_one_lives_or_not() {
    let (directory, socket) = private();
    let target = directory.path().join("target.sock");
    symlink(&target, &socket).unwrap();
    let mut live = Some(std::os::unix::net::UnixListener::bind(&target).unwrap());
    for what in ["alive", "stale"] {
        let error = Listener::bind(&socket).unwrap_err();
        assert!(matches!(error, BindError::NotASocket { .. }), "{what}: {error}");
        assert!(std::fs::read_link(&socket).unwrap() == target && target.exists(), "{what}");
        drop(live.take());
    }
}

#[tokio::test]
async fn a_socket_that_somebody_without_our_lock_listens_on_is_left_alone() {
    let (_directory, socket) = private();
    // As a service manager's socket unit, whose service does not run at the moment.
    let theirs = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = Listener::bind(&socket).unwrap_err();
    assert!(matches!(error, BindError::Held { .. }), "{error}");
    assert!(error.hint().unwrap().contains("socket unit"));
    // Also with a full queue, into which nobody can be put to find out.
    theirs.set_nonblocking(true).unwrap();
    nix::sys::socket::listen(&theirs, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let socket = socket.clone();
            std::thread::spawn(move || std::os::unix::net::UnixStream::connect(socket).map(drop))
        })
        .collect();
    let error = Listener::bind(&socket).unwrap_err();
    assert!(matches!(error, BindError::Held { .. }), "{error}");
    drop(theirs);
    waiting.into_iter().for_each(|one| drop(one.join().unwrap()));
    // And gone, it is a stale one as any other.
    Listener::bind(&socket).unwrap();
}

#[tokio::test]
async fn a_directory_that_nothing_can_be_made_in_is_said_so() {
    // For root too, whom no mode keeps from writing.
    #[cfg(target_os = "linux")]
    {
        let error = Listener::bind(Path::new("/proc/self/map_files/runner.sock")).unwrap_err();
        assert!(matches!(error, BindError::Lock { .. }), "{error}");
        assert!(error.hint().unwrap().contains("write"));
    }
    if !nix::unistd::geteuid().is_root() {
        let (directory, socket) = private();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o500)).unwrap();
        let error = Listener::bind(&socket).unwrap_err();
        assert!(matches!(error, BindError::Lock { .. }), "{error}");
        let error = Listener::bind(&directory.path().join("deeper/runner.sock")).unwrap_err();
        assert!(matches!(error, BindError::CreateDirectory { .. }), "{error}");
        assert!(error.hint().unwrap().contains("write"));
    }
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_said_so() {
    let (directory, _) = private();
    let error = Listener::bind(&directory.path().join("x".repeat(120))).unwrap_err();
    assert!(matches!(error, BindError::PathTooLong { .. }), "{error}");
    assert!(error.to_string().contains(&MAX_SOCKET_PATH.to_string()));
}

#[tokio::test]
async fn a_listener_removes_no_socket_that_took_the_place_of_its_own() {
    let (_directory, socket) = private();
    let listener = Listener::bind(&socket).unwrap();
    std::fs::remove_file(&socket).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    drop(listener);
    assert!(socket.exists());
    drop(other);
}

#[tokio::test]
async fn of_many_starts_at_once_one_wins() {
    let (_directory, socket) = private();
    for _ in 0..20 {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let socket = socket.clone();
                tokio::task::spawn_blocking(move || Listener::bind(&socket))
            })
            .collect();
        let mut listeners = Vec::new();
        for start in starts {
            match start.await.unwrap() {
                Ok(listener) => listeners.push(listener),
                Err(error) => assert!(matches!(error, BindError::InUse { .. }), "{error}"),
            }
        }
        assert_eq!(listeners.len(), 1);
        tokio::net::UnixStream::connect(&socket).await.unwrap();
    }
}
