//! Someone who asks: the verbs, on the table of processes.
//!
//! Everything that a request changes is changed before `call` returns; the future only waits. So the requests of one
//! session take effect in the order in which they were asked, and no waiting delays another.

mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use crate::api::{Pending, Runner, Subscribing};
use crate::in_process::Shared;
use crate::process::{Admission, End, Launcher, Refusal, Slot, own};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codespace_domain::{
    Encoding, EndedBy, ErrorCode, ExecReply, ExecRequest, HelloReply, HelloRequest, Lifetime, ListReply, ListRequest,
    PROTOCOL, ProcessId, ProcessRef, ProcessStatus, ReadRequest, Reply, Request, ResizeReply, ResizeRequest,
    RunnerError, ServerInfo, SignalName, SignalRequest, StatusRequest, StopReply, StopRequest, SubscribeRequest,
    TerminateRequest, TerminateWorkspaceReply, TerminateWorkspaceRequest, WriteStdinReply, WriteStdinRequest,
};

/// A session of an [`crate::InProcessRunner`]. Dropping it ends its `lifetime: "connection"` processes.
pub struct Session {
    shared: Arc<Shared>,
    number: u64,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Self {
        Self { shared, number }
    }

    fn find(&self, id: ProcessId) -> Result<Arc<Slot>, RunnerError> {
        self.shared.table.find(&ProcessRef::Id { process_id: id })
    }

    fn hello(&self, request: &HelloRequest) -> Result<Reply, RunnerError> {
        if request.protocol != PROTOCOL {
            let message = format!("speak protocol {}: this Runner speaks {PROTOCOL}", request.protocol);
            return Err(RunnerError::new(ErrorCode::ProtocolMismatch, message)
                .with_hint("use a client and a Runner of matching versions"));
        }
        Ok(Reply::Hello(HelloReply {
            protocol: PROTOCOL,
            server: ServerInfo {
                name: "codespace-runner".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                pid: std::process::id(),
            },
            sandbox: self.shared.sandbox.clone(),
        }))
    }

    /// Decides, and reserves the slot; the owner then creates whatever is created.
    fn exec(
        &self,
        request: ExecRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let Launcher { registry, host, .. } = &*self.shared.launcher;
        let admitted = codespace_policy::admit(registry, &request, host)?;
        let wait = Duration::from_millis(request.wait_ms);
        let (slot, seat) = Slot::new(request, admitted, self.number);
        let slot = match self.shared.table.reserve(&slot)? {
            Admission::Existing(existing) => existing,
            Admission::Reserved => {
                let owner =
                    own(Arc::clone(&slot), seat, Arc::clone(&self.shared.launcher), Arc::clone(&self.shared.table));
                tokio::spawn(owner);
                slot
            }
        };
        let pending = slot.answer_pending();
        Ok(async move {
            let reply = started(&slot, wait).await;
            drop(pending);
            reply
        })
    }

