//! JSON-RPC 2.0 messages: bytes to requests and responses, and requests and responses to bytes.
//!
//! Owns the protocol's own error codes and the mapping of [`RunnerError`] to error objects and back. Knows no frame
//! and no connection; whatever cannot be understood becomes a [`Fault`], which is itself a response to send.

use codespace_domain::{ErrorCode, Notification, Reply, Request, RunnerError, SubscribeRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope::{Envelope, Tagged, read_params, text_of};
use super::id::Id;

/// Not a JSON-RPC 2.0 request.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The params do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// A fault of the Runner's side of the protocol.
pub const INTERNAL_ERROR: i64 = -32603;
/// The Runner's answer is a [`RunnerError`], found in `data`.
pub const RUNNER_ERROR: i64 = -32000;

/// A message to the Runner that has the form of a request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Absent in a notification, which is never answered.
    pub id: Option<Id>,
    /// The method's name; not looked up yet.
    pub method: String,
    /// The params, an object whose members are not looked at yet; `None` where there were none.
    params: Option<Box<RawValue>>,
}

/// What a [`Call`] asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Something that is answered once.
    Request(Request),
    /// Something that is answered, and then told about.
    Subscribe(SubscribeRequest),
}

/// A message that cannot be taken as a request, and what to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// `null` on the wire when it could not be told.
    pub id: Option<Id>,
    /// The answer.
    pub error: ErrorObject,
}

/// The `error` of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// One of the codes above.
    pub code: i64,
    /// A lower-case fragment that finishes "failed to ...".
    pub message: String,
    /// With [`RUNNER_ERROR`]: a [`RunnerError`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// An error of the protocol itself.
    pub fn protocol(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The error as a caller of the Runner sees it, whatever the other side has sent.
    pub fn into_runner_error(self) -> RunnerError {
        self.data
            .and_then(|data| serde_json::from_value(data).ok())
            .unwrap_or_else(|| RunnerError::new(ErrorCode::Internal, format!("{} (error {})", self.message, self.code)))
    }
}

impl From<&RunnerError> for ErrorObject {
    fn from(error: &RunnerError) -> Self {
        Self { code: RUNNER_ERROR, message: error.message.clone(), data: serde_json::to_value(error).ok() }
    }
}

/// An answer on its way out.
#[derive(Debug, Serialize)]
pub struct Response<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    #[serde(flatten)]
    outcome: Outcome<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Result(&'a Reply),
    Error(ErrorObject),
}

impl<'a> Response<'a> {
    /// The answer to the request `id`.
    pub fn new(id: &'a Id, outcome: &'a Result<Reply, RunnerError>) -> Self {
        match outcome {
            Ok(reply) => Self { jsonrpc: "2.0", id: Some(id), outcome: Outcome::Result(reply) },
            Err(error) => Self::error(Some(id), error.into()),
        }
    }

    /// An error, to the request `id` or to a message whose id could not be told.
    pub fn error(id: Option<&'a Id>, error: ErrorObject) -> Self {
        Self { jsonrpc: "2.0", id, outcome: Outcome::Error(error) }
    }
}

impl Fault {
    /// An answer to a message whose id could not be told.
    pub fn nameless(message: impl Into<String>) -> Self {
        Self { id: None, error: ErrorObject::protocol(INVALID_REQUEST, message) }
    }

    /// The answer to send.
    pub fn response(&self) -> Response<'_> {
        Response::error(self.id.as_ref(), self.error.clone())
    }
}

impl Call {
    /// Reads a payload that should be one request or notification.
    pub fn parse(payload: &[u8]) -> Result<Self, Fault> {
        let envelope = Envelope::read(payload).map_err(Fault::nameless)?;
        let id = envelope.id.map(Id::read).transpose().map_err(|error| Fault::nameless(format!("take {error}")))?;
        let fault = |code, message: &str| Fault { id: id.clone(), error: ErrorObject::protocol(code, message) };
        if envelope.jsonrpc.and_then(text_of).as_deref() != Some("2.0") {
            return Err(fault(INVALID_REQUEST, "take a message without \"jsonrpc\": \"2.0\""));
        }
        let Some(method) = envelope.method.and_then(text_of) else {
            return Err(fault(INVALID_REQUEST, "take a message without a method"));
        };
        // By position they would be taken in the order of a struct's fields, which is no part of the contract.
        if envelope.params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(fault(INVALID_PARAMS, "take params that are no object: name each of them"));
        }
        Ok(Self { id, method, params: envelope.params.map(ToOwned::to_owned) })
    }

    /// The `protocol` of a `hello`, whatever its other params are: those of another version may have another form.
    pub fn protocol(&self) -> Option<serde_json::Number> {
        #[derive(Deserialize)]
        struct Version {
            protocol: serde_json::Number,
        }
        let version: Version = serde_json::from_str(self.params.as_ref()?.get()).ok()?;
        Some(version.protocol)
    }

    /// What is meant. Gives the id back with either outcome.
    pub fn into_asked(self) -> Result<(Option<Id>, Asked), Fault> {
        let Self { id, method, params } = self;
        if method == SubscribeRequest::METHOD {
            return match read_params(params.as_deref()) {
                Ok(request) => Ok((id, Asked::Subscribe(request))),
                Err(error) => Err(bad_params(id, &method, &error)),
            };
        }
        if !Request::METHODS.contains(&method.as_str()) {
            let name: String = method.chars().take(80).collect();
            let error = ErrorObject::protocol(METHOD_NOT_FOUND, format!("find the method {name:?}"));
            return Err(Fault { id, error });
        }
        match Tagged::new(&method, params.as_deref()).read() {
            Ok(request) => Ok((id, Asked::Request(request))),
            Err(error) => Err(bad_params(id, &method, &error)),
        }
    }
}

