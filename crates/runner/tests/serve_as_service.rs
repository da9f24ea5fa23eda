//! `codespace-runner serve` under a service manager: the socket that it is given, and what it tells. The manager is this
//! test, which does what systemd does: a listening socket as descriptor 3, the variables, and a datagram socket to speak to.
#![cfg(target_os = "linux")]

mod cli;

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cli::{Cli, Running};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use serde_json::{Value, json};

/// Where the given socket is, beside which nothing of the Runner's own lies.
fn given_path(cli: &Cli) -> PathBuf {
    cli.ground.private().join("given.sock")
}

fn listening(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("to listen");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("to set its mode");
    listener
}

/// `serve` with these descriptors from 3 on. `pid`: what LISTEN_PID says, as the shell reads it.
fn serve(cli: &Cli, flags: &[&str], given: Vec<OwnedFd>, pid: &str) -> Command {
    let words: Vec<&str> = ["serve", "--json"].iter().chain(flags).copied().collect();
    let own = cli.command(&words);
    let mut command = Command::new("/bin/sh");
    // Only after the fork is the pid known, and a shell that becomes the program keeps it.
    command
        .args(["-c", &format!("export LISTEN_PID={pid}; exec \"$@\""), "sh"])
        .arg(own.get_program())
        .args(own.get_args());
    command.current_dir(cli.ground.workspace()).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env_remove("CODESPACE_RUNNER_SOCKET").env("XDG_RUNTIME_DIR", cli.ground.home());
    command.env("LISTEN_FDS", given.len().to_string()).env("LISTEN_FDNAMES", vec!["x"; given.len()].join(":"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let numbers: Vec<RawFd> = given.iter().map(|fd| fd.as_raw_fd()).collect();
    // SAFETY: between fork and exec it makes system calls only; the descriptors live in the closure.
    unsafe {
        command.pre_exec(move || {
            let _keep = &given;
            place(&numbers)
        })
    };
    command
}

/// In the child: what was given gets the numbers from 3 on, without close-on-exec.
fn place(numbers: &[RawFd]) -> std::io::Result<()> {
    let checked = |done: i32| if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(done) };
    let mut high = [0; 4];
    for (copy, number) in high.iter_mut().zip(numbers) {
        // SAFETY: plain numbers. Out of the way first: one may have the number of another's place.
        *copy = checked(unsafe { libc::fcntl(*number, libc::F_DUPFD_CLOEXEC, 100) })?;
    }
    for (place, copy) in (3..).zip(&high[..numbers.len()]) {
        // SAFETY: plain numbers; this child is about to become another program.
        checked(unsafe { libc::dup2(*copy, place) })?;
    }
    Ok(())
}

/// The service manager's ear.
struct Ear(UnixDatagram);

impl Ear {
    fn new(cli: &Cli, command: &mut Command) -> Self {
        let path = cli.ground.private().join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a socket to hear on");
        socket.set_read_timeout(Some(cli::LONG)).expect("a timeout");
        command.env("NOTIFY_SOCKET", path);
        Self(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("a word in time");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

fn at(cli: &Cli, path: &Path, verb: &[&str]) -> cli::Ended {
    let words: Vec<&str> =
        verb[..1].iter().chain(&["--socket", path.to_str().expect("a path")]).chain(&verb[1..]).copied().collect();
    cli.run(&words)
}

/// Who holds this socket, by pid; of those processes that may be looked at.
fn holders(inode: u64) -> Vec<i32> {
    let link = PathBuf::from(format!("socket:[{inode}]"));
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == link)
    };
    pids.filter(holds).collect()
}

fn inode_of(listener: &UnixListener) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(format!("/proc/self/fd/{}", listener.as_raw_fd())).expect("its inode").ino()
}

#[test]
fn a_given_socket_is_served_told_about_kept_from_every_command_and_left_to_its_maker() {
    let Some(mut cli) = Cli::new() else { return };
    let config = cli.ground.private().join("registry.json");
    let secret = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC"];
    let workspace = json!({"root": cli.ground.workspace(), "env": {"inherit": secret}, "sandbox": "none"});
    fs::write(&config, json!({"workspaces": {"default": workspace}}).to_string()).unwrap();
    let path = given_path(&cli);
    let listener = listening(&path);
    let mut command =
        serve(&cli, &["--config", config.to_str().unwrap()], vec![listener.try_clone().unwrap().into()], "$$");
    let ear = Ear::new(&cli, &mut command);
    command.env("WATCHDOG_USEC", "100000");
    let mut serving = Running::start(command);
    cli.ground.survivors.watch_runner(serving.pid());

    let ready = ear.next();
    let lines: Vec<&str> = ready.lines().collect();
    let pid = format!("MAINPID={}", serving.pid());
    assert_eq!(lines, ["READY=1", &format!("STATUS=listening on {}", path.display()), &pid]);
    assert_eq!(ear.next(), "WATCHDOG=1\n");
    assert_eq!(ear.next(), "WATCHDOG=1\n", "again and again");
    serving.wait_for("\n");

    // What it starts has neither the variables nor the descriptor, helper and sandbox included.
    let started = at(&cli, &path, &["start", "--", "sh", "-c", "env; ls /proc/self/fd; echo ready; exec sleep 1000"]);
    let id = started.stdout().trim().to_owned();
    let mut logs = Running::start(cli.command(&["logs", "--socket", path.to_str().unwrap(), "-f", &id]));
    logs.wait_for("ready");
    assert_eq!(holders(inode_of(&listener)), {
        let mut both = [i32::try_from(std::process::id()).unwrap(), serving.pid()];
        both.sort_unstable();
        both
    });
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // A client that looks at who listens sees the Runner, and not who made the socket.
    let peer = getsockopt(&UnixStream::connect(&path).unwrap(), PeerCredentials).unwrap();
    assert_eq!(peer.pid(), serving.pid());

    let stopped = at(&cli, &path, &["stop"]);
    assert_eq!(stopped.code(), 0, "{stopped:?}");
    let said = logs.ended().stdout();
    assert!(said.contains("PATH=") && !secret.iter().any(|name| said.contains(name)), "{said}");
    assert!(said.contains("\n0\n1\n2\n3\nready"), "standard streams, and what ls opens: {said}");
    let mut word = ear.next();
    while word == "WATCHDOG=1\n" {
        word = ear.next();
    }
    assert_eq!(word.lines().next(), Some("STOPPING=1"), "{word}");
    assert_eq!(serving.ended().code(), 0);

    // The socket goes on: who connects now is the next Runner's.
    assert!(path.exists());
    let waiting = UnixStream::connect(&path).expect("a connection into the queue");
    listener.set_nonblocking(true).unwrap();
    drop((waiting, listener.accept().expect("the connection that waits")));
    cli.assert_nothing_is_left("after the stop");
}

#[test]
fn a_service_that_is_stopped_by_a_signal_says_so_before_its_processes_have_ended() {
    let Some(mut cli) = Cli::new() else { return };
    let path = given_path(&cli);
    let listener = listening(&path);
    let mut command = serve(&cli, &[], vec![listener.into()], "$$");
    let ear = Ear::new(&cli, &mut command);
    let mut serving = Running::start(command);
    cli.ground.survivors.watch_runner(serving.pid());
    assert!(ear.next().starts_with("READY=1\n"));
    serving.wait_for("\n");
    // Holds the end up until it was looked at.
    let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let id = at(&cli, &path, &["start", "--grace", "1s", "--", "sh", "-c", script]).stdout().trim().to_owned();
    let mut logs = Running::start(cli.command(&["logs", "--socket", path.to_str().unwrap(), "-f", &id]));
    logs.wait_for("ready");
    serving.signal(libc::SIGTERM);
    let stopping = ear.next();
    assert!(stopping.starts_with("STOPPING=1\nSTATUS="), "{stopping}");
    assert!(serving.lives(), "it was told in time");
    assert_eq!(serving.ended().code(), 0);
    cli.assert_nothing_is_left("after the stop");
    // Its maker is gone by now; the file is not the Runner's to remove all the same.
    assert!(path.exists());
}

#[test]
fn commands_keep_the_descriptor_limit_that_the_runner_was_started_with() {
    let Some(mut cli) = Cli::new() else { return };
    let path = given_path(&cli);
    let mut command = serve(&cli, &[], vec![listening(&path).into()], "$$; ulimit -Sn 300");
    let ear = Ear::new(&cli, &mut command);
    let mut serving = Running::start(command);
    cli.ground.survivors.watch_runner(serving.pid());
    assert!(ear.next().starts_with("READY=1\n"));
    serving.wait_for("\n");
    let limits = fs::read_to_string(format!("/proc/{}/limits", serving.pid())).unwrap();
    let own: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(own[3], own[4], "the Runner's own is raised: {own:?}");
    let id = at(&cli, &path, &["start", "--", "sh", "-c", "ulimit -Sn"]).stdout().trim().to_owned();
    assert_eq!(at(&cli, &path, &["logs", "-f", &id]).stdout(), "300\n");
    assert_eq!(at(&cli, &path, &["stop"]).code(), 0);
    assert_eq!(serving.ended().code(), 0);
}

#[test]
fn anything_but_one_private_listening_unix_stream_socket_is_an_error_with_a_remedy() {
    let Some(cli) = Cli::new() else { return };
    let private = cli.ground.private();
    let open = cli.ground.home().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    let wide = listening(&private.join("wide.sock"));
    fs::set_permissions(private.join("wide.sock"), Permissions::from_mode(0o660)).unwrap();
    let silent = UnixStream::pair().unwrap().0;
    let name = format!("codespace-test-{}", std::process::id());
    let unlisted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    let moved = listening(&private.join("moved.sock"));
    fs::remove_file(private.join("moved.sock")).unwrap();
    let datagram = UnixDatagram::bind(private.join("datagram.sock")).unwrap();
    let two = [listening(&private.join("one.sock")), listening(&private.join("two.sock"))];
    let named = private.join("named.sock");
    let cases: Vec<(Vec<OwnedFd>, &[&str], &str, &str)> = vec![
        (two.into_iter().map(OwnedFd::from).collect(), &[], "gives 2 descriptors", "one ListenStream="),
        (vec![datagram.into()], &[], "no listening Unix stream socket", "ListenStream="),
        (vec![silent.into()], &[], "no listening Unix stream socket", "Accept=no"),
        (
            vec![TcpListener::bind("127.0.0.1:0").unwrap().into()],
            &[],
            "no listening Unix stream socket",
            "ListenStream=",
        ),
        (vec![fs::File::open("/dev/null").unwrap().into()], &[], "no listening Unix stream socket", "ListenStream="),
        (vec![unlisted.into()], &[], "no absolute path", "absolute path"),
        (vec![wide.into()], &[], "0660", "SocketMode=0600"),
        (vec![listening(&open.join("x.sock")).into()], &[], "0755", "DirectoryMode=0700"),
        (vec![moved.into()], &[], "No such file", ""),
        (vec![listening(&named).into()], &["--socket", "/run/other.sock"], "named.sock", "--socket"),
    ];
    for (given, flags, what, remedy) in cases {
        let ended = Running::start(serve(&cli, flags, given, "$$")).ended();
        let error: Value = ended.json()["error"].clone();
        let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap_or_default());
        assert_eq!(ended.code(), 1, "{what}: {ended:?}");
        assert!(message.contains(what) && hint.contains(remedy), "{what}: {error}");
    }
    // Announced, and not there.
    let mut command = serve(&cli, &[], vec![], "$$");
    command.env("LISTEN_FDS", "1");
    let ended = Running::start(command).ended();
    assert!(ended.json()["error"]["message"].as_str().unwrap().contains("LISTEN_FDS"), "{ended:?}");
    // None of it was removed.
    assert!(private.join("wide.sock").exists() && named.exists());
}