    fn write_stdin(
        &self,
        request: WriteStdinRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let slot = self.find(request.process_id)?;
        let there = if slot.lives() { Ok(()) } else { Err(slot.not_running()) };
        let bytes = match request.encoding {
            Encoding::Utf8 => request.data.into_bytes(),
            Encoding::Base64 => STANDARD.decode(request.data).map_err(|error| {
                RunnerError::new(ErrorCode::InvalidCommand, format!("decode data as base64: {error}"))
            })?,
        };
        let write = slot.stdin.write(bytes, request.write_key, there).map_err(|error| error.about(slot.id))?;
        Ok(async move {
            match write.await {
                Ok(written) => Ok(Reply::WriteStdin(WriteStdinReply { written })),
                Err(Refusal::Closed) => Err(slot.stdin.closed().about(slot.id)),
                Err(Refusal::Ended) => Err(slot.not_running()),
                Err(Refusal::Failed(errno)) => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    Err(RunnerError {
                        errno: Some(errno),
                        ..RunnerError::new(ErrorCode::Internal, format!("write to stdin: {error}")).about(slot.id)
                    })
                }
            }
        })
    }

    fn terminate(
        &self,
        request: &TerminateRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let slot = self.shared.table.find(&request.process)?;
        slot.request_kill(EndedBy::Terminate, request.grace_ms.map(Duration::from_millis));
        Ok(async move { final_status(&slot).await.map(|status| Reply::Status(Box::new(status))) })
    }

    fn terminate_workspace(
        &self,
        request: &TerminateWorkspaceRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        self.shared.launcher.registry.find(&request.workspace_id)?;
        let (fence, live) = self.shared.table.fence(&request.workspace_id);
        let grace = request.grace_ms.map(Duration::from_millis);
        for slot in &live {
            slot.request_kill(EndedBy::Workspace, grace);
        }
        // In a task of its own: the fence must stand until the last one has ended, also when the caller gives up.
        let ended = tokio::spawn(async move {
            let processes = all_ended(&live).await;
            drop(fence);
            processes
        });
        Ok(async move {
            let processes = ended.await.map_err(|error| {
                RunnerError::new(ErrorCode::Internal, format!("end the workspace's processes: {error}"))
            })?;
            Ok(Reply::TerminateWorkspace(TerminateWorkspaceReply { ended: processes.len() as u64, processes }))
        })
    }

    fn stop(&self, request: StopRequest) -> impl Future<Output = Result<Reply, RunnerError>> + use<> {
        let live = self.shared.table.stop();
        self.shared.stopping.send_replace(true);
        let grace = request.grace_ms.map(Duration::from_millis);
        for slot in &live {
            slot.request_kill(EndedBy::Stop, grace);
        }
        let shared = Arc::clone(&self.shared);
        // Also when the caller gives up.
        let ended = tokio::spawn(async move {
            let ended = all_ended(&live).await.len() as u64;
            shared.stopped.send_replace(true);
            ended
        });
        async move {
            let ended = ended.await.map_err(|error| {
                RunnerError::new(ErrorCode::Internal, format!("end the Runner's processes: {error}"))
            })?;
            Ok(Reply::Stop(StopReply { ended }))
        }
    }

    fn read(
        &self,
        request: ReadRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let slot = self.find(request.process_id)?;
        Ok(async move {
            let chunk = slot.journal.read(&request).await.map_err(|error| RunnerError::from(error).about(slot.id))?;
            Ok(Reply::Read(chunk.into_reply(slot.id, slot.state())))
        })
    }

    fn status(
        &self,
        request: &StatusRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let slot = self.find(request.process_id)?;
        let wait = Duration::from_millis(request.wait_ms);
        Ok(async move {
            if !wait.is_zero() {
                // Either way the status says how it stands.
                drop(tokio::time::timeout(wait, slot.ended()).await);
            }
            Ok(Reply::Status(Box::new(slot.status())))
        })
    }

    fn list(&self, request: &ListRequest) -> Result<Reply, RunnerError> {
        if let Some(workspace) = &request.workspace_id {
            self.shared.launcher.registry.find(workspace)?;
        }
        let wanted = |status: &ProcessStatus| {
            request.workspace_id.as_ref().is_none_or(|id| *id == status.workspace_id)
                && request.state.is_none_or(|state| state == status.state)
        };
        let processes = self.shared.table.all().iter().map(|slot| slot.status()).filter(wanted).collect();
        Ok(Reply::List(ListReply { processes }))
    }

    fn signal(
        &self,
        request: &SignalRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let slot = self.find(request.process_id)?;
        let asked = slot.signal(number(request.signal));
        Ok(async move { asked.await.map(|()| Reply::Done(codespace_domain::Empty {})) })
    }

    fn resize(
        &self,
        request: &ResizeRequest,
    ) -> Result<impl Future<Output = Result<Reply, RunnerError>> + use<>, RunnerError> {
        let ResizeRequest { process_id, rows, cols } = *request;
        if rows == 0 || cols == 0 {
            let message = format!("resize to {rows} rows and {cols} columns: both must be at least 1");
            return Err(RunnerError::new(ErrorCode::InvalidCommand, message));
        }
        let slot = self.find(process_id)?;
        if !slot.asked.tty {
            let message = format!("resize {}: it has no terminal", slot.id);
            return Err(RunnerError::new(ErrorCode::ProcessNotTty, message)
                .with_hint("start it with a terminal: `tty: true`, or --tty on the command line")
                .about(slot.id));
        }
        let asked = slot.resize(codespace_pty::Size { rows, cols });
        Ok(async move { asked.await.map(|()| Reply::Resize(ResizeReply { rows, cols })) })
    }
}

