//! A program that embeds the Runner: two workspaces, several commands at once, their output followed by cursor, a timeout,
//! an end that is asked for, and a stop. `work` asks the trait, so it does the same with a Runner in this process and with
//! one at the other end of a socket; `main` shows both.
//!
//! ```console
//! $ cargo build -p codespace-linux-sandbox
//! $ CODESPACE_LINUX_SANDBOX_BIN=$PWD/target/debug/codespace-linux-sandbox cargo run -p codespace-runner --example orchestrator
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

use codespace_policy::{HostDisk, Registry, Workspace};
use codespace_runner::domain::{
    ClientInfo, EndedBy, ExecRequest, ProcessId, ProcessRef, ProcessStatus, ReadRequest, RunnerError, StatusRequest,
    StopRequest, TerminateRequest, WorkspaceId,
};
use codespace_runner::uds::{Listener, UdsClient, serve};
use codespace_runner::{InProcessRunner, Runner, RunnerConfig, become_subreaper};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // What loses its parent in a tree then comes to this process, and is ended and reaped here.
    become_subreaper()?;
    let directory = tempfile::tempdir()?;
    let mut registry = Registry { workspaces: BTreeMap::new() };
    for name in ["build", "review"] {
        std::fs::create_dir(directory.path().join(name))?;
        let workspace = Workspace::new(directory.path().join(name));
        registry.workspaces.extend(Registry::single(name.parse()?, workspace, &HostDisk)?.workspaces);
    }

    say("a Runner in this process")?;
    let runner = InProcessRunner::start(RunnerConfig::new(registry.clone())).await?;
    work(&runner.session()).await?;

    say("a Runner behind a socket")?;
    let runner = InProcessRunner::start(RunnerConfig::new(registry)).await?;
    let listener = Listener::bind(&directory.path().join("socket/runner.sock"))?;
    let socket = listener.path().to_owned();
    let stopped = runner.clone();
    let serving = tokio::spawn(serve(listener, move || runner.session(), async move { stopped.stopped().await }));
    let client = ClientInfo { name: "orchestrator".into(), version: env!("CARGO_PKG_VERSION").into() };
    work(&UdsClient::connect(&socket, client).await?).await?;
    Ok(serving.await?)
}

/// Everything that is started here has ended, and was seen gone, when this returns.
async fn work(runner: &impl Runner) -> Result<(), Box<dyn Error>> {
    let (build, review): (WorkspaceId, WorkspaceId) = ("build".parse()?, "review".parse()?);
    let shell = |workspace: &WorkspaceId, script: &str| ExecRequest::new(workspace.clone(), ["sh", "-c", script]);
    let steps = "for step in configure compile link; do echo $step; sleep 0.1; done; echo done > result";
    let hangs = ExecRequest { timeout_ms: Some(300), ..shell(&review, "echo waits for ever; sleep 1000") };
    let server = shell(&review, "setsid sleep 1000 & echo listening; wait");

    // Three starts at once. Each is answered when its command runs, or with the reason why it does not.
    let (built, timed, served) =
        tokio::join!(runner.exec(shell(&build, steps)), runner.exec(hangs), runner.exec(server));
    let (built, timed, served) = (built?.process_id, timed?.process_id, served?.process_id);

    // Two are followed to their end, while the third is ended as soon as it has said something.
    let (built, timed, served) = tokio::join!(
        follow(runner, "build", built),
        follow(runner, "timeout", timed),
        end_when_it_speaks(runner, served)
    );
    let (built, timed, served) = (built?, timed?, served?);
    assert_eq!((built.ended_by, built.exit_code), (Some(EndedBy::Command), Some(0)));
    assert_eq!((timed.ended_by, timed.exit_code), (Some(EndedBy::Timeout), None));
    assert_eq!(served.ended_by, Some(EndedBy::Terminate));
    for status in [built, timed, served] {
        let tree = status.tree.ok_or("a final status has a tree")?;
        assert!(tree.confirmed, "{:?}", tree.detail);
        say(&format!("{}: {:?}, seen gone after {} ms", status.process_id, status.ended_by, tree.took_ms))?;
    }

    // A command that is not there is an error, and leaves no process.
    let missing = runner.exec(ExecRequest::new(build.clone(), ["no-such-program"])).await;
    say(&format!("refused: {}", missing.err().ok_or("it should not have started")?))?;

    runner.exec(shell(&build, "sleep 1000")).await?;
    let stopped = runner.stop(StopRequest::default()).await?;
    assert_eq!(stopped.ended, 1);
    Ok(say("stopped; what still ran has ended")?)
}

/// Passes the output on to its end, then gives the final status.
async fn follow(runner: &impl Runner, name: &str, process_id: ProcessId) -> Result<ProcessStatus, Box<dyn Error>> {
    let mut read = ReadRequest { wait_ms: 60_000, ..ReadRequest::new(process_id) };
    loop {
        let reply = runner.read_process(read.clone()).await?;
        for line in reply.chunk.lines() {
            say(&format!("{name}: {line}"))?;
        }
        read.cursor = reply.cursor;
        if reply.eof {
            break;
        }
    }
    Ok(*runner.process_status(StatusRequest { process_id, wait_ms: 60_000 }).await?)
}

/// The answer to a terminate is the final status: the whole tree is gone, the `setsid` as well.
async fn end_when_it_speaks(runner: &impl Runner, process_id: ProcessId) -> Result<ProcessStatus, RunnerError> {
    runner.read_process(ReadRequest { wait_ms: 60_000, ..ReadRequest::new(process_id) }).await?;
    let process = ProcessRef::Id { process_id };
    Ok(*runner.terminate_process(TerminateRequest { process, grace_ms: None }).await?)
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}
