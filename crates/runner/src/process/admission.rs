//! Who gets a slot: the table of all processes, its fences, and how long ended ones are kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codespace_domain::{ErrorCode, ProcessId, ProcessKey, ProcessRef, RunnerError, WorkspaceId};
use tokio::time::Instant;

use super::{Ground, Slot, lease};

/// For how long, and how many, ended processes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// After its end.
    pub time: Duration,
    /// Of all workspaces together; the oldest go first.
    pub count: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { time: Duration::from_secs(15 * 60), count: 256 }
    }
}

/// All processes.
pub(crate) struct Table {
    inner: Mutex<Inner>,
    retention: Retention,
}

#[derive(Default)]
struct Inner {
    /// In the order of their starts.
    slots: Vec<Kept>,
    keys: HashMap<(WorkspaceId, ProcessKey), ProcessId>,
    /// How many ends of a whole workspace are under way.
    ending: HashMap<WorkspaceId, usize>,
    stopping: bool,
}

struct Kept {
    slot: Arc<Slot>,
    ended: Option<Instant>,
}

/// What came of asking for a slot.
pub(crate) enum Admission {
    /// It is in the table.
    Reserved,
    /// This process has the key already, and the same request.
    Existing(Arc<Slot>),
}

impl Table {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { inner: Mutex::default(), retention }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is behind the lock is changed by whole statements only.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new slot in, if the fences, the key and the limit on live processes allow it.
    pub(crate) fn reserve(&self, slot: &Arc<Slot>) -> Result<Admission, RunnerError> {
        let mut inner = self.lock();
        inner.evict(self.retention);
        let workspace = &slot.asked.workspace_id;
        if inner.stopping {
            return Err(RunnerError::new(ErrorCode::RunnerStopping, "start a command: the Runner is being stopped"));
        }
        if inner.ending.contains_key(workspace) {
            let message = format!("start a command: the workspace {workspace} is being ended");
            return Err(RunnerError::new(ErrorCode::WorkspaceEnding, message).with_hint("try again when it has ended"));
        }
        let key = slot.asked.process_key.clone().map(|key| (workspace.clone(), key));
        if let Some(existing) = key.as_ref().and_then(|key| inner.keys.get(key)).and_then(|id| inner.find(*id)) {
            return existing.asked.is_retried_by(&slot.asked).map(|()| Admission::Existing(existing));
        }
        let live =
            inner.slots.iter().filter(|kept| kept.slot.asked.workspace_id == *workspace && kept.slot.lives()).count();
        if slot.terms.exclusive && live > 0 {
            return Err(lease::busy(workspace, workspace));
        }
        if live as u64 >= slot.terms.max_processes {
            let message = format!("start a command: {live} processes live in the workspace {workspace}, its limit");
            return Err(RunnerError::new(ErrorCode::WorkspaceBusy, message)
                .with_hint("wait for one to end, end one, or raise max_processes in the registry"));
        }
        inner.keys.extend(key.map(|key| (key, slot.id)));
        inner.slots.push(Kept { slot: Arc::clone(slot), ended: None });
        Ok(Admission::Reserved)
    }

    /// Lets a slot's process have the directory of its workspace, unless that overlaps the directory of another live one
    /// and either workspace is exclusive. It has it until it has ended. Of two that start at once, the first to ask has it.
    pub(crate) fn occupy(&self, slot: &Slot, ground: Ground) -> Result<(), RunnerError> {
        let inner = self.lock();
        let in_the_way = inner.live().find(|other| {
            let exclusive = slot.terms.exclusive || other.terms.exclusive;
            // Of one workspace's own processes, the reservation has decided.
            let elsewhere = other.asked.workspace_id != slot.asked.workspace_id;
            exclusive && elsewhere && other.ground.get().is_some_and(|theirs| theirs.overlaps(&ground))
        });
        match in_the_way {
            Some(other) => Err(lease::busy(&slot.asked.workspace_id, &other.asked.workspace_id)),
            None => {
                // Once per start.
                slot.ground.set(ground).ok();
                Ok(())
            }
        }
    }