#[test]
fn a_socket_of_another_user_is_refused() {
    let Some(cli) = Cli::new() else { return };
    if !nix::unistd::geteuid().is_root() {
        codespace_testkit::tell(
            "SKIPPED a_socket_of_another_user_is_refused: only root can give a socket away; the run as root has this test",
        );
        return;
    }
    let path = given_path(&cli);
    let listener = listening(&path);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    let ended = Running::start(serve(&cli, &[], vec![listener.into()], "$$")).ended();
    let error = ended.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("uid 65534"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("SocketUser="), "{error}");
}

#[test]
fn what_is_meant_for_another_process_is_ignored() {
    let Some(mut cli) = Cli::new() else { return };
    let path = given_path(&cli);
    let listener = listening(&path);
    // The parent's, as after a program that was given a socket and started this one.
    let mut command = serve(&cli, &[], vec![listener.try_clone().unwrap().into()], "$PPID");
    command.env_remove("NOTIFY_SOCKET");
    let mut serving = Running::start(command);
    cli.ground.survivors.watch_runner(serving.pid());
    serving.wait_for("\n");
    let own = cli.ground.home().join("codespace-runner/runner.sock");
    assert_eq!(at(&cli, &own, &["ps"]).code(), 0);
    listener.set_nonblocking(true).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    drop(listener.accept().expect("nobody else has taken the connection"));
    drop(waiting);
    assert_eq!(at(&cli, &own, &["stop"]).code(), 0);
    assert_eq!(serving.ended().code(), 0);
    assert!(!own.exists(), "its own socket is its own to remove");
}

#[test]
fn a_runner_started_by_hand_does_not_take_the_path_of_a_service_that_sleeps() {
    let Some(cli) = Cli::new() else { return };
    let path = given_path(&cli);
    let unit = listening(&path);
    let ended = at(&cli, &path, &["serve"]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.stderr().contains("listens there already") && ended.stderr().contains("socket unit"),
        "{}",
        ended.stderr()
    );
    // And while it runs, a second one does not either.
    let mut serving = Running::start(serve(&cli, &[], vec![unit.into()], "$$"));
    serving.wait_for("\n");
    let ended = at(&cli, &path, &["serve"]);
    assert!(ended.stderr().contains("a live Runner holds it"), "{}", ended.stderr());
    assert_eq!(at(&cli, &path, &["stop"]).code(), 0);
    assert_eq!(serving.ended().code(), 0);
}
