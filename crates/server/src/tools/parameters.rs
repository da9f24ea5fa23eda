//! What a model is told of a tool's parameter where the protocol's own words are not enough: those are written for somebody
//! who has read the protocol, and a model has only this line.

use rmcp::model::JsonObject;
use serde_json::json;

use super::ToolName;

/// Puts the words into the schema of the tool's arguments.
pub(super) fn describe(tool: ToolName, schema: &mut JsonObject) {
    let Some(properties) = schema.get_mut("properties").and_then(|properties| properties.as_object_mut()) else {
        return;
    };
    for (name, words) in of_all().iter().chain(of(tool)) {
        if let Some(property) = properties.get_mut(*name) {
            property["description"] = json!(words);
        }
    }
}

type Words = (&'static str, &'static str);

/// The same wherever they are.
fn of_all() -> &'static [Words] {
    &[
        ("process_id", "The process, as exec_command or list_processes named it: `proc-` and a UUID."),
        ("workspace_id", "The workspace, as workspace_info names it."),
    ]
}

fn of(tool: ToolName) -> &'static [Words] {
    match tool {
        ToolName::WorkspaceInfo => &[("workspace_id", "Describe this workspace alone. Absent: all.")],
        ToolName::ExecCommand => EXEC_COMMAND,
        ToolName::ReadProcess => &[
            ("cursor", "The offset of the first byte wanted: 0, or the `cursor` of the result before."),
            ("wait_ms", "Where there is nothing to read yet, wait so long for a byte or the end, in milliseconds."),
            ("max_bytes", "The most bytes to return, at least 4."),
            (
                "stream",
                "Both streams in their order (`combined`), or one of them. `cursor` counts the bytes of just that.",
            ),
            ("tail_bytes", "Read only the latest so many bytes; `cursor` then does not count."),
            (
                "encoding",
                "`utf-8`: as text, where bytes that are no UTF-8 become U+FFFD. `base64`: any bytes as they are.",
            ),
            (
                "peek",
                "Only look: for a process with `on_full: \"wait\"` the bytes do not count as read, and make no room.",
            ),
        ],
        ToolName::WriteStdin => &[
            ("data", "What to write, as it is: nothing is added, so that a line has to end with \\n."),
            ("encoding", "What `data` is. `utf-8`: text. `base64`: any bytes, encoded."),
            ("write_key", "A name of your own for this write: a repeated call with the same one writes nothing more."),
        ],
        ToolName::CloseStdin => &[],
        ToolName::ProcessStatus => &[("wait_ms", "Wait so long for the end, in milliseconds, before the answer.")],
        ToolName::ListProcesses => &[
            ("workspace_id", "Only the processes of this workspace. Absent: of all."),
            ("state", "Only those in this state. Absent: both."),
        ],
        ToolName::ProcessResize => &[
            ("rows", "The terminal's height in lines, at least 1."),
            ("cols", "The terminal's width in characters, at least 1."),
        ],
        ToolName::SignalProcess => &[("signal", "Its name without SIG. INT is what Ctrl-C sends.")],
        ToolName::TerminateProcess => &[
            ("process_id", "The process. Either this, or `workspace_id` with `process_key`."),
            ("workspace_id", "The workspace of `process_key`; only together with it."),
            ("process_key", "The `process_key` that exec_command was given, also while its start is under way."),
            ("grace_ms", GRACE),
        ],
        ToolName::TerminateWorkspace => &[("grace_ms", GRACE)],
    }
}

const GRACE: &str = "Send SIGTERM first and wait so long, in milliseconds, before the end by force. \
    Absent: what exec_command said, which is at once where it said nothing.";

const EXEC_COMMAND: &[Words] = &[
    (
        "command",
        "The program and its arguments, such as [\"python3\", \"-m\", \"pytest\"]. No shell line: for pipes, redirections \
         or && say [\"bash\", \"-c\", \"...\"].",
    ),
    ("cwd", "The directory to run in, relative to the workspace's root. Absent: the root."),
    ("env", "Variables to add to the small environment that every command gets, name to value."),
    (
        "wait_ms",
        "How long this call waits for the end, in milliseconds; a command that takes longer goes on. 0: answer as soon as \
         it runs.",
    ),
    (
        "timeout_ms",
        "End the command after so long, in milliseconds. Absent: the workspace's own timeout, if it has one. 0: none, \
         as far as the workspace lets.",
    ),
    ("grace_ms", "Whatever ends it sends SIGTERM first and waits so long, in milliseconds. 0: it is ended at once."),
    (
        "linger_ms",
        "How long what the command left running may go on after its end, in milliseconds (default 250). Then it is ended.",
    ),
    (
        "background",
        "What becomes of what the command leaves running. `end`: it is ended too. `keep`: it goes on, and so does the \
         process, until terminate_process.",
    ),
    (
        "lifetime",
        "`workspace`: the process outlives this session. `connection`: it ends when this client's session ends.",
    ),
    (
        "tty",
        "Give the command a terminal, for programs that ask or draw; both streams are then one. Write with write_stdin.",
    ),
    ("rows", "The terminal's height in lines (default 24); only with `tty`."),
    ("cols", "The terminal's width in characters (default 80); only with `tty`."),
    (
        "stdin",
        "`none`: at its end from the start. `pipe`: open for write_stdin until close_stdin. A `tty` always has one.",
    ),
    (
        "process_key",
        "A name of your own for this start: a repeated call with the same one returns the same process and starts no \
         second one.",
    ),
    ("output_bytes", "How many bytes of the latest output are kept for read_process (default 1 MiB)."),
    (
        "on_full",
        "When more output comes than is kept. `drop`: the oldest goes, and read_process says so. `wait`: the command \
         waits until it was read.",
    ),
    ("limits", "Limits for this command. They only narrow those of the workspace."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_a_description_and_no_words_are_for_one_that_is_not_there() {
        for tool in ToolName::ALL {
            let schema = tool.definition().input_schema;
            let properties = schema["properties"].as_object().expect("properties");
            for (name, words) in of(tool) {
                assert_eq!(properties[*name]["description"], *words, "{tool:?}");
            }
            for (name, property) in properties {
                let words = property["description"].as_str().unwrap_or_default();
                assert!(
                    words.len() > 15 && words.ends_with('.') && !words.contains("`exec`"),
                    "{tool:?} {name}: {words:?}"
                );
            }
        }
    }
}