impl Runner for Session {
    fn call(&self, request: Request) -> Pending {
        match request {
            Request::Hello(params) => now(self.hello(&params)),
            Request::WorkspaceInfo(params) => now(codespace_policy::workspace_info_reply(
                &self.shared.launcher.registry,
                &params,
                &self.shared.launcher.host,
            )
            .map(Reply::WorkspaceInfo)),
            Request::Exec(params) => later(self.exec(*params)),
            Request::WriteStdin(params) => later(self.write_stdin(params)),
            Request::CloseStdin(params) => now(self.find(params.process_id).and_then(|slot| {
                let closed = if slot.lives() { slot.stdin.close() } else { Err(slot.not_running()) };
                closed.map(|()| Reply::Done(codespace_domain::Empty {})).map_err(|error| error.about(slot.id))
            })),
            Request::ReadProcess(params) => later(self.read(params)),
            Request::ProcessStatus(params) => later(self.status(&params)),
            Request::ListProcesses(params) => now(self.list(&params)),
            Request::ProcessResize(params) => later(self.resize(&params)),
            Request::SignalProcess(params) => later(self.signal(&params)),
            Request::TerminateProcess(params) => later(self.terminate(&params)),
            Request::TerminateWorkspace(params) => later(self.terminate_workspace(&params)),
            Request::Stop(params) => later(Ok(self.stop(params))),
        }
    }

    fn subscribe(&self, request: SubscribeRequest) -> Subscribing {
        match self.find(request.process_id) {
            Ok(slot) => Box::pin(subscribe::subscribe(slot, request)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for slot in self.shared.table.all() {
            if slot.session == self.number && slot.terms.lifetime == Lifetime::Connection && slot.lives() {
                slot.request_kill(EndedBy::Connection, None);
            }
        }
    }
}

fn now(outcome: Result<Reply, RunnerError>) -> Pending {
    Box::pin(std::future::ready(outcome))
}

fn later(outcome: Result<impl Future<Output = Result<Reply, RunnerError>> + Send + 'static, RunnerError>) -> Pending {
    match outcome {
        Ok(future) => Box::pin(future),
        Err(error) => now(Err(error)),
    }
}

/// The answer to an `exec`, when there is one.
async fn started(slot: &Slot, wait: Duration) -> Result<Reply, RunnerError> {
    let visible = slot.started().await;
    match visible.end {
        Some(End::StartFailed(error)) => return Err(error),
        // Ended while it was pending, or faster than this looked.
        Some(End::Ended(_)) | None => {}
    }
    if !wait.is_zero() {
        drop(tokio::time::timeout(wait, slot.ended()).await);
    }
    let with_status = !wait.is_zero() || !visible.started;
    let output = if wait.is_zero() { None } else { slot.journal.read(&ReadRequest::new(slot.id)).await.ok() };
    let state = slot.state();
    Ok(Reply::Exec(ExecReply {
        process_id: slot.id,
        dispatch_status: "confirmed".into(),
        status: with_status.then(|| Box::new(slot.status())),
        output: output.map(|chunk| Box::new(chunk.into_reply(slot.id, state))),
    }))
}

async fn final_status(slot: &Slot) -> Result<ProcessStatus, RunnerError> {
    match slot.ended().await.end {
        Some(End::StartFailed(_)) => {
            let message = format!("end {}: its start has failed, so there is nothing to end", slot.id);
            Err(RunnerError::new(ErrorCode::ProcessNotFound, message))
        }
        Some(End::Ended(_)) | None => Ok(slot.status()),
    }
}

/// How long the end of a workspace or of the Runner waits until those who wait for starts have taken their answers.
const TAKEN: Duration = Duration::from_secs(1);

/// Waits for the end of each, and until those who wait for their starts are answered. A client that does not take its
/// answer holds up no end.
async fn all_ended(slots: &[Arc<Slot>]) -> Vec<ProcessStatus> {
    let mut ended = Vec::with_capacity(slots.len());
    for slot in slots {
        ended.extend(final_status(slot).await.ok());
    }
    let answered = async {
        for slot in slots {
            slot.answered().await;
        }
    };
    if tokio::time::timeout(TAKEN, answered).await.is_err() {
        tracing::debug!("someone who waits for a start that was ended does not take the answer");
    }
    ended
}

fn number(signal: SignalName) -> i32 {
    match signal {
        SignalName::Int => libc::SIGINT,
        SignalName::Term => libc::SIGTERM,
        SignalName::Hup => libc::SIGHUP,
        SignalName::Quit => libc::SIGQUIT,
        SignalName::Usr1 => libc::SIGUSR1,
        SignalName::Usr2 => libc::SIGUSR2,
        SignalName::Winch => libc::SIGWINCH,
        SignalName::Cont => libc::SIGCONT,
        SignalName::Stop => libc::SIGSTOP,
        SignalName::Kill => libc::SIGKILL,
    }
}
