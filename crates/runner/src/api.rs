//! The Runner as a trait of verbs. [`crate::InProcessRunner`]'s sessions and the socket client both implement it.
//!
//! [`Runner::call`] is the one thing to implement: a request **takes effect when `call` returns**; the future that it
//! returns only waits for the answer. So an `exec` has its slot, and a `write_stdin` its place, before the next request
//! of the same session is looked at, and a waiting read never delays a terminate. The verbs are the same with types.

use std::future::Future;
use std::pin::Pin;

use codespace_domain::{
    CloseStdinRequest, ErrorCode, ExecReply, ExecRequest, HelloReply, HelloRequest, ListReply, ListRequest,
    ProcessStatus, ReadReply, ReadRequest, Reply, Request, ResizeReply, ResizeRequest, RunnerError, SignalRequest,
    StatusRequest, StopReply, StopRequest, SubscribeRequest, TerminateRequest, TerminateWorkspaceReply,
    TerminateWorkspaceRequest, WorkspaceInfoReply, WorkspaceInfoRequest, WriteStdinReply, WriteStdinRequest,
};

use crate::subscription::Subscription;

/// An answer that is still to come. Dropping it gives up the waiting, never the effect.
pub type Pending = Pin<Box<dyn Future<Output = Result<Reply, RunnerError>> + Send + 'static>>;

/// A subscription that is still to come.
pub type Subscribing = Pin<Box<dyn Future<Output = Result<Subscription, RunnerError>> + Send + 'static>>;

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident($variant:ident: $params:ty) -> $reply:ident($result:ty);)*) => {
        $(
            $(#[$doc])*
            fn $verb(&self, params: $params) -> impl Future<Output = Result<$result, RunnerError>> + Send {
                let pending = self.call(Request::$variant(params.into()));
                async move {
                    match pending.await? {
                        Reply::$reply(result) => Ok(result.into()),
                        other => Err(unexpected(stringify!($verb), &other)),
                    }
                }
            }
        )*
    };
}

/// Everything that can be asked of a Runner. Errors are the contract's (`docs/error-codes.md`).
pub trait Runner: Send + Sync {
    /// Does what is asked, at once, and returns what will tell the outcome.
    fn call(&self, request: Request) -> Pending;

    /// Tells what a process writes, from a cursor on, label by label in the order of arrival, and then its end.
    fn subscribe(&self, request: SubscribeRequest) -> Subscribing;

    verbs! {
        /// Who the Runner is and what it can enforce.
        hello(Hello: HelloRequest) -> Hello(HelloReply);
        /// The registered workspaces, or one.
        workspace_info(WorkspaceInfo: WorkspaceInfoRequest) -> WorkspaceInfo(WorkspaceInfoReply);
        /// Starts a command. Answers when its `execve` succeeded, the start failed, or it was ended before that.
        exec(Exec: ExecRequest) -> Exec(ExecReply);
        /// Writes to the command's stdin; answers when it has taken all.
        write_stdin(WriteStdin: WriteStdinRequest) -> WriteStdin(WriteStdinReply);
        /// Ends the command's stdin.
        close_stdin(CloseStdin: CloseStdinRequest) -> Done(codespace_domain::Empty);
        /// Reads output from a cursor on.
        read_process(ReadProcess: ReadRequest) -> Read(ReadReply);
        /// How a process stands.
        process_status(ProcessStatus: StatusRequest) -> Status(Box<ProcessStatus>);
        /// The processes that are kept.
        list_processes(ListProcesses: ListRequest) -> List(ListReply);
        /// Sets a terminal's size.
        process_resize(ProcessResize: ResizeRequest) -> Resize(ResizeReply);
        /// Sends a signal to the command's process group.
        signal_process(SignalProcess: SignalRequest) -> Done(codespace_domain::Empty);
        /// Ends a process with its whole tree; answers with the final status.
        terminate_process(TerminateProcess: TerminateRequest) -> Status(Box<ProcessStatus>);
        /// Ends every process of a workspace.
        terminate_workspace(TerminateWorkspace: TerminateWorkspaceRequest) -> TerminateWorkspace(TerminateWorkspaceReply);
        /// Ends everything; the Runner takes no new start.
        stop(Stop: StopRequest) -> Stop(StopReply);
    }
}

fn unexpected(verb: &str, reply: &Reply) -> RunnerError {
    let kind = format!("{reply:?}");
    let kind = kind.split(['(', ' ']).next().unwrap_or_default();
    RunnerError::new(ErrorCode::Internal, format!("make sense of a {kind} reply to {verb}"))
}
