//! The second means: a cgroup v2 leaf for each process, where the host lets the Runner make one.
//!
//! A root joins its leaf before its first instruction, so everything it starts is in it. `cgroup.kill` ends all of that at
//! once, however fast it forks, and `populated 0` in `cgroup.events` is a proof of its own. Neither needs a controller, so
//! a hybrid host will do.
//!
//! ```text
//! <cgroup of the Runner>/codespace-runner.<pid>.<start time>/     one per Runner, held by a lock
//!                          <process id>/                          one per process, removed at its end
//! ```
//!
//! The lock says whether a Runner lives, also across PID namespaces: what a dead one left is swept by the next. Where no
//! leaf can be made (an ordinary user without a delegated subtree) there is none, and the other means stand alone.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use codespace_domain::ProcessId;
use nix::fcntl::{Flock, FlockArg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::fault::{self, Fault};
use crate::proc_stat::Stat;
use crate::sys::async_fd::async_fd;

const PREFIX: &str = "codespace-runner.";

/// A Runner's own subtree.
pub(crate) struct Cgroups {
    directory: PathBuf,
    /// Held for as long as the Runner lives; the kernel lets go of it however that ends.
    _lock: Flock<File>,
}

impl Cgroups {
    /// Makes the Runner's subtree, after sweeping what dead Runners have left beside it. `None` where it cannot be had.
    pub(crate) fn open() -> Option<Self> {
        if fault::on(Fault::NoCgroup) {
            return None;
        }
        let base = own_cgroup()?;
        sweep(&base);
        let pid = i32::try_from(std::process::id()).ok()?;
        let start = Stat::of_process(pid)?.start_time;
        // One process may hold several Runners.
        (0..64).find_map(|number| Self::make(&base.join(format!("{PREFIX}{pid}.{start}.{number}"))).ok())
    }

    fn make(directory: &Path) -> io::Result<Self> {
        fs::create_dir(directory)?;
        let lock = lock(directory).map_err(io::Error::from)?;
        // A sweep between the two would have taken it for a dead Runner's.
        let (named, held) = (fs::metadata(directory)?, lock.metadata()?);
        if named.ino() != held.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let cgroups = Self { directory: directory.to_owned(), _lock: lock };
        // Tried for real: a kernel without cgroup.kill, or a host that forbids moves, is of no use.
        let trial = cgroups.directory.join("trial");
        fs::create_dir(&trial)?;
        let usable = trial.join("cgroup.kill").exists() && trial.join("cgroup.events").exists();
        fs::remove_dir(&trial)?;
        if usable { Ok(cgroups) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// A leaf for one process.
    pub(crate) fn leaf(&self, process: ProcessId) -> io::Result<Leaf> {
        let directory = self.directory.join(process.to_string());
        fs::create_dir(&directory)?;
        Ok(Leaf { directory })
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // A leaf that is still there belongs to a tree that was not seen gone. It is ended by now, or a moment later.
        for _ in 0..20 {
            remove_leaves(&self.directory);
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        tracing::debug!(cgroup = %self.directory.display(), "left for the next Runner to sweep");
    }
}

fn remove_leaves(directory: &Path) {
    let leaves = fs::read_dir(directory).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    leaves.for_each(|leaf| drop(Leaf { directory: leaf.path() }));
}

/// One process's cgroup. Dropping it ends what is left in it and removes it.
#[derive(Debug)]
pub(crate) struct Leaf {
    directory: PathBuf,
}

impl Leaf {
    /// Its directory, to start a process in.
    pub(crate) fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(File::open(&self.directory)?.into())
    }

    /// SIGKILL to everything in it, in one step that no fork slips through.
    pub(crate) fn kill(&self) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.kill"), "1")
    }

    /// Waits for it to be empty.
    pub(crate) fn watch(&self) -> io::Result<Events> {
        let events: OwnedFd = File::open(self.directory.join("cgroup.events"))?.into();
        Ok(Events(async_fd(events, Interest::PRIORITY)?))
    }

    /// What everything that was ever in it has used: user and system time in milliseconds.
    pub(crate) fn cpu_ms(&self) -> Option<(u64, u64)> {
        let stat = fs::read_to_string(self.directory.join("cpu.stat")).ok()?;
        let field = |name: &str| {
            let value = stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())?;
            Some(value / 1000)
        };
        Some((field("user_usec ")?, field("system_usec ")?))
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        match fs::remove_dir(&self.directory) {
            Ok(()) => {}
            // Something is still in it. Ended here; a later sweep removes the directory.
            Err(_) => drop(self.kill()),
        }
    }
}

/// `cgroup.events` of a leaf.
pub(crate) struct Events(AsyncFd<OwnedFd>);

impl Events {
    /// Resolves when no live process is in the leaf.
    pub(crate) async fn empty(&self) -> io::Result<()> {
        loop {
            // The read arms the next notice, so a change after it is not missed.
            if !populated(self.0.get_ref())? {
                return Ok(());
            }
            self.0.ready(Interest::PRIORITY).await?.clear_ready();
        }
    }
}

fn populated(events: &OwnedFd) -> io::Result<bool> {
    let mut text = String::new();
    let mut file = File::from(events.as_fd().try_clone_to_owned()?);
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    Ok(text.lines().any(|line| line == "populated 1"))
}

/// The directory of the cgroup that this process is in.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount)?;
    // Where the mount shows only a part of the hierarchy, as in a container, the path starts at that part.
    let below = Path::new(path).strip_prefix(root).or_else(|_| Path::new(path).strip_prefix("/")).ok()?;
    let directory = Path::new(mount).join(below);
    directory.join("cgroup.procs").exists().then_some(directory)
}

