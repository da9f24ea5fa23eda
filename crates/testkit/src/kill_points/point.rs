//! Where a process of a start can be held.

use std::collections::BTreeMap;
use std::fmt;

/// What a process of a start is, by its place in the tree and by what it has turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The Runner's child, before it becomes the helper. Meanwhile the Runner can start nothing else.
    RunnersFork,
    /// The helper, the root.
    Helper,
    /// The first process of the outer PID namespace, before it becomes the engine.
    FirstProcess,
    /// The same as bubblewrap, which stays as the monitor of the sandbox.
    Monitor,
    /// Bubblewrap's child, which builds the sandbox.
    SandboxChild,
    /// The same as the inner stage.
    InnerStage,
    /// The command: its last steps before `execve`, and its first ones after it.
    Command,
}

impl Role {
    /// In the order of their births.
    pub const ALL: [Self; 7] = [
        Self::RunnersFork,
        Self::Helper,
        Self::FirstProcess,
        Self::Monitor,
        Self::SandboxChild,
        Self::InnerStage,
        Self::Command,
    ];

    /// Of a process `generation` steps below the Runner that has called `execve` so many times. `None`: the command's own
    /// children.
    pub(super) fn of(generation: u8, execs: u32) -> Option<Self> {
        match (generation, execs) {
            (1, 0) => Some(Self::RunnersFork),
            (1, _) => Some(Self::Helper),
            (2, 0) => Some(Self::FirstProcess),
            (2, _) => Some(Self::Monitor),
            (3, 0) => Some(Self::SandboxChild),
            (3, _) => Some(Self::InnerStage),
            (4, _) => Some(Self::Command),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RunnersFork => "Runner's fork",
            Self::Helper => "helper",
            Self::FirstProcess => "first process",
            Self::Monitor => "bubblewrap monitor",
            Self::SandboxChild => "bubblewrap child",
            Self::InnerStage => "inner stage",
            Self::Command => "command",
        })
    }
}

/// The entry of one system call of one process of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Whose.
    pub role: Role,
    /// Which of its calls in this role, from 0.
    pub index: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.role, self.index)
    }
}

/// How many calls each role has made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Calls {
    made: BTreeMap<Role, u32>,
    until_execve: Option<u32>,
}

/// So many calls of the command itself are points as well.
const AFTER_EXECVE: u32 = 3;

impl Calls {
    /// One more; returns which it was.
    pub(super) fn count(&mut self, role: Role) -> u32 {
        let made = self.made.entry(role).or_default();
        *made += 1;
        *made - 1
    }

    /// The command's `execve` has succeeded.
    pub(super) fn command_runs(&mut self) {
        self.until_execve.get_or_insert(self.made.get(&Role::Command).copied().unwrap_or_default());
    }

    /// All points that were passed.
    pub(super) fn points(&self) -> Vec<Point> {
        let of = |(role, made): (&Role, &u32)| {
            let made = match (role, self.until_execve) {
                (Role::Command, Some(until)) => (until + AFTER_EXECVE).min(*made),
                _ => *made,
            };
            let role = *role;
            (0..made).map(move |index| Point { role, index })
        };
        self.made.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_place_in_the_tree_and_a_program() {
        let roles =
            [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1), (4, 0)].map(|(steps, execs)| Role::of(steps, execs));
        assert_eq!(roles, Role::ALL.map(Some));
        assert_eq!((Role::of(4, 2), Role::of(5, 0)), (Some(Role::Command), None));
    }

    #[test]
    fn of_the_commands_own_calls_only_the_first_are_points() {
        let mut calls = Calls::default();
        assert_eq!([calls.count(Role::Helper), calls.count(Role::Command), calls.count(Role::Command)], [0, 0, 1]);
        assert_eq!(calls.points().len(), 3);
        calls.command_runs();
        for _ in 0..10 {
            calls.count(Role::Command);
        }
        // The command's second program is no limit any more.
        calls.command_runs();
        let of_command =
            calls.points().into_iter().filter(|point| point.role == Role::Command).map(|point| point.index);
        assert_eq!(of_command.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
