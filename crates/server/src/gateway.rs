//! One MCP session: what the server says of itself, its tools and its resources. Knows MCP; does nothing itself but ask
//! the [`Client`] that is its own.

use std::sync::Arc;

use codespace_domain::{ErrorCode, RunnerError};
use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::backend::Client;
use crate::http::deleted::Busy;
use crate::http::metrics::Metrics;
use crate::progress::Progress;
use crate::resources::{self, Subscriptions};
use crate::tools::ToolName;
use crate::tools::call::{Caller, call, refusal};

/// The few rules, in a few lines.
const INSTRUCTIONS: &str = "\
Runs commands in registered workspaces, each in a sandbox, and ends them with everything that they started.
- Call workspace_info once: it names the workspaces and what may be written.
- exec_command takes an argument list, not a shell line: [\"bash\", \"-c\", \"cd src && make\"] for a shell.
- It waits up to wait_ms (10 s by default). A longer command goes on: read_process with its process_id and cursor.
- background \"keep\" lets what a command leaves running go on until terminate_process.
- Each command has a loopback of its own, unless the workspace's network says otherwise: start a server and use it in one \
command.
- Interactive programs: tty true, then write_stdin; stdin \"pipe\" for plain input, close_stdin for its end.
- terminate_process answers when nothing is left; signal_process only sends a signal.
- A retry with the same process_key never starts a second process.";

/// Calls of one session under way at a time. Each may wait for long, and its answer may be large.
const MOST_CALLS: usize = 256;

/// One session. Dropping it ends the processes whose lifetime it is.
pub struct Gateway {
    client: Arc<Client>,
    subscriptions: Subscriptions,
    /// Whether it lives for one request only.
    per_request: PerRequest,
    metrics: Option<Arc<Metrics>>,
    busy: Option<Arc<Busy>>,
    /// Of calls that may be under way at a time.
    places: Semaphore,
    /// The same, of those that end something.
    places_to_end: Semaphore,
    leaving: CancellationToken,
}

/// Tells of a call whether its session ends with it.
pub type PerRequest = fn(&RequestContext<RoleServer>) -> bool;

impl Gateway {
    /// A session on `client`.
    pub fn new(client: Client, per_request: PerRequest) -> Self {
        let subscriptions = Subscriptions::default();
        let (client, leaving) = (Arc::new(client), CancellationToken::new());
        let [places, places_to_end] = [MOST_CALLS; 2].map(Semaphore::new);
        Self { client, subscriptions, per_request, metrics: None, busy: None, places, places_to_end, leaving }
    }

    /// What only waits for the client to leave ends with `leaving`.
    pub fn until(mut self, leaving: CancellationToken) -> Self {
        self.leaving = leaving;
        self
    }

    /// What it starts is counted there.
    pub fn counted_by(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Whoever waits in it is let go when it is closed there.
    pub(crate) fn closed_by(mut self, busy: Arc<Busy>) -> Self {
        self.busy = Some(busy);
        self
    }
}

impl Gateway {
    /// A place for a call. What ends something has others than what waits.
    fn place(&self, tool: ToolName) -> Option<SemaphorePermit<'_>> {
        let places = match tool {
            ToolName::TerminateProcess | ToolName::TerminateWorkspace => &self.places_to_end,
            _ => &self.places,
        };
        places.try_acquire().ok()
    }
}

fn too_many_calls() -> RunnerError {
    let words = format!("take one more call: {MOST_CALLS} of this session are under way");
    RunnerError::new(ErrorCode::ResourceUnavailable, words).with_hint("wait for their answers, or cancel some of them")
}

impl ServerHandler for Gateway {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe().build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("codespace-mcp", env!("CARGO_PKG_VERSION")).with_title("CodeSpace Runner"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(ToolName::ALL.into_iter().map(ToolName::definition).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        ToolName::find(name).map(ToolName::definition)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::find(&request.name) else {
            let name: String = request.name.chars().take(80).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        };
        let Some(_place) = self.place(tool) else { return Ok(refusal(&too_many_calls()).into()) };
        let _under_way = self.metrics.as_ref().map(|metrics| metrics.call());
        let in_session = self.busy.as_ref().and_then(|busy| busy.call(&context));
        let closed = async {
            match &in_session {
                Some(call) => call.closed().await,
                None => std::future::pending().await,
            }
        };
        let progress = Progress::of(&context);
        let caller =
            Caller { progress: &progress, has_session: !(self.per_request)(&context), metrics: self.metrics.as_ref() };
        tokio::select! {
            biased;
            // Nobody reads the answer of a cancelled call; what it has started goes on.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
            () = closed => Err(ErrorData::internal_error("the session was closed", None)),
            result = call(&self.client, tool, request.arguments, &caller) => Ok(result.into()),
        }
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.client).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&self.client, &request.uri).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.add(&self.client, request.uri, context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(resources::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            listened = resources::listen(&self.client, context) => listened,
            () = self.leaving.cancelled() => Ok(()),
        }
    }
}
