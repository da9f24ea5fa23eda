//! A call of a tool: arguments in, the Runner's answer as a structured result beside words for a model.

use std::sync::Arc;

use codespace_domain::{ErrorCode, ExecRequest, RunnerError};
use codespace_runner::Runner as _;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ToolName, exec, wait};
use crate::backend::Client;
use crate::http::metrics::Metrics;
use crate::progress::Progress;
use crate::say;

/// What is known of the caller beside its arguments.
pub(crate) struct Caller<'a> {
    /// Where to tell of progress.
    pub progress: &'a Progress,
    /// Whether there is a session that a process's life could be tied to.
    pub has_session: bool,
    /// Where its starts are counted.
    pub metrics: Option<&'a Arc<Metrics>>,
}

/// Does it. Whatever goes wrong is a result too, one that a model can read.
pub(crate) async fn call(
    runner: &Client,
    tool: ToolName,
    arguments: Option<JsonObject>,
    caller: &Caller<'_>,
) -> CallToolResult {
    let outcome = perform(runner, tool, arguments.unwrap_or_default(), caller).await;
    outcome.unwrap_or_else(|error| refusal(&error))
}

async fn perform(
    runner: &Client,
    tool: ToolName,
    arguments: JsonObject,
    caller: &Caller<'_>,
) -> Result<CallToolResult, RunnerError> {
    match tool {
        ToolName::WorkspaceInfo => {
            let reply = runner.workspace_info(take(tool, arguments)?).await?;
            Ok(done(&reply, say::workspaces(&reply)))
        }
        ToolName::ExecCommand => {
            let mut arguments = arguments;
            arguments.entry("wait_ms").or_insert_with(|| json!(exec::DEFAULT_WAIT_MS));
            let request: ExecRequest = take(tool, arguments)?;
            if request.lifetime == codespace_domain::Lifetime::Connection && !caller.has_session {
                return Err(RunnerError::new(
                    ErrorCode::InvalidCommand,
                    "tie a process to its connection: this client has no session",
                )
                .with_hint("leave `lifetime` out, and end it with terminate_process"));
            }
            let result = exec::run(runner, request, caller).await?;
            let words = say::exec(&result);
            Ok(done(&result, words))
        }
        ToolName::ReadProcess => {
            let reply = wait::for_output(runner, take(tool, arguments)?).await?;
            let words = say::read(&reply);
            Ok(done(&reply, words))
        }
        ToolName::WriteStdin => {
            let reply = runner.write_stdin(take(tool, arguments)?).await?;
            Ok(done(&reply, format!("{} written", say::bytes(reply.written))))
        }
        ToolName::CloseStdin => {
            let reply = runner.close_stdin(take(tool, arguments)?).await?;
            Ok(done(&reply, "closed".to_owned()))
        }
        ToolName::ProcessStatus => {
            let status = wait::for_the_end(runner, take(tool, arguments)?).await?;
            Ok(done(&status, say::status(&status)))
        }
        ToolName::ListProcesses => {
            let reply = runner.list_processes(take(tool, arguments)?).await?;
            Ok(done(&reply, say::list(&reply.processes)))
        }
        ToolName::ProcessResize => {
            let reply = runner.process_resize(take(tool, arguments)?).await?;
            Ok(done(&reply, format!("{} rows, {} columns", reply.rows, reply.cols)))
        }
        ToolName::SignalProcess => {
            let reply = runner.signal_process(take(tool, arguments)?).await?;
            Ok(done(&reply, "sent".to_owned()))
        }
        ToolName::TerminateProcess => {
            let status = runner.terminate_process(take(tool, arguments)?).await?;
            Ok(done(&status, say::status(&status)))
        }
        ToolName::TerminateWorkspace => {
            let reply = runner.terminate_workspace(take(tool, arguments)?).await?;
            Ok(done(&reply, format!("{} ended\n{}", reply.ended, say::list(&reply.processes))))
        }
    }
}

/// The arguments as the Runner's own request.
fn take<T: DeserializeOwned>(tool: ToolName, arguments: JsonObject) -> Result<T, RunnerError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        RunnerError::new(ErrorCode::InvalidCommand, format!("take the arguments of {}: {error}", tool.as_str()))
            .with_hint("see the tool's input schema")
    })
}

fn done(reply: &impl Serialize, words: String) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(words)]);
    result.structured_content = serde_json::to_value(reply).ok();
    result
}

/// An error as a result.
pub(crate) fn refusal(error: &RunnerError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(say::error(error))]);
    result.structured_content = serde_json::to_value(error).ok();
    result
}
