//! What can wake the owner: one `select!`, and what each of its arms waits for.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use codespace_domain::{ErrorCode, RunnerError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::launching::{Launch, Planned};
use super::{Ask, Owner};
use crate::cgroups::{Events, Leaf};
use crate::control::{Control, Received};
use crate::launch::{LaunchError, Root};
use crate::lifecycle::Timer;
use crate::output::Pumps;
use crate::process::end::Seen;
use crate::sys::pidfd::AsyncPidFd;

/// What woke the owner.
pub(super) enum Woken {
    Ask(Option<Ask>),
    Planned(Result<Planned, RunnerError>),
    Launched(Result<Root, LaunchError>),
    Control(io::Result<Option<Received>>),
    RootDead,
    FirstDead,
    CgroupEmpty(io::Result<()>),
    Walked(Seen),
    OrphansEnded(bool),
    Timer(Timer),
    Drained,
}

impl Owner {
    pub(super) async fn next(&mut self, asks: &mut mpsc::UnboundedReceiver<Ask>, asked: bool) -> Woken {
        let timer = self.timers.iter().min_by_key(|(_, at)| *at).copied();
        let walking = self.walk.is_some();
        tokio::select! {
            // In this order: what the sandbox had to say is heard before its end is looked at.
            biased;
            ask = asks.recv(), if asked => Woken::Ask(ask),
            received = hear(self.control.as_ref()) => Woken::Control(received),
            woken = until_launched(&mut self.launch) => woken,
            seen = until_done(self.walk.as_mut()) => Woken::Walked(seen.unwrap_or(Seen::Nothing)),
            all = until_done(self.adoption.as_mut()) => Woken::OrphansEnded(all.unwrap_or(false)),
            // The walk needs the root's pid to be the root's.
            () = until_dead(self.root.as_ref().map(|(_, handle)| handle)), if !walking && self.reap_again.is_none() => Woken::RootDead,
            () = until(self.reap_again), if !walking => Woken::RootDead,
            () = until_dead(self.first.as_ref()) => Woken::FirstDead,
            outcome = until_empty(self.cgroup.as_ref()), if self.lifecycle.is_ending() && self.root.is_none() => {
                Woken::CgroupEmpty(outcome)
            }
            () = until_drained(self.pumps.as_mut()), if self.drained_asked => Woken::Drained,
            timer = until_fired(timer) => {
                self.timers.retain(|(kind, _)| *kind != timer);
                Woken::Timer(timer)
            }
        }
    }
}

async fn hear(control: Option<&Control>) -> io::Result<Option<Received>> {
    match control {
        Some(control) => control.receive().await,
        None => std::future::pending().await,
    }
}

async fn until_launched(launch: &mut Launch) -> Woken {
    match launch {
        Launch::Planning(plan) => Woken::Planned(
            plan.await
                .unwrap_or_else(|error| Err(RunnerError::new(ErrorCode::Internal, format!("plan the start: {error}")))),
        ),
        Launch::Starting(root) => Woken::Launched(root.await),
        Launch::Over => std::future::pending().await,
    }
}

async fn until_dead(handle: Option<&Arc<AsyncPidFd>>) {
    match handle {
        // A handle that cannot be waited for says nothing; the proof's deadline says the rest.
        Some(handle) => match handle.ended().await {
            Ok(()) => {}
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// `None` when the work failed.
async fn until_done<T, E: Display>(work: Option<&mut (impl Future<Output = Result<T, E>> + Unpin)>) -> Option<T> {
    match work {
        Some(work) => match work.await {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                tracing::error!(%error, "a part of a process's end failed");
                None
            }
        },
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn until_fired(timer: Option<(Timer, Instant)>) -> Timer {
    match timer {
        Some((timer, at)) => {
            tokio::time::sleep_until(at).await;
            timer
        }
        None => std::future::pending().await,
    }
}

async fn until_empty(cgroup: Option<&(Arc<Leaf>, Option<Events>)>) -> io::Result<()> {
    match cgroup {
        Some((_, Some(events))) => events.empty().await,
        Some((_, None)) | None => std::future::pending().await,
    }
}

async fn until_drained(pumps: Option<&mut Pumps>) {
    match pumps {
        Some(pumps) => drop(pumps.ended().await),
        None => std::future::pending().await,
    }
}
