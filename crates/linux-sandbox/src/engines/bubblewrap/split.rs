//! What of a view is staged, and which options are left for bubblewrap. Pure: this is where the mount order is decided, and
//! its tests compare whole lists.
//!
//! A later mount lies on top of an earlier one, so the order is the meaning:
//! 1. What a rule shows at `/` itself: everything else lies on top of it, also `/proc` and `/dev`, which no rule changes.
//! 2. `/proc`, `/dev` (with its own `/dev/shm`), and, unless a rule shows `/`, a private `/tmp`: before all other rules, so
//!    that a workspace below `/tmp` lies on top. What changes the machine through `/proc` is read-only: it asks for the uid, not for a capability, and
//!    inside root's uid is root's. (bubblewrap covers it itself only as far as it finds it writable, which it does not as a
//!    rule.)
//! 3. The view's rules, parents before what is below them.
//! 4. The stand-ins and the root itself, an empty tmpfs, become read-only last, when all mount points in them exist: a
//!    write to where nothing is fails instead of vanishing.
//!
//! [`staged`] gives all but `/proc` and `/dev` to the staging, and bubblewrap binds the result at `/`, once. Only it can
//! make those two, since they belong to the innermost namespaces; rules below them go on top, as options, and those below
//! `/dev/shm` as a second staged tree. [`arguments_only`] gives everything to bubblewrap, for kernels that cannot stage:
//! it reads all mounts anew for each option, and takes 9,000 words at most.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::{Network, Stage, StageFailure};

use super::entries::{Entry, Shown};

/// bubblewrap's own bound (`MAX_ARGS`).
const MOST_WORDS: usize = 9000;

/// Of `/proc`: what belongs to the machine and not to a process.
const MACHINE_WIDE: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

const SHM: &str = "/dev/shm";

/// What the staging makes; see `super::staging`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staged {
    /// A directory that exists and that bubblewrap, too, covers. The staged trees are its `root` and its `shm`.
    pub(super) at: PathBuf,
    /// In their order; the first may be `/` itself.
    pub(super) root: Vec<Entry>,
    /// Those below `/dev/shm`.
    pub(super) shm: Vec<Entry>,
}

impl Staged {
    /// What is shown at `/` itself: it takes the place of the empty root and of the private `/tmp`.
    pub(super) fn rule_for_root(&self) -> Option<&Entry> {
        self.root.first().filter(|entry| is_root(entry))
    }
}

/// All but `/proc` and `/dev` is staged at `at`.
pub(super) fn staged(entries: Vec<Entry>, network: Network, at: &Path) -> (Staged, Vec<OsString>) {
    let mut staged = Staged { at: at.to_owned(), root: Vec::new(), shm: Vec::new() };
    let mut left = Vec::new();
    // A rule about the directory itself would cover, or be covered by, what is staged for it.
    let shm_is_its_own = !entries.iter().any(|entry| Path::new(SHM).starts_with(&entry.path) && !is_root(entry));
    for entry in entries {
        if shm_is_its_own && entry.path.starts_with(SHM) {
            staged.shm.push(entry);
        } else if entry.path.starts_with("/proc") || entry.path.starts_with("/dev") {
            left.push(entry);
        } else {
            staged.root.push(entry);
        }
    }
    let mut list = Options::namespaces(network);
    list.bind("--bind", &at.join("root"), Path::new("/"));
    list.proc_and_dev();
    if !staged.shm.is_empty() {
        list.bind("--bind", &at.join("shm"), Path::new(SHM));
    }
    left.iter().for_each(|entry| list.entry(entry));
    (staged, list.end(false))
}

/// Nothing is staged. Refused when bubblewrap would refuse it.
pub(super) fn arguments_only(entries: &[Entry], network: Network) -> Result<Vec<OsString>, StageFailure> {
    let mut list = Options::namespaces(network);
    let (root, rest): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| is_root(entry));
    root.iter().for_each(|entry| list.entry(entry));
    list.proc_and_dev();
    if root.is_empty() {
        list.add(["--perms", "1777", "--tmpfs", "/tmp"]);
    }
    rest.iter().for_each(|entry| list.entry(entry));
    let words = list.end(root.is_empty());
    if words.len() > MOST_WORDS {
        return Err(StageFailure {
            stage: Stage::Sandbox,
            errno: Some(libc::ENOSYS),
            message: format!(
                "show a view of {} mounts: as arguments they are more than the {MOST_WORDS} that bubblewrap takes, and this \
                 kernel or container lacks the calls to build it otherwise (open_tree, move_mount, mount_setattr; Linux 5.12)",
                entries.len()
            ),
        });
    }
    Ok(words)
}

/// Something of the host is shown at `/`.
fn is_root(entry: &Entry) -> bool {
    entry.path == Path::new("/") && matches!(entry.shown, Shown::ReadOnly | Shown::Writable)
}

#[derive(Default)]
struct Options {
    words: Vec<OsString>,
    read_only_at_the_end: Vec<PathBuf>,
}

impl Options {
    /// Its own of everything. Capabilities are dropped by name: for root bwrap would keep them.
    fn namespaces(network: Network) -> Self {
        let mut list = Self::default();
        list.add(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        match network {
            // Brings the new namespace's loopback up, and nothing else is in it.
            Network::Isolated => list.add(["--unshare-net"]),
            Network::Host => {}
        }
        list.add(["--as-pid-1", "--cap-drop", "ALL"]);
        list
    }

    fn proc_and_dev(&mut self) {
        self.add(["--proc", "/proc"]);
        for path in MACHINE_WIDE {
            self.add(["--ro-bind-try", path, path]);
        }
        self.add(["--dev", "/dev"]);
    }

    fn entry(&mut self, Entry { path, shown }: &Entry) {
        match shown {
            Shown::ReadOnly => self.bind("--ro-bind", path, path),
            Shown::Writable => self.bind("--bind", path, path),
            Shown::Link { target } => self.add([OsStr::new("--symlink"), target.as_os_str(), path.as_os_str()]),
            Shown::EmptyDirectory { way_through, .. } => {
                let permissions = OsStr::new(if *way_through { "0111" } else { "0000" });
                self.add([OsStr::new("--perms"), permissions, OsStr::new("--tmpfs"), path.as_os_str()]);
                self.read_only_at_the_end.push(path.clone());
            }
            // A device on a mount where devices cannot be opened.
            Shown::EmptyFile => self.bind("--ro-bind", Path::new("/dev/null"), path),
        }
    }

    fn end(mut self, root_is_a_tmpfs: bool) -> Vec<OsString> {
        for path in std::mem::take(&mut self.read_only_at_the_end) {
            self.add([OsStr::new("--remount-ro"), path.as_os_str()]);
        }
        if root_is_a_tmpfs {
            self.add(["--remount-ro", "/"]);
        }
        self.add(["--chdir", "/"]);
        self.words
    }

    fn add<T: AsRef<OsStr>, const N: usize>(&mut self, words: [T; N]) {
        self.words.extend(words.iter().map(|word| word.as_ref().to_owned()));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.add([OsStr::new(how), from.as_os_str(), to.as_os_str()]);
    }
}

#[cfg(test)]
mod tests;
