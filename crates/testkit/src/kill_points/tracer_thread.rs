//! The thread that traces: it takes orders, and lets everything go on that is not to be held.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tokio::sync::watch;

use super::point::{Calls, Point};
use super::processor;
use super::ptrace::{self, Change, Until};
use super::tree::{Tree, View};
use crate::sys::PidFd;

/// One start.
pub(super) type TreeId = usize;

/// What can be asked of the tracer. Each is answered when it is done.
pub(super) enum Order {
    /// Trace what this thread starts from now on.
    Seize { tid: i32, done: Sender<io::Result<()>> },
    /// The next start is to be held there.
    Expect { target: Option<Point>, done: Sender<(TreeId, watch::Receiver<View>)> },
    /// SIGKILL to those of a start that are so far below the Runner, or to all. How many there were.
    Kill { tree: TreeId, generation: Option<u8>, done: Sender<usize> },
    /// Hold nobody of this start any more.
    LetGo { tree: TreeId, done: Sender<()> },
    /// Take in everything that has happened so far; the calls that a start has made.
    CatchUp { tree: TreeId, done: Sender<Calls> },
}

/// All that is traced.
pub(super) struct TracerThread {
    orders: Receiver<Order>,
    spawners: HashSet<i32>,
    expected: VecDeque<TreeId>,
    trees: Vec<Tree>,
    member_of: HashMap<i32, TreeId>,
    /// Stopped before its parent has told whose it is.
    unclaimed: HashSet<i32>,
}

impl TracerThread {
    pub(super) fn new(orders: Receiver<Order>) -> Self {
        Self {
            orders,
            spawners: HashSet::new(),
            expected: VecDeque::new(),
            trees: Vec::new(),
            member_of: HashMap::new(),
            unclaimed: HashSet::new(),
        }
    }

    /// Until nobody can give orders any more. What is still traced then dies with this thread.
    pub(super) fn run(mut self) {
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            match ptrace::next_change(true) {
                Ok(Some((pid, change))) => self.on(pid, change),
                // An order has come.
                Ok(None) | Err(_) if !self.is_idle() => {}
                Ok(None) | Err(_) => match self.orders.recv() {
                    Ok(order) => self.obey(order),
                    Err(_) => return,
                },
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.spawners.is_empty() && self.member_of.is_empty() && self.unclaimed.is_empty()
    }

    // Whoever has asked may have given up.
    fn obey(&mut self, order: Order) {
        match order {
            Order::Seize { tid, done } => {
                let seized = ptrace::seize(tid);
                let seized = seized.and_then(|()| processor::share_with(tid));
                if seized.is_ok() {
                    self.spawners.insert(tid);
                }
                done.send(seized).ok();
            }
            Order::Expect { target, done } => {
                let (tree, seen) = Tree::new(target);
                self.trees.push(tree);
                self.expected.push_back(self.trees.len() - 1);
                done.send((self.trees.len() - 1, seen)).ok();
            }
            Order::Kill { tree, generation, done } => {
                let members = self.trees[tree].members(generation);
                // Nobody but this thread reaps them, and it has not: each pid is its own.
                let killed =
                    members.iter().filter(|pid| PidFd::open(**pid).is_ok_and(|fd| fd.signal(libc::SIGKILL).is_ok()));
                done.send(killed.count()).ok();
            }
            Order::LetGo { tree, done } => {
                if let Some(pid) = self.trees[tree].let_go() {
                    ptrace::resume(pid, Until::Event, 0);
                }
                done.send(()).ok();
            }
            Order::CatchUp { tree, done } => {
                while let Ok(Some((pid, change))) = ptrace::next_change(false) {
                    self.on(pid, change);
                }
                done.send(self.trees[tree].calls.clone()).ok();
            }
        }
    }

    fn on(&mut self, pid: i32, change: Change) {
        match change {
            Change::Ended => self.ended(pid),
            Change::Forked => {
                if let Ok(child) = ptrace::started(pid) {
                    self.claim(pid, child);
                }
                self.resume(pid, 0);
            }
            Change::Execed => {
                if let Some(tree) = self.tree_of(pid) {
                    tree.execed(pid);
                }
                self.resume(pid, 0);
            }
            Change::Call => {
                let entered = ptrace::entered(pid).ok().flatten();
                let held = match (entered, self.tree_of(pid)) {
                    (Some(call), Some(tree)) => tree.enters(pid, call),
                    _ => false,
                };
                if !held {
                    self.resume(pid, 0);
                }
            }
            Change::Stopped => ptrace::leave_stopped(pid),
            Change::Trapped if self.member_of.contains_key(&pid) || self.spawners.contains(&pid) => self.resume(pid, 0),
            Change::Trapped => drop(self.unclaimed.insert(pid)),
            Change::Signal(number) => self.resume(pid, number),
        }
    }

    fn tree_of(&mut self, pid: i32) -> Option<&mut Tree> {
        self.member_of.get(&pid).map(|tree| &mut self.trees[*tree])
    }

    fn resume(&self, pid: i32, signal: i32) {
        let until = self.member_of.get(&pid).map_or(Until::Event, |tree| self.trees[*tree].until(pid));
        ptrace::resume(pid, until, signal);
    }

    fn ended(&mut self, pid: i32) {
        self.spawners.remove(&pid);
        self.unclaimed.remove(&pid);
        if let Some(tree) = self.member_of.remove(&pid) {
            self.trees[tree].ended(pid);
        }
    }

    /// The child's own first stop may have come before this.
    fn claim(&mut self, parent: i32, child: i32) {
        let tree = match self.member_of.get(&parent) {
            Some(tree) => *tree,
            // Of the Runner's spawner.
            None => self.expected.pop_front().unwrap_or_else(|| {
                self.trees.push(Tree::new(None).0);
                self.trees.len() - 1
            }),
        };
        let above = self.member_of.contains_key(&parent).then_some(parent);
        self.trees[tree].born(child, above);
        self.member_of.insert(child, tree);
        if self.unclaimed.remove(&child) {
            self.resume(child, 0);
        }
    }
}
