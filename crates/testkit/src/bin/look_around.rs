//! Prints, as one JSON object, what a command sees and may do. Arguments: `read=PATH`, `write=DIRECTORY` and
//! `connect=PORT` say what else to try.

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, File};
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use serde_json::{Map, Value, json};

    /// 0, or the error number.
    fn errno<T>(result: io::Result<T>) -> i32 {
        result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |_| 0)
    }

    fn call(code: i64) -> i32 {
        errno(if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
    }

    fn lines(path: &str) -> Vec<String> {
        fs::read_to_string(path).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default()
    }

    pub(crate) fn report() -> Value {
        // First, while nothing of its own is open.
        let fds = open_descriptors();
        let mut report = Map::from_iter([
            ("fds".into(), json!(fds)),
            ("env".into(), std::env::vars().map(|(name, value)| (name, Value::from(value))).collect()),
            ("pid".into(), json!(std::process::id())),
            ("status".into(), status()),
            ("mounts".into(), json!(lines("/proc/self/mountinfo"))),
            ("interfaces".into(), interfaces()),
            ("pid_one".into(), pid_one()),
            ("refused".into(), refused()),
            ("own_loopback".into(), json!(errno(own_loopback()))),
            ("root_entries".into(), names("/")),
            ("tmp_entries".into(), names("/tmp")),
            ("controlling_terminal".into(), json!(errno(File::open("/dev/tty")))),
        ]);
        for argument in std::env::args().skip(1) {
            let outcome = match argument.split_once('=') {
                // Root may search what it may not read, so a read is tried for real.
                Some(("read", path)) if fs::metadata(path).is_ok_and(|found| found.is_dir()) => {
                    errno(fs::read_dir(path))
                }
                Some(("read", path)) => match fs::read(path) {
                    Ok(bytes) if bytes.is_empty() => -2,
                    result => errno(result),
                },
                Some(("write", directory)) => errno(fs::write(format!("{directory}/look_around.probe"), "x")),
                Some(("connect", port)) => errno(connect(port)),
                _ => -3,
            };
            report.insert(argument, outcome.into());
        }
        report.into()
    }

    fn open_descriptors() -> Vec<i32> {
        // SAFETY: F_GETFD takes no argument and changes nothing.
        (0..1024).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0).collect()
    }

    fn status() -> Value {
        let wanted =
            ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "SigBlk", "SigIgn", "Groups"];
        let pairs = lines("/proc/self/status").into_iter().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            wanted.contains(&name).then(|| (name.to_owned(), Value::from(value.trim())))
        });
        pairs.collect()
    }

    fn interfaces() -> Value {
        let names =
            lines("/proc/net/dev").into_iter().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
        json!(names.collect::<Vec<_>>())
    }

    fn names(directory: &str) -> Value {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        json!(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>())
    }

    /// What of pid 1 can be looked into.
    fn pid_one() -> Value {
        let read = |name: &str| errno(fs::read(format!("/proc/1/{name}")));
        let link = |name: &str| errno(fs::read_link(format!("/proc/1/{name}")));
        let files = ["environ", "maps", "auxv", "stack", "syscall"].map(|name| (name.to_owned(), json!(read(name))));
        let links = ["exe", "cwd", "root"].map(|name| (name.to_owned(), json!(link(name))));
        // Its first page cannot be read by anybody, so being able to open it is enough.
        let memory = ("mem".to_owned(), json!(errno(File::open("/proc/1/mem"))));
        // Root may list the numbers; what they stand for is what matters.
        let best = (0..64).map(|number| link(&format!("fd/{number}"))).min();
        let descriptors = ("fd".to_owned(), json!(best));
        files.into_iter().chain(links).chain([memory, descriptors]).collect()
    }

    /// Calls that build sandboxes, reach kernel code or push characters, with their error numbers.
    fn refused() -> Value {
        let nothing = std::ptr::null::<libc::c_char>();
        let letter = b'x';
        // SAFETY: plain numbers, null pointers where the kernel takes them, and one byte that lives here.
        let outcomes = unsafe {
            [
                ("unshare_user", call(libc::unshare(libc::CLONE_NEWUSER).into())),
                ("unshare_mount", call(libc::unshare(libc::CLONE_NEWNS).into())),
                ("unshare_pid", call(libc::unshare(libc::CLONE_NEWPID).into())),
                ("unshare_net", call(libc::unshare(libc::CLONE_NEWNET).into())),
                ("mount", call(libc::mount(nothing, c"/tmp".as_ptr(), c"tmpfs".as_ptr(), 0, nothing.cast()).into())),
                ("umount", call(libc::umount2(c"/tmp".as_ptr(), libc::MNT_DETACH).into())),
                ("chroot", call(libc::chroot(c"/tmp".as_ptr()).into())),
                ("clone3", call(libc::syscall(libc::SYS_clone3, nothing, 0))),
                ("io_uring", call(libc::syscall(libc::SYS_io_uring_setup, 1, nothing))),
                ("bpf", call(libc::syscall(libc::SYS_bpf, 0, nothing, 0))),
                ("keyctl", call(libc::syscall(libc::SYS_keyctl, 0, -3, 0))),
                ("raw_socket", call(libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).into())),
                ("packet_socket", call(libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0).into())),
                ("vsock", call(libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).into())),
                ("tiocsti", call(libc::ioctl(0, libc::TIOCSTI, &raw const letter).into())),
            ]
        };
        outcomes.into_iter().map(|(name, errno)| (name.to_owned(), json!(errno))).collect()
    }

    fn own_loopback() -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        if server.as_raw_fd() == client.as_raw_fd() { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }

    fn connect(port: &str) -> io::Result<()> {
        let port: u16 = port.parse().map_err(io::Error::other)?;
        TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(2)).map(drop)
    }
}

#[cfg(target_os = "linux")]
fn main() {
    use std::io::Write;

    std::io::stdout().write_all(linux::report().to_string().as_bytes()).expect("to write");
}

#[cfg(not(target_os = "linux"))]
fn main() {}
