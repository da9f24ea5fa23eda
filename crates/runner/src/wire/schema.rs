//! The JSON Schema of everything that goes over a connection, made from the types themselves: `docs/schema/protocol.json`.
//!
//! Owns the list of methods with their params and results, which is closed: a request without a line here does not compile.
//! Params are described as they are accepted, results as they are sent.

use codespace_domain::schema::bound_numbers;
use codespace_domain::{
    CloseStdinRequest, Empty, ExecReply, ExecRequest, HelloReply, HelloRequest, ListReply, ListRequest, Notification,
    OutputNotice, PROTOCOL, ProcessStatus, ReadReply, ReadRequest, Request, ResizeReply, ResizeRequest, RunnerError,
    SignalRequest, StatusRequest, StopReply, StopRequest, SubscribeRequest, TerminateRequest, TerminateWorkspaceReply,
    TerminateWorkspaceRequest, WorkspaceInfoReply, WorkspaceInfoRequest, WriteStdinReply, WriteStdinRequest,
};
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::message::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RUNNER_ERROR};

/// One method's name, and where its params and result are described.
struct Method {
    name: &'static str,
    params: Schema,
    result: Schema,
}

macro_rules! methods {
    ($($name:literal: $variant:ident($params:ty) -> $result:ty;)*) => {
        fn methods(accepted: &mut SchemaGenerator, sent: &mut SchemaGenerator) -> Vec<Method> {
            vec![$(Method {
                name: $name,
                params: accepted.subschema_for::<$params>(),
                result: sent.subschema_for::<$result>(),
            }),*]
        }

        /// Compiles only when every request has a line, and with the params that are its own.
        const _: fn(&Request) = |request| match request {
            $(Request::$variant(params) => {
                let _: &$params = params;
            })*
        };
    };
}

methods! {
    "hello": Hello(HelloRequest) -> HelloReply;
    "workspace_info": WorkspaceInfo(WorkspaceInfoRequest) -> WorkspaceInfoReply;
    "exec": Exec(ExecRequest) -> ExecReply;
    "write_stdin": WriteStdin(WriteStdinRequest) -> WriteStdinReply;
    "close_stdin": CloseStdin(CloseStdinRequest) -> Empty;
    "read_process": ReadProcess(ReadRequest) -> ReadReply;
    "process_status": ProcessStatus(StatusRequest) -> ProcessStatus;
    "list_processes": ListProcesses(ListRequest) -> ListReply;
    "process_resize": ProcessResize(ResizeRequest) -> ResizeReply;
    "signal_process": SignalProcess(SignalRequest) -> Empty;
    "terminate_process": TerminateProcess(TerminateRequest) -> ProcessStatus;
    "terminate_workspace": TerminateWorkspace(TerminateWorkspaceRequest) -> TerminateWorkspaceReply;
    "stop": Stop(StopRequest) -> StopReply;
}

