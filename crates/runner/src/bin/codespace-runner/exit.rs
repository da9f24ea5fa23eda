//! The table of exit codes, and what maps to which.

use codespace_domain::{ProcessStatus, RunnerError, Stage, Termination};

/// Done.
pub(crate) const OK: u8 = 0;
/// The Runner said no, or `doctor` found that the sandbox does not work.
pub(crate) const FAILED: u8 = 1;
/// No Runner can be reached.
pub(crate) const NO_RUNNER: u8 = 3;
/// The command was ended by its timeout.
pub(crate) const TIMEOUT: u8 = 124;
/// `run`: the Runner or its sandbox failed, not the command.
pub(crate) const OWN_FAILURE: u8 = 125;
/// `run`: the command was found and cannot be executed.
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// `run`: the command was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Whoever read our stdout has gone: 128 and the number of SIGPIPE, as of a program that died of it.
pub(crate) const BROKEN_PIPE: u8 = 128 + 13;

/// For the help text. 2 is the argument parser's.
pub(crate) const TABLE: &str = "\
Exit codes:
  0      done
  1      the Runner said no, or doctor found that the sandbox does not work
  2      the command line cannot be understood
  3      no Runner can be reached
  run and wait mirror the command:
  0-255  its own exit code
  124    it was ended by its timeout
  125    run: the Runner or its sandbox failed; wait: how it ended was not seen
  126    run: it cannot be executed
  127    run: it was not found
  128+n  it died of signal n, or run was ended by signal n; 137 where it was ended otherwise
  141    whoever read the output has gone";

/// What a shell would say of a process that has ended like this.
pub(crate) fn of_status(status: &ProcessStatus) -> u8 {
    match status.termination {
        Some(Termination::Exited) => status.exit_code.map_or(OWN_FAILURE, |code| code.to_le_bytes()[0]),
        Some(Termination::Signaled) => status.signal.as_ref().map_or(OWN_FAILURE, |signal| of_signal(signal.number)),
        Some(Termination::Timeout) => TIMEOUT,
        Some(Termination::Terminated) => of_signal(9),
        Some(Termination::Unknown) | None => OWN_FAILURE,
    }
}

/// What a shell would say of a process that died of this signal.
pub(crate) fn of_signal(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(OWN_FAILURE)
}

/// Of a `run` whose command could not be started.
pub(crate) fn of_failed_start(error: &RunnerError) -> u8 {
    match (error.stage, error.errno) {
        (Some(Stage::Exec), Some(libc::ENOENT)) => NOT_FOUND,
        (Some(Stage::Exec), _) => CANNOT_EXECUTE,
        (Some(Stage::Prepare | Stage::Sandbox | Stage::Cwd) | None, _) => OWN_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use codespace_domain::{ErrorCode, SignalInfo};

    use super::*;
    use crate::verbs::test_status::exited;

    #[test]
    fn a_status_maps_as_a_shell_would_say_it() {
        let with = |termination, exit_code, signal: Option<i32>| {
            of_status(&ProcessStatus {
                termination: Some(termination),
                exit_code,
                signal: signal.map(SignalInfo::from),
                ..exited()
            })
        };
        assert_eq!(with(Termination::Exited, Some(0), None), 0);
        assert_eq!(with(Termination::Exited, Some(7), None), 7);
        assert_eq!(with(Termination::Exited, Some(255), None), 255);
        assert_eq!(with(Termination::Signaled, None, Some(11)), 139);
        assert_eq!(with(Termination::Signaled, None, Some(64)), 192);
        assert_eq!(with(Termination::Timeout, None, None), 124);
        assert_eq!(with(Termination::Terminated, None, None), 137);
        assert_eq!(with(Termination::Unknown, None, None), 125);
    }

    #[test]
    fn a_start_that_failed_at_exec_is_the_commands_fault_and_no_other_is() {
        let failed = |stage, errno| of_failed_start(&RunnerError::spawn_failed(stage, errno, "x"));
        assert_eq!(failed(Stage::Exec, Some(libc::ENOENT)), 127);
        for errno in [libc::EACCES, libc::ENOEXEC, libc::EISDIR, libc::ENOTDIR] {
            assert_eq!(failed(Stage::Exec, Some(errno)), 126);
        }
        for stage in [Stage::Prepare, Stage::Sandbox, Stage::Cwd] {
            assert_eq!(failed(stage, Some(libc::ENOENT)), 125);
        }
        assert_eq!(of_failed_start(&RunnerError::new(ErrorCode::SandboxUnavailable, "x")), 125);
    }
}