/// Root and mount point of a line of mountinfo that is about cgroup2.
fn cgroup2_mount(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ');
    let root = fields.nth(3)?;
    let mount = fields.next()?;
    after.starts_with("cgroup2 ").then_some((root, mount))
}

/// Ends and removes what Runners have left that do not live any more.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let runners =
        entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    for directory in runners.map(|entry| entry.path()) {
        let Ok(_lock) = lock(&directory) else { continue };
        tracing::info!(cgroup = %directory.display(), "sweeping what a dead Runner has left");
        remove_leaves(&directory);
        // What was just killed takes a moment; the next Runner finds the rest.
        drop(fs::remove_dir(&directory));
    }
}

fn lock(directory: &Path) -> nix::Result<Flock<File>> {
    let file = File::open(directory).map_err(|_| nix::Error::ENOENT)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_in_mountinfo() {
        let hybrid = "42 31 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(cgroup2_mount(hybrid), Some(("/", "/sys/fs/cgroup/unified")));
        let part = "42 31 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(cgroup2_mount(part), Some(("/docker/abc", "/sys/fs/cgroup")));
        assert_eq!(cgroup2_mount("42 31 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(cgroup2_mount("nonsense"), None);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process of its own")]
    async fn a_leaf_is_entered_killed_seen_empty_and_removed() {
        let Some(cgroups) = Cgroups::open() else {
            // Only root is sure to have a subtree; that it cannot be had elsewhere is no fault.
            assert!(
                !nix::unistd::geteuid().is_root() || own_cgroup().is_none(),
                "root has a cgroup2 and no leaf in it"
            );
            return;
        };
        let leaf = cgroups.leaf(ProcessId::mint()).unwrap();
        let events = leaf.watch().unwrap();
        events.empty().await.unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(leaf.directory.join("cgroup.procs"), child.id().to_string()).unwrap();
        assert!(populated(events.0.get_ref()).unwrap());
        let emptied = tokio::spawn(async move { events.empty().await });
        leaf.kill().unwrap();
        emptied.await.unwrap().unwrap();
        child.wait().unwrap();
        let directory = leaf.directory.clone();
        drop(leaf);
        assert!(!directory.exists());
        let own = cgroups.directory.clone();
        // A Runner that lives is not swept by another.
        let other = Cgroups::open().unwrap();
        assert!(own.exists());
        drop(other);
        drop(cgroups);
        assert!(!own.exists());
    }
}
