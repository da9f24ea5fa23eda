//! Processes as MCP resources: `process://<process_id>/output`, `/stdout`, `/stderr` and `/status`, with subscriptions.
//!
//! A read brings the latest bytes and, as a look from aside, does not count as one. A subscription only says that there is
//! something new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use codespace_domain::{
    ErrorCode, ListRequest, ProcessId, ReadRequest, RunnerError, State, StatusRequest, StreamSelection,
};
use codespace_runner::Runner as _;
use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, ResourceUpdatedNotificationParam, SubscriptionFilter,
};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::backend::Client;
use crate::say;

const SCHEME: &str = "process://";
/// The most bytes of output in one resource.
const LATEST_BYTES: u64 = 256 * 1024;
/// How often a subscriber may be told at most.
const STEP_MS: u64 = 1000;
/// Subscriptions of one session at a time.
const MAX_SUBSCRIPTIONS: usize = 64;

/// What a URI names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Output(StreamSelection),
    Status,
}

fn parse(uri: &str) -> Result<(ProcessId, Part), ErrorData> {
    let not_found =
        || ErrorData::resource_not_found(format!("there is no resource {uri:.200}"), Some(json!({ "uri": uri })));
    let (id, part) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(not_found)?;
    let part = match part {
        "output" => Part::Output(StreamSelection::Combined),
        "stdout" => Part::Output(StreamSelection::Stdout),
        "stderr" => Part::Output(StreamSelection::Stderr),
        "status" => Part::Status,
        _ => return Err(not_found()),
    };
    Ok((id.parse().map_err(|_| not_found())?, part))
}

/// One resource for each process that is kept.
pub(crate) async fn list(runner: &Client) -> Result<ListResourcesResult, ErrorData> {
    let processes = runner.list_processes(ListRequest::default()).await.map_err(of_runner)?.processes;
    let resources = processes.iter().map(|status| {
        let name = say::command(&status.command);
        Resource::new(format!("{SCHEME}{}/output", status.process_id), name)
            .with_description(format!("output of {} in {}", status.process_id, status.workspace_id))
            .with_mime_type("text/plain")
            .with_size(status.output_total)
    });
    Ok(ListResourcesResult::with_all_items(resources.collect()))
}

/// The forms of the URIs.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |part: &str, words: &str, mime: &str| {
        ResourceTemplate::new(format!("{SCHEME}{{process_id}}/{part}"), format!("process {part}"))
            .with_description(words)
            .with_mime_type(mime)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template("output", "The latest output of a process, both streams in their order", "text/plain"),
        template("stdout", "The latest bytes of its stdout", "text/plain"),
        template("stderr", "The latest bytes of its stderr", "text/plain"),
        template("status", "How it stands or how it ended", "application/json"),
    ])
}

/// The contents of one.
pub(crate) async fn read(runner: &Client, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let (process_id, part) = parse(uri)?;
    let contents = match part {
        Part::Output(stream) => {
            let read = ReadRequest {
                stream,
                tail_bytes: Some(LATEST_BYTES),
                max_bytes: LATEST_BYTES,
                peek: true,
                ..ReadRequest::new(process_id)
            };
            let reply = runner.read_process(read).await.map_err(about(uri))?;
            ResourceContents::text(reply.chunk, uri).with_mime_type("text/plain")
        }
        Part::Status => {
            let status = runner.process_status(StatusRequest { process_id, wait_ms: 0 }).await.map_err(about(uri))?;
            let text = serde_json::to_string(&status).map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
            ResourceContents::text(text, uri).with_mime_type("application/json")
        }
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}

/// The resource subscriptions of a session, in the form of the protocol before 2026-07-28.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, JoinSet<()>>>);

impl Subscriptions {
    /// From now on, `peer` is told when the resource has changed.
    pub(crate) async fn add(&self, client: &Arc<Client>, uri: String, peer: Peer<RoleServer>) -> Result<(), ErrorData> {
        let (process_id, _) = parse(&uri)?;
        client.process_status(StatusRequest { process_id, wait_ms: 0 }).await.map_err(about(&uri))?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, task| {
            while task.try_join_next().is_some() {}
            !task.is_empty()
        });
        if !all.contains_key(&uri) && all.len() >= MAX_SUBSCRIPTIONS {
            let words = format!("subscribe to one more: a session has at most {MAX_SUBSCRIPTIONS} subscriptions");
            return Err(ErrorData::invalid_request(words, None));
        }
        let mut task = JoinSet::new();
        let (client, told) = (Arc::clone(client), Listener::Session(peer, uri.clone()));
        task.spawn(async move { follow(&client, process_id, &told).await });
        all.insert(uri, task);
        Ok(())
    }

    /// No longer.
    pub(crate) fn remove(&self, uri: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }
}

/// Of what a client wants to be told, what it will be.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().filter(|uri| parse(uri).is_ok());
    SubscriptionFilter::builder().resource_subscriptions(uris.take(MAX_SUBSCRIPTIONS).cloned()).build()
}

/// Tells of the accepted resources until the client has left.
pub(crate) async fn listen(client: &Arc<Client>, context: SubscriptionContext) -> Result<(), ErrorData> {
    let mut followed = JoinSet::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        let (process_id, _) = parse(uri)?;
        let (client, told) = (Arc::clone(client), Listener::Request(context.sink().clone(), uri.clone()));
        followed.spawn(async move { follow(&client, process_id, &told).await });
    }
    context.cancelled().await;
    Ok(())
}

/// Who is told that a resource has changed.
enum Listener {
    /// A session, as before the protocol of 2026-07-28.
    Session(Peer<RoleServer>, String),
    /// A request to listen.
    Request(SubscriptionSink, String),
}

impl Listener {
    /// False: nobody listens any more.
    async fn tell(&self) -> bool {
        match self {
            Self::Session(peer, uri) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.clone())).await.is_ok()
            }
            Self::Request(sink, uri) => sink.notify_resource_updated(uri.clone()).await.is_ok(),
        }
    }
}

/// Tells of each change, until the process has ended or nobody listens.
async fn follow(client: &Client, process_id: ProcessId, listener: &Listener) {
    let mut seen = None;
    loop {
        // Waits for the end or for the time; what a process writes meanwhile is one change.
        let wait_ms = if seen.is_some() { STEP_MS } else { 0 };
        let Ok(status) = client.process_status(StatusRequest { process_id, wait_ms }).await else { return };
        let now = (status.output_total, status.state);
        if seen.is_some_and(|seen| seen != now) && !listener.tell().await {
            return;
        }
        if status.state == State::Exited {
            return;
        }
        seen = Some(now);
    }
}

/// What went wrong with a resource names it too.
fn about(uri: &str) -> impl Fn(RunnerError) -> ErrorData {
    move |error| {
        let mut said = of_runner(error);
        if let Some(Value::Object(data)) = &mut said.data {
            data.insert("uri".to_owned(), json!(uri));
        }
        said
    }
}

fn of_runner(error: RunnerError) -> ErrorData {
    let words = format!("failed to {}", error.message);
    let data = serde_json::to_value(&error).ok();
    match error.code {
        ErrorCode::ProcessNotFound => ErrorData::resource_not_found(words, data),
        _ => ErrorData::internal_error(words, data),
    }
}