fn bad_params(id: Option<Id>, method: &str, error: &str) -> Fault {
    Fault { id, error: ErrorObject::protocol(INVALID_PARAMS, format!("take the params of {method}: {error}")) }
}

/// A request on its way out.
#[derive(Debug, Serialize)]
pub struct Outgoing<'a> {
    jsonrpc: &'static str,
    id: u64,
    #[serde(flatten)]
    asked: OutgoingAsked<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OutgoingAsked<'a> {
    Request(&'a Request),
    Subscribe { method: &'static str, params: &'a SubscribeRequest },
}

impl<'a> Outgoing<'a> {
    /// A request whose answer will carry `id`.
    pub fn new(id: u64, request: &'a Request) -> Self {
        Self { jsonrpc: "2.0", id, asked: OutgoingAsked::Request(request) }
    }

    /// The same for a subscription.
    pub fn subscribe(id: u64, params: &'a SubscribeRequest) -> Self {
        Self { jsonrpc: "2.0", id, asked: OutgoingAsked::Subscribe { method: SubscribeRequest::METHOD, params } }
    }
}

/// A notification on its way out.
#[derive(Debug, Serialize)]
pub struct Told<'a> {
    jsonrpc: &'static str,
    #[serde(flatten)]
    notification: &'a Notification,
}

impl<'a> Told<'a> {
    /// It has no id, and is not answered.
    pub fn new(notification: &'a Notification) -> Self {
        Self { jsonrpc: "2.0", notification }
    }
}

/// Whatever the Runner sends.
#[derive(Debug)]
pub enum Incoming {
    /// The answer to a request.
    Answer(Answer),
    /// What a subscription tells.
    Told(Box<Notification>),
    /// A notification of a Runner that is newer than this. Not for us.
    Unknown,
}

impl Incoming {
    /// Reads a payload that should be one response or one notification.
    pub fn parse(payload: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Either {
            id: Option<Id>,
            result: Option<Value>,
            error: Option<ErrorObject>,
            method: Option<String>,
            params: Option<Value>,
        }
        let Either { id, result, error, method, params } = serde_json::from_slice(payload)?;
        match method {
            None => Ok(Self::Answer(Answer { id, result, error })),
            Some(method) if Notification::METHODS.contains(&method.as_str()) => {
                serde_json::from_value(serde_json::json!({"method": method, "params": params})).map(Self::Told)
            }
            Some(_) => Ok(Self::Unknown),
        }
    }
}

/// An answer that came in.
#[derive(Debug)]
pub struct Answer {
    /// `null` where the other side could not tell what it answers.
    pub id: Option<Id>,
    result: Option<Value>,
    error: Option<ErrorObject>,
}

impl Answer {
    /// The bare result, or the error.
    pub fn into_outcome(self) -> Result<Value, RunnerError> {
        match (self.result, self.error) {
            (_, Some(error)) => Err(error.into_runner_error()),
            (Some(result), None) => Ok(result),
            (None, None) => {
                Err(RunnerError::new(ErrorCode::Internal, "read an answer: it has neither a result nor an error"))
            }
        }
    }
}

/// Which result a method has. On the wire it is bare, so that only the request tells.
#[derive(Debug, Clone, Copy)]
pub struct ReplyKind(fn(Value) -> Result<Reply, serde_json::Error>);

impl ReplyKind {
    /// The kind of result that answers `request`.
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Hello(_) => Self(|value| read(value, Reply::Hello)),
            Request::WorkspaceInfo(_) => Self(|value| read(value, Reply::WorkspaceInfo)),
            Request::Exec(_) => Self(|value| read(value, Reply::Exec)),
            Request::WriteStdin(_) => Self(|value| read(value, Reply::WriteStdin)),
            Request::CloseStdin(_) | Request::SignalProcess(_) => Self(|value| read(value, Reply::Done)),
            Request::ReadProcess(_) => Self(|value| read(value, Reply::Read)),
            Request::ProcessStatus(_) | Request::TerminateProcess(_) => Self(|value| read(value, Reply::Status)),
            Request::ListProcesses(_) => Self(|value| read(value, Reply::List)),
            Request::ProcessResize(_) => Self(|value| read(value, Reply::Resize)),
            Request::TerminateWorkspace(_) => Self(|value| read(value, Reply::TerminateWorkspace)),
            Request::Stop(_) => Self(|value| read(value, Reply::Stop)),
        }
    }

    /// Reads a bare result as this kind.
    pub fn decode(self, result: Value) -> Result<Reply, RunnerError> {
        (self.0)(result)
            .map_err(|error| RunnerError::new(ErrorCode::Internal, format!("read the result of a request: {error}")))
    }
}

fn read<T: DeserializeOwned>(value: Value, reply: fn(T) -> Reply) -> Result<Reply, serde_json::Error> {
    serde_json::from_value(value).map(reply)
}
