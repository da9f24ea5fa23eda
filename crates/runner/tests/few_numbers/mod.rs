//! A Runner that has few numbers for its processes: in a PID namespace of its own, or by RLIMIT_NPROC.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use codespace_testkit::fixture::RunnerProcess;
use codespace_testkit::{programs, tell};
use serde_json::Value;

/// `numbers` is the namespace's `kernel.pid_max`; for a user other than root the number of its processes.
///
/// `None` is a skip, which has been told.
pub(crate) async fn runner(keys: Value, numbers: i32) -> Option<RunnerProcess> {
    let real = programs::built("codespace-runner", "codespace-runner", Some("CODESPACE_RUNNER_BIN"));
    let helper =
        programs::built("codespace-linux-sandbox", "codespace-linux-sandbox", Some("CODESPACE_LINUX_SANDBOX_BIN"));
    let directory = tempfile::Builder::new().prefix("codespace-few-").tempdir().expect("a temporary directory");
    let wrapper = directory.path().join("codespace-runner");
    if !nix::unistd::geteuid().is_root() {
        // Only root can give a PID namespace few numbers; anybody else can have few processes.
        fs::write(&wrapper, format!("#!/bin/sh\nexec prlimit --nproc={numbers} -- {} \"$@\"\n", real.display()))
            .expect("to write the wrapper");
        fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).expect("to make it executable");
        return RunnerProcess::of(wrapper, helper, keys, &[]).await;
    }
    let script = format!(
        "#!/bin/sh\nexec unshare --pid --fork --kill-child --mount-proc sh -c \
         'echo {numbers} > /proc/sys/kernel/pid_max && exec \"$0\" \"$@\"' {} \"$@\"\n",
        real.display()
    );
    fs::write(&wrapper, script).expect("to write the wrapper");
    fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).expect("to make it executable");
    let before = fs::read_to_string("/proc/sys/kernel/pid_max").expect("the host's bound");
    let mut runner = RunnerProcess::of(wrapper, helper, keys, &[]).await?;
    let after = fs::read_to_string("/proc/sys/kernel/pid_max").expect("the host's bound");
    if before != after {
        // An older kernel has one bound for all. It must not stay.
        fs::write("/proc/sys/kernel/pid_max", before).expect("to put the host's bound back");
        tell("SKIPPED: this kernel has no bound of numbers for each PID namespace");
        return None;
    }
    // Below `unshare`, which the fixture knows, is the Runner itself.
    let unshare = runner.pid();
    let until = Instant::now() + Duration::from_secs(5);
    let inner = loop {
        let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap_or_default();
        if let Some(pid) = children.split_whitespace().next() {
            break pid.parse().expect("a pid");
        }
        assert!(Instant::now() < until, "no Runner below unshare");
    };
    runner.ground.survivors.watch_runner(inner);
    Some(runner)
}
