//! What happens at a point.

use std::fmt;

use super::point::Role;

/// What ends the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// `terminate_process` by the process's key.
    Terminate,
    /// The process's own timeout.
    Timeout,
    /// SIGKILL to the Runner.
    KillRunner,
    /// SIGKILL to the helper.
    KillHelper,
    /// SIGKILL to the first process of the outer PID namespace, bubblewrap's monitor.
    KillMonitor,
    /// SIGKILL to the first process of the inner PID namespace, the inner stage.
    KillInner,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Terminate, Self::Timeout, Self::KillRunner, Self::KillHelper, Self::KillMonitor, Self::KillInner];

    /// Whether it can come while this role is held: whoever is killed must be there, and not stand behind the held one.
    pub fn meets(self, role: Role) -> bool {
        match self {
            Self::Terminate | Self::Timeout | Self::KillRunner | Self::KillHelper => true,
            Self::KillMonitor => role >= Role::FirstProcess,
            Self::KillInner => role >= Role::SandboxChild,
        }
    }

    /// How far below the Runner the one is that is killed.
    pub(super) fn victim(self) -> Option<u8> {
        match self {
            Self::Terminate | Self::Timeout | Self::KillRunner => None,
            Self::KillHelper => Some(1),
            Self::KillMonitor => Some(2),
            Self::KillInner => Some(3),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Terminate => "terminate",
            Self::Timeout => "timeout",
            Self::KillRunner => "kill Runner",
            Self::KillHelper => "kill helper",
            Self::KillMonitor => "kill monitor",
            Self::KillInner => "kill inner",
        })
    }
}
