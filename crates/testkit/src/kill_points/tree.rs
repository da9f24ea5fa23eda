//! One traced start: what is known of its processes, and where one of them is to be held.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::watch;

use super::point::{Calls, Point, Role};
use super::ptrace::Until;

/// What a start looks like from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Its first process was there.
    pub(super) born: bool,
    /// Who is held, and the number of the system call that it stands before.
    pub(super) held: Option<(i32, u64)>,
    /// What lives, with its distance from the Runner.
    pub(super) live: BTreeMap<i32, u8>,
    /// What it did after it was let go, and must not have done.
    pub(super) went_on: Vec<String>,
}

impl View {
    /// It was there, and is no more.
    pub(super) fn is_gone(&self) -> bool {
        self.born && self.live.is_empty()
    }

    /// Whether the held one still stands there.
    pub(super) fn holds(&self) -> bool {
        self.held.is_some_and(|(pid, _)| self.live.contains_key(&pid))
    }

    /// Whether one at this distance from the Runner lives.
    pub(super) fn has(&self, generation: u8) -> bool {
        self.live.values().any(|other| *other == generation)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has reached the point.
    Watched,
    Held,
    /// All go on to whatever end.
    LetGo,
}

/// What the tracer knows of one start.
pub(super) struct Tree {
    target: Option<Point>,
    view: watch::Sender<View>,
    phase: Phase,
    execs: HashMap<i32, u32>,
    pub(super) calls: Calls,
}

impl Tree {
    /// `target`: where to hold; `None` only counts.
    pub(super) fn new(target: Option<Point>) -> (Self, watch::Receiver<View>) {
        let (view, seen) = watch::channel(View::default());
        let tree = Self { target, view, phase: Phase::Watched, execs: HashMap::new(), calls: Calls::default() };
        (tree, seen)
    }

    fn role(&self, pid: i32) -> Option<Role> {
        let generation = *self.view.borrow().live.get(&pid)?;
        Role::of(generation, self.execs.get(&pid).copied().unwrap_or_default())
    }

    pub(super) fn born(&mut self, pid: i32, parent: Option<i32>) {
        let let_go = self.phase == Phase::LetGo;
        self.view.send_modify(|view| {
            let above = parent.and_then(|parent| view.live.get(&parent).copied()).unwrap_or_default();
            view.born = true;
            view.live.insert(pid, above.saturating_add(1));
            if let_go {
                view.went_on.push(format!("a process {} below the Runner was started", above + 1));
            }
        });
    }

    pub(super) fn ended(&mut self, pid: i32) {
        self.view.send_modify(|view| {
            view.live.remove(&pid);
        });
    }

    pub(super) fn execed(&mut self, pid: i32) {
        *self.execs.entry(pid).or_default() += 1;
        let generation = self.view.borrow().live.get(&pid).copied().unwrap_or_default();
        // The helper may be itself before it asks whether the Runner lives; nobody else may become anything.
        if self.phase == Phase::LetGo && generation > 1 {
            let became = crate::proc::command_line(pid);
            self.view.send_modify(|view| view.went_on.push(format!("a process became {became:?}")));
        }
        if self.role(pid) == Some(Role::Command) {
            self.calls.command_runs();
        }
    }

    /// It is about to make this call. `true`: it is to be held.
    pub(super) fn enters(&mut self, pid: i32, call: u64) -> bool {
        let Some(role) = self.role(pid) else { return false };
        if self.phase != Phase::Watched {
            return false;
        }
        let point = Point { role, index: self.calls.count(role) };
        if self.target != Some(point) {
            return false;
        }
        self.phase = Phase::Held;
        self.view.send_modify(|view| view.held = Some((pid, call)));
        true
    }

    /// How it goes on. Only whose calls are counted stops at them: every stop is a disturbance.
    pub(super) fn until(&self, pid: i32) -> Until {
        let role = self.role(pid);
        let counted = role.is_some() && self.target.is_none_or(|point| Some(point.role) == role);
        if self.phase == Phase::Watched && counted { Until::Call } else { Until::Event }
    }

    /// The one to be resumed, if any is held.
    pub(super) fn let_go(&mut self) -> Option<i32> {
        self.phase = Phase::LetGo;
        let view = self.view.borrow();
        view.held.map(|(pid, _)| pid).filter(|pid| view.live.contains_key(pid))
    }

    /// Those at this distance from the Runner, or all.
    pub(super) fn members(&self, generation: Option<u8>) -> Vec<i32> {
        let view = self.view.borrow();
        view.live
            .iter()
            .filter(|(_, own)| generation.is_none_or(|wanted| wanted == **own))
            .map(|(pid, _)| *pid)
            .collect()
    }
}
