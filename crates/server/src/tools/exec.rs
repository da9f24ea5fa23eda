//! `exec_command`: starts, waits a little, and brings the result of a short command in one call.
//!
//! The waiting can be given up (a cancelled call, a client that has left): the process goes on, and is found by
//! `list_processes` or its `process_key`. While it waits, a client that asked for it is told of the progress.

use std::time::Duration;

use codespace_domain::{ExecReply, ExecRequest, ReadReply, ReadRequest, RunnerError, State, StatusRequest};
use codespace_runner::Runner as _;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::backend::Client;
use crate::tools::call::Caller;
use crate::tools::schema;
use crate::tools::wait::{self, Deadline};

/// How long a call waits for the end where it does not say.
pub const DEFAULT_WAIT_MS: u64 = 10_000;
/// How often a waiting client is told that there is progress.
const STEP: Duration = Duration::from_secs(1);
/// The most output bytes from the beginning, and from the end of what there is more.
const HEAD_BYTES: u64 = 16 * 1024;
const TAIL_BYTES: u64 = 8 * 1024;

/// What a call brings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecCommandResult {
    /// The process, its status, and its output from the beginning.
    #[serde(flatten)]
    pub reply: ExecReply,
    /// The latest output, where there is more than `output` holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tail: Option<ReadReply>,
}

/// Of the arguments: those of `exec`, with this tool's own `wait_ms`.
pub(super) fn input_schema() -> JsonObject {
    let mut schema = schema::input::<ExecRequest>();
    if let Some(wait_ms) = schema.get_mut("properties").and_then(|properties| properties.get_mut("wait_ms")) {
        wait_ms["default"] = json!(DEFAULT_WAIT_MS);
    }
    schema
}

/// Starts the command and waits for its end, at most `request.wait_ms`.
pub(super) async fn run(
    runner: &Client,
    mut request: ExecRequest,
    caller: &Caller<'_>,
) -> Result<ExecCommandResult, RunnerError> {
    let progress = caller.progress;
    let deadline = Deadline::after(request.wait_ms);
    // The wait comes after it: a call may be given up, and what it has started is counted all the same.
    request.wait_ms = 0;
    let mut reply = runner.exec(request).await?;
    let process_id = reply.process_id;
    if let Some(metrics) = caller.metrics {
        metrics.started(process_id);
    }

    // 1. The wait, in shorter steps where somebody wants to know.
    let step = if progress.is_wanted() { STEP } else { wait::LONGEST };
    let mut wait = if progress.is_wanted() { Duration::ZERO } else { deadline.left().min(step) };
    let status = loop {
        let status = match reply.status.take() {
            // It was ended while its start was under way.
            Some(status) if status.state == State::Exited => status,
            _ => runner.process_status(StatusRequest { process_id, wait_ms: wait::ms(wait) }).await?,
        };
        if status.state == State::Exited || deadline.is_over() {
            break status;
        }
        progress.tell(&status).await;
        wait = deadline.left().min(step);
    };
    reply.status = Some(status);

    // 2. The output as it is now: its beginning, and its end where that is elsewhere.
    let head = ReadRequest { max_bytes: HEAD_BYTES, ..ReadRequest::new(process_id) };
    let output = runner.read_process(head.clone()).await?;
    let beyond = output.total.saturating_sub(output.cursor);
    let mut output_tail = None;
    if beyond > 0 {
        let tail = ReadRequest { tail_bytes: Some(beyond.min(TAIL_BYTES)), max_bytes: TAIL_BYTES, ..head };
        output_tail = Some(runner.read_process(tail).await?);
    }
    reply.output = Some(Box::new(output));
    Ok(ExecCommandResult { reply, output_tail })
}
