//! What happens to the command when we are told to end, and what `run` exits with. Pure: a state that takes events and
//! gives actions.
//!
//! The first signal goes to the command's group: it may have something to put away, and INT is for a program to handle.
//! The second one, or the end of the grace, ends the tree. So does the loss of our own output, at once.

use std::time::Duration;

use codespace_domain::{ProcessStatus, SignalName, Termination};

use crate::exit;
use crate::own_signals::number_of;

/// The grace where the caller names none. INT has none.
const GRACE: Duration = Duration::from_secs(1);

/// What is to be done about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Send the signal to the command's group, and come back with [`Ends::grace_over`] after so long, if at all.
    Forward(SignalName, Option<Duration>),
    /// End the tree.
    Terminate,
    /// The end is under way.
    Nothing,
}

/// What has led to the end so far.
#[derive(Debug)]
pub(super) struct Ends {
    grace: Option<Duration>,
    first: Option<SignalName>,
    broken_pipe: bool,
    terminated: bool,
}

impl Ends {
    /// `grace_ms` is what the caller named.
    pub(super) fn new(grace_ms: Option<u64>) -> Self {
        Self { grace: grace_ms.map(Duration::from_millis), first: None, broken_pipe: false, terminated: false }
    }

    /// We were sent a signal. `started`: the command's `execve` has succeeded, so that there is a group to send it to.
    pub(super) fn signal(&mut self, signal: SignalName, started: bool) -> Action {
        if self.first.replace(self.first.unwrap_or(signal)).is_some() || !started {
            return self.terminate();
        }
        let default = if signal == SignalName::Int { None } else { Some(GRACE) };
        Action::Forward(signal, self.grace.or(default))
    }

    /// The first signal's grace is over.
    pub(super) fn grace_over(&mut self) -> Action {
        self.terminate()
    }

    /// Whoever read our output has gone.
    pub(super) fn broken_pipe(&mut self) -> Action {
        self.broken_pipe = true;
        self.terminate()
    }

    /// Something of ours failed, so that the command cannot go on.
    pub(super) fn failed(&mut self) -> Action {
        self.terminate()
    }

    /// Whether the end was brought about by us, so that nobody waits long for what it still had to say.
    pub(super) fn was_ended(&self, status: &ProcessStatus) -> bool {
        self.terminated || (self.first.is_some() && status.termination == Some(Termination::Signaled))
    }

    /// What `run` exits with. A command that handled the signal and exited by itself has the last word.
    pub(super) fn exit_code(&self, status: &ProcessStatus) -> u8 {
        match (status.termination, self.first) {
            (Some(Termination::Signaled | Termination::Terminated), Some(first)) => exit::of_signal(number_of(first)),
            // Also of a command that was faster than its reader: it would have died of the same.
            (Some(Termination::Exited | Termination::Terminated), _) if self.broken_pipe => exit::BROKEN_PIPE,
            _ => exit::of_status(status),
        }
    }

    fn terminate(&mut self) -> Action {
        if std::mem::replace(&mut self.terminated, true) { Action::Nothing } else { Action::Terminate }
    }
}

#[cfg(test)]
mod tests {
    use codespace_domain::SignalInfo;

    use super::super::super::test_status::exited;
    use super::*;

    fn ended(termination: Termination, exit_code: Option<i32>, signal: Option<i32>) -> ProcessStatus {
        let signal = signal.map(SignalInfo::from);
        ProcessStatus { termination: Some(termination), exit_code, signal, ..exited() }
    }

    #[test]
    fn the_first_signal_is_the_commands_and_the_second_ends_it() {
        let mut ends = Ends::new(None);
        assert_eq!(ends.signal(SignalName::Term, true), Action::Forward(SignalName::Term, Some(GRACE)));
        assert_eq!(ends.signal(SignalName::Int, true), Action::Terminate);
        assert_eq!(ends.signal(SignalName::Int, true), Action::Nothing);
        assert_eq!(ends.grace_over(), Action::Nothing);
        assert_eq!(ends.exit_code(&ended(Termination::Terminated, None, None)), 143, "of the first");
    }

    #[test]
    fn int_has_no_grace_unless_one_is_named() {
        assert_eq!(Ends::new(None).signal(SignalName::Int, true), Action::Forward(SignalName::Int, None));
        let grace = Some(Duration::from_millis(50));
        assert_eq!(Ends::new(Some(50)).signal(SignalName::Int, true), Action::Forward(SignalName::Int, grace));
    }

    #[test]
    fn before_there_is_a_command_the_first_signal_ends_the_start() {
        let mut ends = Ends::new(None);
        assert_eq!(ends.signal(SignalName::Hup, false), Action::Terminate);
        assert_eq!(ends.exit_code(&ended(Termination::Terminated, None, None)), 129);
    }

    #[test]
    fn the_exit_code_is_the_commands_own_where_it_has_one() {
        let mut ends = Ends::new(None);
        ends.signal(SignalName::Int, true);
        assert_eq!(ends.exit_code(&ended(Termination::Exited, Some(7), None)), 7);
        assert_eq!(ends.exit_code(&ended(Termination::Signaled, None, Some(15))), 130);
        assert!(ends.was_ended(&ended(Termination::Signaled, None, Some(2))));
        assert!(!ends.was_ended(&ended(Termination::Exited, Some(7), None)), "its last words are its own");
        assert_eq!(ends.exit_code(&ended(Termination::Timeout, None, None)), 124);
        assert_eq!(Ends::new(None).exit_code(&ended(Termination::Signaled, None, Some(11))), 139);
    }

    #[test]
    fn a_lost_reader_ends_the_tree_like_a_broken_pipe_does() {
        let mut ends = Ends::new(None);
        assert_eq!(ends.broken_pipe(), Action::Terminate);
        assert_eq!(ends.exit_code(&ended(Termination::Terminated, None, None)), 141);
        assert_eq!(ends.exit_code(&ended(Termination::Exited, Some(0), None)), 141);
    }
}
