//! A Runner whose starts are traced.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::cause::Cause;
use super::crowd::{self, Crowd};
use super::point::{Point, Role};
use super::runner_kill;
use super::start::{Desk, GONE, Ran};
use super::table::{Outcome, Visit};
use super::tracer::Tracer;
use crate::fixture::RunnerProcess;

/// So many die with one Runner.
const STARTS_PER_RUNNER: usize = 16;

/// Who makes no call for so long waits.
const QUIET: Duration = Duration::from_millis(100);

/// Which programs are tested, and with which of their safety devices switched off.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `codespace-runner`.
    pub runner: PathBuf,
    /// `codespace-linux-sandbox`.
    pub helper: PathBuf,
    /// What `CODESPACE_FAULT` says.
    pub faults: Option<String>,
}

/// A Runner of its own process whose starts are traced.
pub struct Stage {
    /// Dropped first: while the tracer is there to reap what it ends.
    pub(super) runner: RunnerProcess,
    tracer: Arc<Tracer>,
}

impl Stage {
    /// `None`: no sandbox can be had here, which has been told.
    ///
    /// # Panics
    /// When the Runner does not start.
    pub async fn start(programs: Option<Programs>) -> Option<Self> {
        let workspace = json!({"max_processes": 64});
        let runner = match programs {
            None => RunnerProcess::with(workspace, &[]).await?,
            Some(Programs { runner, helper, faults }) => {
                let faults = faults.map(|faults| ("CODESPACE_FAULT", OsString::from(faults)));
                RunnerProcess::of(runner, helper, workspace, faults.as_slice()).await?
            }
        };
        Some(Self { runner, tracer: Arc::new(Tracer::start()) })
    }

    /// All points of a start.
    ///
    /// # Panics
    /// When the start fails.
    pub async fn points(&mut self) -> Vec<Point> {
        let desk = self.fresh_desk().await;
        let mut start = desk.begin(None, None).await;
        start.exec_answer(GONE * 20).await.expect("an answer to exec").expect("a start");
        // The last calls of a start are those in which its processes wait for its end.
        let (mut before, mut calls) = (None, desk.calls(&start));
        while before.as_ref() != Some(&calls) {
            sleep(QUIET).await;
            before = Some(std::mem::replace(&mut calls, desk.calls(&start)));
        }
        desk.give_up(start).await;
        calls.points()
    }

    /// Visits each of the points by the cause.
    ///
    /// # Panics
    /// When the Runner does not start.
    pub async fn visit(&mut self, cause: Cause, points: &[Point]) -> Vec<Visit> {
        let points: Vec<Point> = points.iter().filter(|point| cause.meets(point.role)).copied().collect();
        let mut seen = self.by(cause, &points, Crowd::Many).await;
        // No two starts are the same to the call, and on a busy machine some come too late for their timeout.
        let missed = seen.extract_if(.., |(visit, _)| visit.outcome == Outcome::NotReached);
        let missed: Vec<Point> = missed.map(|(visit, _)| visit.point).collect();
        seen.extend(self.by(cause, &missed, Crowd::Few).await);
        sleep(GONE).await;
        let late = |(mut visit, ran): (Visit, Option<Ran>)| {
            if ran.is_some_and(|ran| ran.began_later()) {
                visit.add("the command ran after the answer, or after the kill".to_owned());
            }
            visit
        };
        seen.into_iter().map(late).collect()
    }

    async fn by(&mut self, cause: Cause, points: &[Point], crowd: Crowd) -> Vec<(Visit, Option<Ran>)> {
        match cause {
            _ if points.is_empty() => Vec::new(),
            Cause::KillRunner => self.by_the_runners_death(points).await,
            _ => crowd::visit(self, cause, points, crowd).await,
        }
    }

    async fn by_the_runners_death(&mut self, points: &[Point]) -> Vec<(Visit, Option<Ran>)> {
        let (mut forks, mut others): (Vec<Point>, Vec<Point>) =
            points.iter().copied().partition(|point| point.role == Role::RunnersFork);
        let mut seen = Vec::new();
        while !forks.is_empty() || !others.is_empty() {
            let fork = forks.pop();
            let room = others.len().min(STARTS_PER_RUNNER - usize::from(fork.is_some()));
            let batch: Vec<Point> = others.drain(..room).chain(fork).collect();
            seen.extend(runner_kill::visit(self, &batch).await);
        }
        seen
    }

    /// A connection to a new Runner.
    pub(super) async fn fresh_desk(&mut self) -> Desk {
        self.runner.restart().await;
        let client = self.runner.connect().await;
        let spawner = spawner_of(self.runner.pid()).await;
        self.tracer.seize(spawner).expect("to trace the Runner's spawner");
        Desk::new(client, Arc::clone(&self.tracer), self.runner.ground.workspace())
    }
}

/// The thread that starts roots.
async fn spawner_of(runner: i32) -> i32 {
    let until = Instant::now() + GONE * 10;
    loop {
        let threads = fs::read_dir(format!("/proc/{runner}/task")).expect("the Runner's threads").flatten();
        let is_spawner = |comm: &Path| fs::read_to_string(comm).is_ok_and(|name| name == "spawner\n");
        let spawner = threads.into_iter().find(|thread| is_spawner(&thread.path().join("comm")));
        if let Some(tid) = spawner.and_then(|thread| thread.file_name().to_str()?.parse().ok()) {
            return tid;
        }
        // A thread gives itself its name, which may be a moment after the Runner's first answer.
        assert!(Instant::now() < until, "the Runner has no thread named spawner");
        sleep(Duration::from_millis(1)).await;
    }
}
