//! One of the storm's workers: starts a random tree in a random place, ends it by a random cause, and holds the answers
//! against the promise. What is wrong is collected, not thrown, so that one run tells all of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use codespace_runner::Runner;
use codespace_runner::domain::{
    EndedBy, ErrorCode, ExecReply, Lifetime, ListRequest, ProcessKey, ProcessRef, ProcessStatus, Reply, Request,
    RunnerError, State, TerminateRequest, TerminateWorkspaceRequest, Termination, WorkspaceId,
};
use codespace_runner::uds::UdsClient;
use codespace_testkit::fixture::ask;
use codespace_testkit::random::Random;
use tokio::time::Instant;

use crate::child;
use crate::trees::{self, Nature, PLACES, Tree};

/// The latest moment of an end, from its start's request on: with all workers at it, a start takes about half of it.
const LATEST: Duration = Duration::from_millis(400);

/// Kept of each process's output, so that the Runner's level of memory is reached with few of them.
const OUTPUT_BYTES: u64 = 64 << 10;

/// What ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Itself,
    Terminate,
    Timeout,
    Workspace,
    Disconnect,
    KillHelper,
    TermHelper,
}

impl Cause {
    fn any(random: &mut Random, nature: Nature) -> Self {
        match (nature, random.number() % 64) {
            // The end of a workspace meets everybody else in it too.
            (_, 0) => Self::Workspace,
            (Nature::Fails(_), _) | (Nature::Ends, 1..32) => Self::Itself,
            (_, number) => match number % 5 {
                0 => Self::Terminate,
                1 => Self::Timeout,
                2 => Self::Disconnect,
                3 => Self::KillHelper,
                _ => Self::TermHelper,
            },
        }
    }

    fn told_as(self) -> EndedBy {
        match self {
            Self::Itself => EndedBy::Command,
            Self::Terminate => EndedBy::Terminate,
            Self::Timeout => EndedBy::Timeout,
            Self::Workspace => EndedBy::Workspace,
            Self::Disconnect => EndedBy::Connection,
            Self::KillHelper | Self::TermHelper => EndedBy::HelperLost,
        }
    }
}

/// What a worker has done and seen.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Ends by place and cause: all, and those that met a start under way.
    pub(crate) ends: BTreeMap<(&'static str, Cause), (usize, usize)>,
    /// Starts that a workspace's end has refused.
    pub(crate) refused: usize,
    /// The slowest end, from its cause to the proof, in milliseconds.
    pub(crate) slowest_ms: u64,
    /// What should not have been.
    pub(crate) faults: Vec<String>,
}

impl Record {
    pub(crate) fn total(&self) -> usize {
        self.ends.values().map(|(all, _)| all).sum()
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (what, (all, pending)) in other.ends {
            let ends = self.ends.entry(what).or_default();
            *ends = (ends.0 + all, ends.1 + pending);
        }
        self.refused += other.refused;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.faults.extend(other.faults);
    }
}

/// Where the Runner is.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) socket: PathBuf,
    pub(crate) pid: i32,
}

impl Address {
    async fn connect(&self) -> UdsClient {
        UdsClient::connect(&self.socket, ask::client()).await.expect("a connection")
    }
}

/// One start and its end.
struct Try {
    place: WorkspaceId,
    key: ProcessKey,
    tree: Tree,
    cause: Cause,
    delay: Duration,
}

/// Starts and ends until the time is up, and at least `least` times.
pub(crate) async fn work(address: Address, name: String, mut random: Random, until: Instant, least: usize) -> Record {
    let mut record = Record::default();
    let client = address.connect().await;
    let mut number = 0;
    while Instant::now() < until || number < least {
        let tree = trees::any(&mut random);
        let place = PLACES[trees::below(&mut random, PLACES.len())];
        let one = Try {
            place: place.parse().expect("a workspace id"),
            key: ask::key(&format!("{name}-{number}")),
            tree,
            cause: Cause::any(&mut random, tree.nature),
            delay: random.up_to(LATEST),
        };
        number += 1;
        let what = format!("{} ({}, {place}, {:?} after {:?})", one.key.as_str(), tree.name, one.cause, one.delay);
        let seen = one.run(&address, &client).await;
        record.refused += usize::from(seen.refused);
        let ends = record.ends.entry((place, one.cause)).or_default();
        *ends = (ends.0 + usize::from(!seen.refused), ends.1 + usize::from(seen.pending && !seen.refused));
        for status in &seen.ended {
            record.slowest_ms = record.slowest_ms.max(status.tree.as_ref().map_or(0, |tree| tree.took_ms));
        }
        record.faults.extend(seen.faults.into_iter().map(|fault| format!("{what}: {fault}")));
    }
    record
}

/// What came of a try.
#[derive(Default)]
struct Seen {
    pending: bool,
    refused: bool,
    ended: Vec<ProcessStatus>,
    faults: Vec<String>,
}

