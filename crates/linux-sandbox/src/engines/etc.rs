//! What must not be seen of a directory of which only the public part is shown.
//!
//! Inside, the command has the Runner's own uid (root's, if that is root), so a file that only its owner may read would
//! be readable to it. Whatever others may not read is therefore covered.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A path to be covered, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mask {
    Directory(PathBuf),
    File(PathBuf),
    /// There is nothing at the path.
    Nothing,
}

impl Mask {
    /// Covers whatever is at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Ok(Self::Directory(path.to_owned())),
            Ok(_) => Ok(Self::File(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Everything below `root` that others may not read. Links are left alone: what they lead to is judged where it lies.
pub(super) fn masks(root: &Path) -> io::Result<Vec<Mask>> {
    let mut masks = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            // Gone since it was listed, or closed to this uid: then to the command as well.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let found = match fs::symlink_metadata(&path) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mode = found.mode();
            if found.is_symlink() {
            } else if found.is_dir() {
                if mode & 0o005 == 0o005 {
                    directories.push(path);
                } else {
                    masks.push(Mask::Directory(path));
                }
            } else if mode & 0o004 == 0 {
                masks.push(Mask::File(path));
            }
        }
    }
    masks.sort_by(|a, b| a.path().cmp(&b.path()));
    Ok(masks)
}

impl Mask {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) | Self::File(path) => Some(path),
            Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_not_read_is_covered_and_the_rest_is_not() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let shadow = make("shadow", 0o640);
        make("passwd", 0o644);
        let nested = make("open/deep/key", 0o600);
        make("closed/inside", 0o644);
        let closed = root.path().join("closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&shadow, root.path().join("link")).unwrap();

        assert_eq!(masks(root.path()).unwrap(), [Mask::Directory(closed), Mask::File(nested), Mask::File(shadow)]);
    }
}