    /// Takes a slot out again whose start has failed.
    pub(crate) fn forget(&self, id: ProcessId) {
        let mut inner = self.lock();
        inner.slots.retain(|kept| kept.slot.id != id);
        inner.keys.retain(|_, of| *of != id);
    }

    /// From now on the slot's process is kept as an ended one.
    pub(crate) fn ended(&self, id: ProcessId) {
        let mut inner = self.lock();
        if let Some(kept) = inner.slots.iter_mut().find(|kept| kept.slot.id == id) {
            kept.ended = Some(Instant::now());
        }
        inner.evict(self.retention);
    }

    pub(crate) fn find(&self, process: &ProcessRef) -> Result<Arc<Slot>, RunnerError> {
        let mut inner = self.lock();
        inner.evict(self.retention);
        let (id, name) = match process {
            ProcessRef::Id { process_id } => (Some(*process_id), process_id.to_string()),
            ProcessRef::Key { workspace_id, process_key } => {
                let key = (workspace_id.clone(), process_key.clone());
                (
                    inner.keys.get(&key).copied(),
                    format!("a process with the key {:?} in {workspace_id}", process_key.as_str()),
                )
            }
        };
        id.and_then(|id| inner.find(id)).ok_or_else(|| {
            RunnerError::new(ErrorCode::ProcessNotFound, format!("find {name}"))
                .with_hint("it never started, it ended longer ago than ended processes are kept, or its Runner is gone and another one answers")
        })
    }

    /// All of them, in the order of their starts.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        let mut inner = self.lock();
        inner.evict(self.retention);
        inner.slots.iter().map(|kept| Arc::clone(&kept.slot)).collect()
    }

    /// Puts up the fence of a workspace, until the answer is dropped, and names the processes behind it.
    pub(crate) fn fence(self: &Arc<Self>, workspace: &WorkspaceId) -> (Fence, Vec<Arc<Slot>>) {
        let mut inner = self.lock();
        *inner.ending.entry(workspace.clone()).or_default() += 1;
        let live = inner.live().filter(|slot| slot.asked.workspace_id == *workspace).cloned().collect();
        (Fence { table: Arc::clone(self), workspace: workspace.clone() }, live)
    }

    /// Puts up the fence of the Runner, for good, and names the processes behind it.
    pub(crate) fn stop(&self) -> Vec<Arc<Slot>> {
        let mut inner = self.lock();
        inner.stopping = true;
        inner.live().cloned().collect()
    }
}

impl Inner {
    fn find(&self, id: ProcessId) -> Option<Arc<Slot>> {
        self.slots.iter().find(|kept| kept.slot.id == id).map(|kept| Arc::clone(&kept.slot))
    }

    fn live(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.iter().map(|kept| &kept.slot).filter(|slot| slot.lives())
    }

    fn evict(&mut self, retention: Retention) {
        let now = Instant::now();
        let mut too_many =
            self.slots.iter().filter(|kept| kept.ended.is_some()).count().saturating_sub(retention.count);
        let before = self.slots.len();
        self.slots.retain(|kept| match kept.ended {
            None => true,
            Some(ended) => {
                let crowded = too_many > 0;
                too_many -= usize::from(crowded);
                !crowded && now.duration_since(ended) < retention.time
            }
        });
        if self.slots.len() != before {
            let slots = &self.slots;
            self.keys.retain(|_, id| slots.iter().any(|kept| kept.slot.id == *id));
        }
    }
}

/// While this lives, no new start of the workspace slips in.
pub(crate) struct Fence {
    table: Arc<Table>,
    workspace: WorkspaceId,
}

impl Drop for Fence {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        if let Some(ends) = inner.ending.get_mut(&self.workspace) {
            *ends -= 1;
            if *ends == 0 {
                inner.ending.remove(&self.workspace);
            }
        }
    }
}
