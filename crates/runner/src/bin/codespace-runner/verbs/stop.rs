//! `stop`: ends processes, a workspace, or the whole Runner, and answers when nothing of them is left.

use codespace_domain::{
    ProcessId, ProcessRef, ProcessStatus, Reply, Request, RunnerError, StopRequest, TerminateRequest,
    TerminateWorkspaceReply, TerminateWorkspaceRequest, WorkspaceId,
};
use codespace_runner::Runner as _;
use codespace_runner::uds::UdsClient;

use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::render::Render;
use crate::{exit, values};

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    socket: SocketFlag,
    /// The processes to end; with none, and no --workspace, the whole Runner.
    process_ids: Vec<ProcessId>,
    /// End every process of this workspace.
    #[arg(long, value_name = "ID", conflicts_with = "process_ids")]
    workspace: Option<WorkspaceId>,
    /// SIGTERM first, and so long until the end.
    #[arg(long, value_name = "DURATION", value_parser = values::millis)]
    grace: Option<u64>,
}

pub(crate) async fn run(args: StopArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let grace_ms = args.grace;
    let ended = match args.workspace {
        Some(workspace_id) => runner.terminate_workspace(TerminateWorkspaceRequest { workspace_id, grace_ms }).await?,
        None if args.process_ids.is_empty() => {
            let stopped = runner.stop(StopRequest { grace_ms }).await?;
            // The path is free for another Runner once this one has closed the connection.
            runner.closed().await;
            render.result(&stopped, || said(stopped.ended))?;
            return Ok(exit::OK);
        }
        None => {
            let (ended, failed) = terminate(&runner, &args.process_ids, grace_ms).await;
            if let Some((last, others)) = failed.split_last() {
                others.iter().for_each(|error| render.note(&format!("failed to {}", error.message)));
                if ended.processes.is_empty() {
                    return Err(last.clone().into());
                }
                render.note(&format!("failed to {}", last.message));
                render.result(&ended, || said(ended.ended))?;
                return Ok(exit::FAILED);
            }
            ended
        }
    };
    render.result(&ended, || said(ended.ended))?;
    let unconfirmed = unconfirmed(&ended.processes);
    for process in &unconfirmed {
        render.note(&format!("{}: it was not seen that nothing of it is left", process.process_id));
    }
    Ok(if unconfirmed.is_empty() { exit::OK } else { exit::FAILED })
}

/// Ends all at the same time. Waits for each of them, also where one fails; the errors are of those that did.
async fn terminate(
    runner: &UdsClient,
    process_ids: &[ProcessId],
    grace_ms: Option<u64>,
) -> (TerminateWorkspaceReply, Vec<RunnerError>) {
    let request = |process_id| TerminateRequest { process: ProcessRef::Id { process_id }, grace_ms };
    let pending: Vec<_> = process_ids.iter().map(|id| runner.call(Request::TerminateProcess(request(*id)))).collect();
    let mut processes = Vec::new();
    let mut failed = Vec::new();
    for answer in pending {
        match answer.await {
            Ok(Reply::Status(status)) => processes.push(*status),
            Ok(_) => {}
            Err(error) => failed.push(error),
        }
    }
    (TerminateWorkspaceReply { ended: processes.len() as u64, processes }, failed)
}

fn unconfirmed(processes: &[ProcessStatus]) -> Vec<&ProcessStatus> {
    processes.iter().filter(|process| process.tree.as_ref().is_some_and(|tree| !tree.confirmed)).collect()
}

fn said(ended: u64) -> String {
    match ended {
        1 => "1 process ended".to_owned(),
        ended => format!("{ended} processes ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_status::exited;
    use super::*;

    #[test]
    fn an_end_that_was_not_seen_is_found() {
        let mut lost = exited();
        if let Some(tree) = &mut lost.tree {
            tree.confirmed = false;
        }
        assert_eq!(unconfirmed(&[exited(), lost.clone()]), [&lost]);
        assert!(unconfirmed(&[exited()]).is_empty());
    }
}
