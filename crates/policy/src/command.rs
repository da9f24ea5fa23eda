//! Whether a request can be a command at all: its argv, the names and values of its environment, its terminal's size.
//! Looks at nothing but the request. Says which part is wrong, never what a value holds.

use codespace_domain::{ByteString, ErrorCode, ExecRequest, RunnerError};

use crate::environment::name_fault;

/// Refuses with `INVALID_COMMAND`, naming the part.
pub(crate) fn check(request: &ExecRequest) -> Result<(), RunnerError> {
    match fault(request) {
        Some(fault) => Err(RunnerError::new(ErrorCode::InvalidCommand, format!("take the command: {fault}"))),
        None => Ok(()),
    }
}

fn fault(request: &ExecRequest) -> Option<String> {
    let Some(program) = request.command.first() else {
        return Some("its argv is empty".into());
    };
    if program.is_empty() {
        return Some("argv[0] is empty".into());
    }
    if let Some(index) = request.command.iter().position(has_nul) {
        return Some(format!("argv[{index}] has a NUL byte"));
    }
    for (name, value) in &request.env {
        if let Some(fault) = name_fault(name) {
            return Some(format!("env {name:?}: {fault}"));
        }
        if value.as_ref().is_some_and(has_nul) {
            return Some(format!("env {name:?}: the value has a NUL byte"));
        }
    }
    if request.cwd.as_ref().is_some_and(has_nul) {
        return Some("cwd has a NUL byte".into());
    }
    if request.rows == Some(0) || request.cols == Some(0) {
        return Some("a terminal has at least one row and one column".into());
    }
    let limits = request.limits;
    let zero = [
        ("memory_bytes", limits.memory_bytes),
        ("pids", limits.pids),
        ("cpu_seconds", limits.cpu_seconds),
        ("open_files", limits.open_files),
    ];
    let zero = zero.into_iter().find(|(_, value)| *value == Some(0));
    zero.map(|(name, _)| format!("limits.{name} is 0; at least 1 expected"))
}

fn has_nul(bytes: &ByteString) -> bool {
    bytes.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use codespace_domain::Limits;

    use super::*;

    fn request() -> ExecRequest {
        ExecRequest::new("demo".parse().unwrap(), ["true", "x"])
    }

    fn refusal(change: impl FnOnce(&mut ExecRequest)) -> String {
        let mut request = request();
        change(&mut request);
        let error = check(&request).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidCommand);
        error.message
    }

    #[test]
    fn a_plain_command_passes() {
        assert_eq!(check(&request()), Ok(()));
    }

    #[test]
    fn every_bad_part_is_named() {
        assert!(refusal(|r| r.command.clear()).ends_with("its argv is empty"));
        assert!(refusal(|r| r.command[0] = "".into()).ends_with("argv[0] is empty"));
        assert!(refusal(|r| r.command[1] = "a\0b".into()).ends_with("argv[1] has a NUL byte"));
        assert!(refusal(|r| r.cwd = Some("a\0".into())).ends_with("cwd has a NUL byte"));
        assert!(refusal(|r| r.rows = Some(0)).ends_with("one row and one column"));
        assert!(refusal(|r| r.cols = Some(0)).ends_with("one row and one column"));
        let limits = Limits { open_files: Some(0), ..Limits::default() };
        assert!(refusal(|r| r.limits = limits).contains("limits.open_files"));
        for (name, fault) in [("", "is empty"), ("A=B", "has a '='"), ("A\0", "has a NUL byte")] {
            assert!(refusal(|r| drop(r.env.insert(name.into(), None))).ends_with(fault), "{name:?}");
        }
    }

    #[test]
    fn a_refusal_never_holds_the_value() {
        let message = refusal(|r| drop(r.env.insert("TOKEN".into(), Some("hunter2\0".into()))));
        assert!(message.contains("TOKEN") && !message.contains("hunter2"), "{message}");
    }
}
