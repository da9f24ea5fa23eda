//! The tools: their names, what a model is told of each, and the schemas of what goes in and comes out.
//!
//! Shapes are the domain's own, so that a tool, a method of the socket and this page cannot drift apart. What a call
//! does is in [`call`].

pub mod call;
pub mod exec;
mod parameters;
mod plain;
mod schema;
mod wait;

use std::sync::{Arc, LazyLock};

use codespace_domain as domain;
use rmcp::model::{Tool, ToolAnnotations};

/// Every tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the tool of its name")]
pub enum ToolName {
    WorkspaceInfo,
    ExecCommand,
    ReadProcess,
    WriteStdin,
    CloseStdin,
    ProcessStatus,
    ListProcesses,
    ProcessResize,
    SignalProcess,
    TerminateProcess,
    TerminateWorkspace,
}

impl ToolName {
    /// In the order in which they are listed: the ones that a model needs first come first.
    pub const ALL: [Self; 11] = [
        Self::WorkspaceInfo,
        Self::ExecCommand,
        Self::ReadProcess,
        Self::WriteStdin,
        Self::CloseStdin,
        Self::ProcessStatus,
        Self::ListProcesses,
        Self::ProcessResize,
        Self::SignalProcess,
        Self::TerminateProcess,
        Self::TerminateWorkspace,
    ];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceInfo => "workspace_info",
            Self::ExecCommand => "exec_command",
            Self::ReadProcess => "read_process",
            Self::WriteStdin => "write_stdin",
            Self::CloseStdin => "close_stdin",
            Self::ProcessStatus => "process_status",
            Self::ListProcesses => "list_processes",
            Self::ProcessResize => "process_resize",
            Self::SignalProcess => "signal_process",
            Self::TerminateProcess => "terminate_process",
            Self::TerminateWorkspace => "terminate_workspace",
        }
    }

    /// The tool of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// What a client is told of it. Worked out once: schemas are long.
    pub fn definition(self) -> Tool {
        static ALL: LazyLock<[Tool; ToolName::ALL.len()]> = LazyLock::new(|| ToolName::ALL.map(ToolName::define));
        ALL[self as usize].clone()
    }

    fn define(self) -> Tool {
        let (mut input, output) = match self {
            Self::WorkspaceInfo => {
                (schema::input::<domain::WorkspaceInfoRequest>(), schema::output::<domain::WorkspaceInfoReply>())
            }
            Self::ExecCommand => (exec::input_schema(), schema::output::<exec::ExecCommandResult>()),
            Self::ReadProcess => (schema::input::<domain::ReadRequest>(), schema::output::<domain::ReadReply>()),
            Self::WriteStdin => {
                (schema::input::<domain::WriteStdinRequest>(), schema::output::<domain::WriteStdinReply>())
            }
            Self::CloseStdin => (schema::input::<domain::CloseStdinRequest>(), schema::output::<domain::Empty>()),
            Self::ProcessStatus => {
                (schema::input::<domain::StatusRequest>(), schema::output::<domain::ProcessStatus>())
            }
            Self::ListProcesses => (schema::input::<domain::ListRequest>(), schema::output::<domain::ListReply>()),
            Self::ProcessResize => (schema::input::<domain::ResizeRequest>(), schema::output::<domain::ResizeReply>()),
            Self::SignalProcess => (schema::input::<domain::SignalRequest>(), schema::output::<domain::Empty>()),
            Self::TerminateProcess => {
                (schema::input::<domain::TerminateRequest>(), schema::output::<domain::ProcessStatus>())
            }
            Self::TerminateWorkspace => (
                schema::input::<domain::TerminateWorkspaceRequest>(),
                schema::output::<domain::TerminateWorkspaceReply>(),
            ),
        };
        parameters::describe(self, &mut input);
        let (title, description) = self.words();
        Tool::new(self.as_str(), description, Arc::new(input))
            .with_title(title)
            .with_raw_output_schema(Arc::new(output))
            .with_annotations(self.annotations().clone())
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::WorkspaceInfo => (
                "Workspaces",
                "Lists the workspaces that commands can run in, or describes one: its root, what may be written, and \
                 what is really enforced.",
            ),
            Self::ExecCommand => (
                "Run a command",
                "Runs a command in a workspace, inside its sandbox. `command` is an argument list; for shell syntax \
                 use [\"bash\", \"-c\", \"...\"]. Waits up to `wait_ms` (default 10000) and returns how it ended and \
                 its output; a longer one goes on, and the result has a `process_id` and a `cursor` to read on from. \
                 Whatever it leaves running when it ends is ended too, unless `background` is \"keep\".",
            ),
            Self::ReadProcess => (
                "Read output",
                "Reads a process's output from `cursor` on; `wait_ms` waits for a byte or the end. `eof` means that no \
                 more can come. `tail_bytes` reads only the latest.",
            ),
            Self::WriteStdin => (
                "Write to stdin",
                "Writes to a process that was started with `stdin: \"pipe\"` or `tty: true`. Control characters work \
                 on a terminal: \\u0003 is Ctrl-C.",
            ),
            Self::CloseStdin => ("Close stdin", "Ends a process's standard input; a terminal gets its end-of-file."),
            Self::ProcessStatus => {
                ("Process status", "Says how a process stands or how it ended; `wait_ms` waits for the end.")
            }
            Self::ListProcesses => ("Processes", "Lists live and lately ended processes."),
            Self::ProcessResize => ("Resize a terminal", "Sets the size of a process's terminal."),
            Self::SignalProcess => (
                "Send a signal",
                "Sends a signal to a command's process group. To be sure that everything it started is gone, use \
                 terminate_process.",
            ),
            Self::TerminateProcess => (
                "End a process",
                "Ends a process with everything that it started, and answers when that was seen to be gone. \
                 `grace_ms` sends SIGTERM first.",
            ),
            Self::TerminateWorkspace => {
                ("End a workspace's processes", "Ends every process of a workspace with everything that they started.")
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let (read_only, destructive, idempotent) = match self {
            Self::WorkspaceInfo | Self::ReadProcess | Self::ProcessStatus | Self::ListProcesses => (true, false, true),
            Self::ExecCommand => (false, true, false),
            Self::WriteStdin => (false, true, false),
            Self::CloseStdin => (false, false, false),
            Self::ProcessResize => (false, false, true),
            Self::SignalProcess => (false, true, false),
            Self::TerminateProcess | Self::TerminateWorkspace => (false, true, true),
        };
        // A command reaches what its workspace's network policy lets it reach.
        let open_world = matches!(self, Self::ExecCommand | Self::WriteStdin);
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What the APIs of models know of JSON Schema, as far as arguments go.
    const KNOWN: [&str; 13] = [
        "type",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "default",
        "minimum",
        "maximum",
        "minItems",
        "minLength",
        "maxLength",
    ];

    fn assert_plain(tool: ToolName, schema: &Value) {
        let schema = schema.as_object().expect("a schema that is an object");
        assert!(schema["type"].is_string(), "{tool:?}: {schema:?}");
        for word in schema.keys() {
            assert!(KNOWN.contains(&word.as_str()), "{tool:?}: {word}");
        }
        let inner = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
        let more = ["items", "additionalProperties"].iter().filter_map(|word| schema.get(*word));
        inner.chain(more.filter(|schema| schema.is_object())).for_each(|schema| assert_plain(tool, schema));
    }

    #[test]
    fn every_tool_has_words_and_arguments_that_any_model_can_be_given() {
        for name in ToolName::ALL {
            let tool = name.definition();
            assert_eq!((&*tool.name, ToolName::find(&tool.name)), (name.as_str(), Some(name)));
            assert!(tool.description.is_some_and(|words| words.len() > 20));
            assert_eq!(tool.input_schema["type"], "object", "{name:?}");
            assert_plain(name, &Value::Object(tool.input_schema.as_ref().clone()));
        }
        assert_eq!(ToolName::find("stop"), None);
    }

    #[test]
    fn every_result_is_told_as_one_object_that_may_be_a_refusal_without_references() {
        for name in ToolName::ALL {
            let schema = name.definition().output_schema.expect("a schema");
            assert_eq!(schema["type"], "object", "{name:?}");
            let forms = schema["anyOf"].as_array().expect("what comes together");
            assert!(
                forms.iter().all(|form| form.as_object().is_some_and(|form| form.len() == 1)),
                "{name:?}: {forms:?}"
            );
            assert_eq!(forms.last(), Some(&serde_json::json!({"required": ["code", "message"]})), "{name:?}");
            assert!(schema["properties"]["hint"].is_object(), "{name:?}");
            let text = serde_json::to_string(&schema).expect("JSON");
            assert!(!text.contains("$ref") && !text.contains("\"null\""), "{name:?}: {text}");
        }
    }
}
