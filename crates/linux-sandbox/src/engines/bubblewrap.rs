//! The engine `bubblewrap`: turns the view into bwrap's options.
//!
//! bwrap becomes the first process of the outer PID namespace (`crate::first_process`). It creates the innermost
//! namespaces itself and starts the inner stage as their first process, so that the command, as a child of that, can
//! neither stop nor kill it.
//!
//! The order of the options is the order of the mounts, and a later one lies on top of an earlier one:
//! 1. `/proc`, `/dev` (with its own `/dev/shm`), a private `/tmp`: first, so that a workspace below `/tmp` lies on top.
//!    What changes the machine through `/proc` is read-only: it asks for the uid, not for a capability, and inside root's
//!    uid is root's. (bubblewrap covers it itself only as far as it finds it writable, which it does not as a rule.)
//! 2. The view's rules, parents before what is below them.
//! 3. The stand-ins and the root itself, an empty tmpfs, become read-only last, when all mount points in them exist: a
//!    write to where nothing is fails instead of vanishing.
//!
//! The options travel in a memfd (`--args`), not in argv: argv is bounded, and everyone on the host can read it. The inner
//! stage is this very program, run through an open descriptor, so that it has no path inside.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use codespace_linux_sandbox_protocol::{Access, Network, Rule, StageFailure, View};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Prepared;
use super::etc::{self, Mask};
use super::exec::{self, Exec, Program, c_string, failure, memfd, own_program};

pub(super) fn prepare(program: &Path, view: &View, network: Network) -> Result<Prepared, StageFailure> {
    let options =
        options(view, network, &|path| etc::masks(path).map_err(|e| failure(&format!("look at {path:?}"), &e)))?;
    let options = memfd("bwrap-args", &nul_terminated(&options))?;
    let inner = own_program()?;
    let said = memfd_create("bwrap-stderr", MFdFlags::MFD_CLOEXEC).map_err(|e| failure("make a memfd", &e.into()))?;
    let stderr = said.try_clone().map_err(|e| failure("copy a descriptor", &e))?;
    let argv: Vec<CString> = vec![
        c"bwrap".into(),
        c"--args".into(),
        c_string(options.as_raw_fd().to_string())?,
        c"--".into(),
        c_string(format!("/proc/self/fd/{}", inner.as_raw_fd()))?,
        c"inner".into(),
    ];
    Ok(Prepared {
        exec: Exec {
            before: Some(exec::own_proc),
            program: Program::Path(c_string(program)?),
            argv,
            keep: vec![options, inner],
            stderr: Some(stderr),
        },
        namespaces: libc::CLONE_NEWPID | libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
        said: Some(said),
    })
}

