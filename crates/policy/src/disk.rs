//! The real disk. The only file of this crate that does I/O: it asks the kernel and decides nothing.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::facts::ENOENT;
use crate::{Disk, Errno, Kind, Registry, RegistryError};

/// A registry file is not larger, in bytes.
const MAX_REGISTRY: u64 = 16 * 1024 * 1024;

/// The file system of this host, and the home directory of the user that this process runs as.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostDisk;

impl Disk for HostDisk {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        let metadata = path.symlink_metadata().map_err(errno_of)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            Ok(Kind::Dir)
        } else if kind.is_file() {
            Ok(Kind::File { links: metadata.nlink() })
        } else if kind.is_symlink() {
            Ok(Kind::Link { target: path.read_link().map_err(errno_of)? })
        } else {
            Ok(Kind::Other)
        }
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| home.is_absolute())
    }
}

impl Registry {
    /// Reads and checks the registry file at `path`. The error names the key that is wrong, or says why the file cannot be
    /// read.
    pub fn load(path: &Path) -> Result<Self, RegistryError> {
        let unreadable = |e: io::Error| RegistryError::file(format!("read {}: {e}", path.display()));
        let size = path.metadata().map_err(unreadable)?.len();
        if size > MAX_REGISTRY {
            return Err(RegistryError::file(format!("read {}: larger than {MAX_REGISTRY} bytes", path.display())));
        }
        let text = std::fs::read(path).map_err(unreadable)?;
        let text = String::from_utf8(text)
            .map_err(|e| RegistryError::file(format!("read {}: no UTF-8: {}", path.display(), e.utf8_error())))?;
        Self::from_json(&text, &HostDisk)
    }
}

/// A path with a NUL byte has no error number of the kernel's; nothing can be there.
fn errno_of(error: io::Error) -> Errno {
    error.raw_os_error().unwrap_or(ENOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_directories_files_links_and_nothing_apart() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("one"), "x").unwrap();
        std::fs::hard_link(at("one"), at("two")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
        assert_eq!(HostDisk.kind(dir.path()), Ok(Kind::Dir));
        assert_eq!(HostDisk.kind(&at("two")), Ok(Kind::File { links: 2 }));
        assert_eq!(HostDisk.kind(&at("link")), Ok(Kind::Link { target: "nowhere".into() }));
        assert_eq!(HostDisk.kind(Path::new("/dev/null")), Ok(Kind::Other));
        assert_eq!(HostDisk.kind(&at("none")), Err(2));
        assert_eq!(HostDisk.kind(&at("one/below")), Err(20));
        assert_eq!(HostDisk.kind(Path::new("a\0b")), Err(2));
    }

    #[test]
    fn a_registry_file_is_read_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("registry.json");
        let text = serde_json::json!({"workspaces": {"demo": {"root": dir.path()}}}).to_string();
        std::fs::write(&file, text).unwrap();
        assert_eq!(Registry::load(&file).unwrap().workspaces.len(), 1);
        let missing = dir.path().join("none.json");
        assert!(Registry::load(&missing).unwrap_err().to_string().contains("none.json"));
        std::fs::write(&file, [0xff]).unwrap();
        assert!(Registry::load(&file).unwrap_err().message.contains("no UTF-8"));
    }
}
