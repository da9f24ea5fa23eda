//! Limits and timeouts: the registry's, narrowed by the request's. A limit that nothing here can enforce is refused.

use codespace_domain::{ErrorCode, Limits, RunnerError};
use codespace_linux_sandbox_protocol::Rlimits;

use crate::TimeoutPolicy;

/// The limits in force.
pub(crate) fn effective(workspace: Limits, request: Limits) -> Result<Limits, RunnerError> {
    let limits = workspace.narrowed_by(request);
    // The limit of a whole tree needs a cgroup's controllers, which this version does not use yet.
    let of_the_tree = [("memory_bytes", limits.memory_bytes), ("pids", limits.pids)];
    if let Some((name, _)) = of_the_tree.into_iter().find(|(_, value)| value.is_some()) {
        let message = format!("enforce limits.{name}: this version does not use the cgroup controllers that it needs");
        return Err(RunnerError::new(ErrorCode::LimitUnsupported, message)
            .with_hint("leave it out here and in the workspace's registry entry"));
    }
    Ok(limits)
}

/// The part of the limits that the kernel keeps per process.
pub(crate) fn of_a_process(limits: Limits) -> Rlimits {
    let Limits { cpu_seconds, file_bytes, open_files, .. } = limits;
    Rlimits { cpu_seconds, file_bytes, open_files }
}

/// The timeout in force, in milliseconds; `None` when there is none.
pub(crate) fn timeout_ms(workspace: TimeoutPolicy, request: Option<u64>) -> Option<u64> {
    let asked = request.or(workspace.default).filter(|ms| *ms != 0);
    match (asked, workspace.max) {
        (Some(asked), Some(max)) => Some(asked.min(max)),
        (asked, max) => asked.or(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_the_requests_else_the_default_and_never_above_the_max() {
        let policy = |default, max| TimeoutPolicy { default, max };
        for (workspace, request, expected) in [
            (policy(None, None), None, None),
            (policy(None, None), Some(0), None),
            (policy(None, None), Some(7), Some(7)),
            (policy(Some(5), None), None, Some(5)),
            (policy(Some(5), None), Some(0), None),
            (policy(Some(5), Some(9)), None, Some(5)),
            (policy(Some(5), Some(9)), Some(0), Some(9)),
            (policy(Some(5), Some(9)), Some(99), Some(9)),
            (policy(Some(5), Some(9)), Some(1), Some(1)),
            (policy(None, Some(9)), None, Some(9)),
            (policy(Some(0), Some(9)), None, Some(9)),
        ] {
            assert_eq!(timeout_ms(workspace, request), expected, "{workspace:?} {request:?}");
        }
    }

    #[test]
    fn limits_of_a_process_are_narrowed_and_go_to_the_kernel() {
        let workspace = Limits { cpu_seconds: Some(10), open_files: Some(64), ..Limits::default() };
        let request = Limits { cpu_seconds: Some(99), file_bytes: Some(0), ..Limits::default() };
        let limits = effective(workspace, request).unwrap();
        assert_eq!(limits, Limits { file_bytes: Some(0), ..workspace });
        assert_eq!(of_a_process(limits), Rlimits { cpu_seconds: Some(10), file_bytes: Some(0), open_files: Some(64) });
    }

    #[test]
    fn limits_of_a_tree_are_refused_by_name() {
        for (limits, name) in [
            (Limits { memory_bytes: Some(1), ..Limits::default() }, "memory_bytes"),
            (Limits { pids: Some(1), ..Limits::default() }, "pids"),
        ] {
            for (workspace, request) in [(limits, Limits::default()), (Limits::default(), limits)] {
                let error = effective(workspace, request).unwrap_err();
                assert_eq!(error.code, ErrorCode::LimitUnsupported);
                assert!(error.message.contains(name), "{error}");
            }
        }
    }
}