/// The whole list of options. `masks` says what of a [`Access::ReadPublic`] path has to be hidden.
fn options(
    view: &View,
    network: Network,
    masks: &dyn Fn(&Path) -> Result<Vec<Mask>, StageFailure>,
) -> Result<Vec<OsString>, StageFailure> {
    let mut list = Options::default();
    // Its own of everything. Capabilities are dropped by name: for root bwrap would keep them.
    list.add(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    match network {
        // Brings the new namespace's loopback up, and nothing else is in it.
        Network::Isolated => list.add(["--unshare-net"]),
        Network::Host => {}
    }
    list.add(["--as-pid-1", "--cap-drop", "ALL"]);
    list.add(["--proc", "/proc"]);
    for path in MACHINE_WIDE {
        list.add(["--ro-bind-try", path, path]);
    }
    list.add(["--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]);
    for Rule { path, access } in &view.rules {
        let path = path.as_path();
        match access {
            Access::Read => list.bind("--ro-bind", path),
            Access::Write => list.bind("--bind", path),
            Access::Deny => {
                let mask = Mask::of(path).map_err(|e| failure(&format!("look at {path:?}"), &e))?;
                let way_through = view.rules.iter().any(|other| is_below(other, path));
                list.mask(&mask, if way_through { "0111" } else { "0000" });
            }
            Access::Symlink { target } => list.add([OsStr::new("--symlink"), target.as_os_str(), path.as_os_str()]),
            Access::ReadPublic => {
                list.bind("--ro-bind", path);
                for mask in masks(path)? {
                    list.mask(&mask, "0000");
                }
            }
        }
    }
    for path in std::mem::take(&mut list.read_only_at_the_end) {
        list.add([OsStr::new("--remount-ro"), path.as_os_str()]);
    }
    list.add(["--remount-ro", "/", "--chdir", "/"]);
    Ok(list.words)
}

/// Of `/proc`: what belongs to the machine and not to a process.
const MACHINE_WIDE: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Something is shown below `path`, so there must be a way through.
fn is_below(rule: &Rule, path: &Path) -> bool {
    rule.access != Access::Deny && rule.path.as_path() != path && rule.path.as_path().starts_with(path)
}

#[derive(Default)]
struct Options {
    words: Vec<OsString>,
    read_only_at_the_end: Vec<PathBuf>,
}

impl Options {
    fn add<T: AsRef<OsStr>, const N: usize>(&mut self, words: [T; N]) {
        self.words.extend(words.iter().map(|word| word.as_ref().to_owned()));
    }

    fn bind(&mut self, how: &str, path: &Path) {
        self.add([OsStr::new(how), path.as_os_str(), path.as_os_str()]);
    }

    /// A stand-in: an empty directory with these permissions, or a device on a mount where devices cannot be opened.
    fn mask(&mut self, mask: &Mask, permissions: &str) {
        match mask {
            Mask::Directory(path) => {
                self.add([OsStr::new("--perms"), OsStr::new(permissions), OsStr::new("--tmpfs"), path.as_os_str()]);
                self.read_only_at_the_end.push(path.clone());
            }
            Mask::File(path) => self.add([OsStr::new("--ro-bind"), OsStr::new("/dev/null"), path.as_os_str()]),
            Mask::Nothing => {}
        }
    }
}

/// The form that `--args` reads.
fn nul_terminated(options: &[OsString]) -> Vec<u8> {
    options.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn rule(path: &str, access: Access) -> Rule {
        Rule { path: path.into(), access }
    }

    fn text(view: &View, network: Network, masks: &dyn Fn(&Path) -> Result<Vec<Mask>, StageFailure>) -> String {
        let words: Vec<String> =
            options(view, network, masks).unwrap().iter().map(|w| w.to_str().unwrap().to_owned()).collect();
        words.join(" ").replace(" --", "\n--")
    }

    #[test]
    fn the_whole_list_of_options_is_as_recorded() {
        let view = View {
            rules: vec![
                rule("/bin", Access::Symlink { target: "usr/bin".into() }),
                rule("/etc", Access::ReadPublic),
                rule("/usr", Access::Read),
                rule("/srv/demo", Access::Write),
                rule("/dev/null", Access::Deny),
                rule("/proc/sys", Access::Deny),
                rule("/proc/sys/kernel", Access::Read),
            ],
        };
        let masks = |path: &Path| {
            assert_eq!(path, Path::new("/etc"));
            Ok(vec![Mask::File("/etc/shadow".into()), Mask::Directory("/etc/ssl/private".into())])
        };
        let expected = "--unshare-user
--unshare-pid
--unshare-ipc
--unshare-uts
--unshare-net
--as-pid-1
--cap-drop ALL
--proc /proc
--ro-bind-try /proc/sys /proc/sys
--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
--ro-bind-try /proc/irq /proc/irq
--ro-bind-try /proc/bus /proc/bus
--ro-bind-try /proc/fs /proc/fs
--dev /dev
--perms 1777
--tmpfs /tmp
--symlink usr/bin /bin
--ro-bind /etc /etc
--ro-bind /dev/null /etc/shadow
--perms 0000
--tmpfs /etc/ssl/private
--ro-bind /usr /usr
--bind /srv/demo /srv/demo
--ro-bind /dev/null /dev/null
--perms 0111
--tmpfs /proc/sys
--ro-bind /proc/sys/kernel /proc/sys/kernel
--remount-ro /etc/ssl/private
--remount-ro /proc/sys
--remount-ro /
--chdir /";
        assert_eq!(text(&view, Network::Isolated, &masks), expected);
    }

    #[test]
    fn the_host_network_is_joined_only_when_the_plan_says_so() {
        let none = |_: &Path| Ok(Vec::new());
        assert!(!text(&View { rules: vec![] }, Network::Host, &none).contains("--unshare-net"));
        assert!(text(&View { rules: vec![] }, Network::Isolated, &none).contains("--unshare-net"));
    }

    #[test]
    fn options_are_handed_over_with_nul_after_each() {
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        assert_eq!(nul_terminated(&[odd, "".into()]), b"a\xff\0\0");
    }
}