/// The JSON Schema of the wire protocol, draft 2020-12. The document itself describes any one message; under `$defs` each
/// method has `NAME.params` and `NAME.result`, and `NAME.request` and `NAME.response`, the whole messages; each
/// notification `NAME.params` and `NAME.notification`.
pub fn protocol_schema() -> Value {
    let numbers = SchemaSettings::draft2020_12().with_transform(bound_numbers);
    let mut accepted = numbers.clone().for_deserialize().into_generator();
    let mut sent = numbers.for_serialize().with_transform(as_sent).into_generator();
    let mut methods = methods(&mut accepted, &mut sent);
    methods.push(Method {
        name: SubscribeRequest::METHOD,
        params: accepted.subschema_for::<SubscribeRequest>(),
        result: sent.subschema_for::<Empty>(),
    });
    let notifications = notifications(&mut sent);
    let error = sent.subschema_for::<RunnerError>();
    let mut definitions = Definitions::of(accepted.take_definitions(true), sent.take_definitions(true));
    for Method { name, params, result } in &methods {
        definitions.add_method(name, params.as_value(), definitions.as_sent(result));
    }
    let every = |kind: &str| -> Vec<Value> {
        methods.iter().map(|method| reference(&format!("{}.{kind}", method.name))).collect()
    };
    definitions.add("Request", "What a client sends.", json!({ "oneOf": every("request") }));
    definitions.add(
        "Response",
        "What the Runner sends. Which result it is follows from the request with the same id.",
        json!({ "anyOf": every("response") }),
    );
    for (name, params) in &notifications {
        definitions.add_notification(name, definitions.as_sent(params));
    }
    let told = notifications.iter().map(|(name, _)| reference(&format!("{name}.notification"))).collect::<Vec<_>>();
    definitions.add("Notification", "What the Runner tells a subscriber, unasked.", json!({ "oneOf": told }));
    definitions.add(
        "Id",
        "Ties an answer to its request. At most 1,024 bytes of JSON text; comes back byte for byte as \
        it was sent.",
        json!({ "type": ["number", "string"] }),
    );
    definitions.add(
        "Error",
        "An error of JSON-RPC's own, without `data`, or with -32000 one of the Runner.",
        error_object(&definitions.as_sent(&error)),
    );
    definitions.add(
        "ErrorResponse",
        "The answer to a request that failed. `id` is null where it could not be told.",
        json!({
            "type": "object",
            "properties": {
                "jsonrpc": { "const": "2.0" },
                "id": { "anyOf": [reference("Id"), { "type": "null" }] },
                "error": reference("Error")
            },
            "required": ["jsonrpc", "id", "error"],
            "not": { "required": ["result"] }
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("The wire protocol of the CodeSpace Runner, version {PROTOCOL}"),
        "description": "Any one message: the payload of a frame. Of each method, `$defs` has `NAME.params`, `NAME.result`, \
            `NAME.request` and `NAME.response`; of each notification `NAME.params` and `NAME.notification`. Whole numbers are to be written without a fraction or an exponent, and no \
            member twice; a schema cannot say either.",
        "anyOf": [reference("Request"), reference("Response"), reference("Notification")],
        "$defs": definitions.0
    })
}

/// Each notification's name and its params.
fn notifications(sent: &mut SchemaGenerator) -> [(&'static str, Schema); 2] {
    // Compiles only when every notification has its line below.
    const _: fn(&Notification) = |told| match told {
        Notification::Output(_) | Notification::Exited(_) => {}
    };
    let [output, exited] = Notification::METHODS;
    [(output, sent.subschema_for::<OutputNotice>()), (exited, sent.subschema_for::<ProcessStatus>())]
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn error_object(runner_error: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": { "enum": [INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, RUNNER_ERROR] },
            "message": { "type": "string", "description": "A lower-case fragment that finishes \"failed to ...\"." },
            "data": runner_error
        },
        "required": ["code", "message"],
        "if": { "properties": { "code": { "const": RUNNER_ERROR } } },
        "then": { "required": ["data"] },
        "else": { "not": { "required": ["data"] } }
    })
}

/// What `$defs` holds.
struct Definitions(Map<String, Value>);

/// Added to the name of a type that is described twice: as it is accepted and, where that differs, as it is sent.
const SENT: &str = "Sent";

impl Definitions {
    fn of(accepted: Map<String, Value>, sent: Map<String, Value>) -> Self {
        let differs = |name: &String| accepted.get(name).is_some_and(|other| *other != sent[name]);
        let renamed: Vec<String> = sent.keys().filter(|name| differs(name)).cloned().collect();
        let mut all = Self(accepted);
        for name in &renamed {
            all.0.insert(format!("{name}{SENT}"), Value::Null);
        }
        for (name, schema) in sent {
            let schema = all.with_names_as_sent(schema);
            let name = if renamed.contains(&name) { format!("{name}{SENT}") } else { name };
            all.0.insert(name, schema);
        }
        all
    }