impl Try {
    async fn run(&self, address: &Address, client: &UdsClient) -> Seen {
        let mut seen = Seen::default();
        let own = if self.cause == Cause::Disconnect { Some(address.connect().await) } else { None };
        let exec = own.as_ref().unwrap_or(client).call(Request::Exec(Box::new(self.request())));
        let exec = tokio::spawn(exec);
        // The only thing that is slept for here: the moment of the end is what the storm draws.
        tokio::time::sleep(if self.cause == Cause::Itself { Duration::ZERO } else { self.delay }).await;
        seen.pending = !exec.is_finished();
        let asked = match self.cause {
            Cause::Itself | Cause::Timeout => None,
            Cause::Terminate => Some(client.terminate_process(self.terminate()).await.map(|status| vec![*status])),
            Cause::Workspace => Some(client.terminate_workspace(self.end_of_place()).await.map(|it| it.processes)),
            Cause::Disconnect => {
                drop(own);
                None
            }
            Cause::KillHelper => self.signal_helper(address, client, libc::SIGKILL).await,
            Cause::TermHelper => self.signal_helper(address, client, libc::SIGTERM).await,
        };
        let started = match exec.await.expect("the exec's task") {
            Ok(Reply::Exec(reply)) => Ok(reply),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        match asked {
            None => {}
            Some(Ok(processes)) => {
                processes.into_iter().for_each(|status| seen.end(status));
            }
            Some(Err(error)) if error.code == ErrorCode::ProcessNotFound && started.is_err() => {}
            Some(Err(error)) => seen.faults.push(format!("refused: {error}")),
        }
        self.judge(client, started, &mut seen).await;
        seen
    }

    /// Holds the answer to the start, and the final status, against the promise.
    async fn judge(&self, client: &UdsClient, started: Result<ExecReply, RunnerError>, seen: &mut Seen) {
        let lost = matches!(self.cause, Cause::KillHelper | Cause::TermHelper);
        let id = match started {
            Ok(reply) => Some(reply.process_id),
            // The connection is gone, and its answers with it. A start that was accepted is listed.
            Err(_) if self.cause == Cause::Disconnect => self.listed(client).await.map(|status| status.process_id),
            Err(error) if error.code == ErrorCode::WorkspaceEnding => {
                seen.refused = true;
                None
            }
            Err(error) => {
                let expected = match self.tree.nature {
                    Nature::Fails(stage) => error.stage == Some(stage),
                    Nature::Stays | Nature::Ends => false,
                };
                // A start that loses its helper fails where the helper was.
                let lost = lost && error.stage == Some(codespace_runner::domain::Stage::Sandbox);
                if error.code != ErrorCode::ProcessSpawnFailed || !(expected || lost) {
                    seen.faults.push(format!("the start failed: {error:?}"));
                }
                None
            }
        };
        if let Some(id) = id {
            let status = ask::ended(client, id).await;
            let cause = status.ended_by;
            let may_be = [Some(self.cause.told_as()), Some(EndedBy::Workspace)].contains(&cause)
                || (self.tree.nature == Nature::Ends && cause == Some(EndedBy::Command));
            if !may_be {
                seen.faults.push(format!("ended by another cause: {}", brief(&status)));
            }
            seen.end(status);
        }
    }

    fn request(&self) -> codespace_runner::domain::ExecRequest {
        let mut request = (self.tree.request)();
        request.workspace_id = self.place.clone();
        request.process_key = Some(self.key.clone());
        request.output_bytes = Some(OUTPUT_BYTES);
        match self.cause {
            Cause::Timeout => request.timeout_ms = Some(1 + self.delay.as_millis() as u64),
            Cause::Disconnect => request.lifetime = Lifetime::Connection,
            Cause::Itself | Cause::Terminate | Cause::Workspace | Cause::KillHelper | Cause::TermHelper => {}
        }
        request
    }

    fn terminate(&self) -> TerminateRequest {
        let process = ProcessRef::Key { workspace_id: self.place.clone(), process_key: self.key.clone() };
        TerminateRequest { process, grace_ms: None }
    }

    fn end_of_place(&self) -> TerminateWorkspaceRequest {
        TerminateWorkspaceRequest { workspace_id: self.place.clone(), grace_ms: None }
    }

    async fn listed(&self, client: &UdsClient) -> Option<ProcessStatus> {
        let request = ListRequest { workspace_id: Some(self.place.clone()), state: None };
        let listed = client.list_processes(request).await.expect("a list").processes;
        listed.into_iter().find(|status| status.process_key.as_ref() == Some(&self.key))
    }

    /// Signals the helper as soon as it is there. One that cannot be had any more has ended, or its start has failed.
    async fn signal_helper(
        &self,
        address: &Address,
        client: &UdsClient,
        number: i32,
    ) -> Option<Result<Vec<ProcessStatus>, RunnerError>> {
        let until = Instant::now() + ask::LONG;
        loop {
            match self.listed(client).await {
                Some(status) if status.state == State::Running => {
                    if status.pid.is_some_and(|pid| child::signal(address.pid, pid, number).is_ok()) {
                        return None;
                    }
                }
                Some(_) | None => return None,
            }
            assert!(Instant::now() < until, "no helper came for {}", self.key.as_str());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Seen {
    /// What every end has in common, whatever it was caused by.
    fn end(&mut self, status: ProcessStatus) {
        let tree = status.tree.as_ref();
        let own = matches!(status.termination, Some(Termination::Exited | Termination::Signaled));
        let whole = tree.is_some_and(|tree| tree.confirmed && (own || tree.leftovers == 0));
        if status.state != State::Exited || !whole || !status.eof {
            self.faults.push(format!("not ended whole: {}", brief(&status)));
        }
        self.ended.push(status);
    }
}

/// What of a status tells how it ended.
fn brief(status: &ProcessStatus) -> String {
    let ProcessStatus { process_id, state, ended_by, termination, exit_code, signal, tree, eof, .. } = status;
    format!("{process_id} {state:?} {ended_by:?} {termination:?} {exit_code:?} {signal:?} {tree:?} eof {eof}")
}