    /// A reference to a type that is sent.
    fn as_sent(&self, reference: &Schema) -> Value {
        self.with_names_as_sent(reference.clone().to_value())
    }

    fn with_names_as_sent(&self, value: Value) -> Value {
        match value {
            Value::String(text) => {
                let name = text.strip_prefix("#/$defs/").map(|name| format!("{name}{SENT}"));
                let name = name.filter(|name| self.0.contains_key(name));
                Value::String(name.map_or(text, |name| format!("#/$defs/{name}")))
            }
            Value::Array(values) => values.into_iter().map(|value| self.with_names_as_sent(value)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (name, self.with_names_as_sent(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn add(&mut self, name: &str, description: &str, mut schema: Value) {
        schema["description"] = description.into();
        self.0.insert(name.to_owned(), schema);
    }

    fn add_notification(&mut self, name: &str, params: Value) {
        self.add(&format!("{name}.params"), &format!("Params of `{name}`."), params);
        let message = json!({
            "type": "object",
            "properties": {
                "jsonrpc": { "const": "2.0" },
                "method": { "const": name },
                "params": reference(&format!("{name}.params"))
            },
            "required": ["jsonrpc", "method", "params"],
            "not": { "required": ["id"] }
        });
        self.add(
            &format!("{name}.notification"),
            &format!("A whole `{name}`. It has no id, and is not answered."),
            message,
        );
    }

    fn add_method(&mut self, name: &str, params: &Value, result: Value) {
        let params_name = params["$ref"].as_str().and_then(|to| to.strip_prefix("#/$defs/")).unwrap_or_default();
        let may_be_left_out = self.0[params_name]["required"].as_array().is_none_or(Vec::is_empty)
            && self.0[params_name].get("oneOf").is_none();
        let mut required = vec!["jsonrpc", "method"];
        if !may_be_left_out {
            required.push("params");
        }
        // The answer to the greeting is what the connection begins with: it cannot be a notification.
        if name == "hello" {
            required.push("id");
        }
        self.add(&format!("{name}.params"), &format!("Params of `{name}`."), params.clone());
        self.add(&format!("{name}.result"), &format!("Result of `{name}`."), result);
        let request = json!({
            "type": "object",
            "properties": {
                "jsonrpc": { "const": "2.0" },
                "id": reference("Id"),
                "method": { "const": name },
                "params": reference(&format!("{name}.params"))
            },
            "required": required
        });
        self.add(
            &format!("{name}.request"),
            &format!("A whole `{name}`. Without an `id` it is never answered."),
            request,
        );
        let response = json!({
            "if": { "required": ["error"] },
            "then": reference("ErrorResponse"),
            "else": {
                "type": "object",
                "properties": {
                    "jsonrpc": { "const": "2.0" },
                    "id": reference("Id"),
                    "result": reference(&format!("{name}.result"))
                },
                "required": ["jsonrpc", "id", "result"]
            }
        });
        self.add(&format!("{name}.response"), &format!("The whole answer to `{name}`."), response);
    }
}

/// What a type may leave out is never sent as `null`; and a later version may send more than this one.
fn as_sent(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let optional =
            properties.iter_mut().filter(|(name, _)| !required.as_array().is_some_and(|r| r.contains(&json!(name))));
        for (_, property) in optional {
            without_null(property);
        }
    }
    transform_subschemas(&mut as_sent, schema);
}

fn without_null(property: &mut Value) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            property["type"] = only.clone();
        }
    }
    let Some(Value::Array(forms)) = property.get_mut("anyOf") else { return };
    forms.retain(|form| *form != json!({ "type": "null" }));
    if let [Value::Object(only)] = forms.as_slice() {
        let only = only.clone();
        if let Some(members) = property.as_object_mut() {
            members.remove("anyOf");
            members.extend(only);
        }
    }
}
