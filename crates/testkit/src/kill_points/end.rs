//! One visit by a cause that leaves the Runner alive.

use std::time::Duration;

use codespace_runner::Runner as _;
use codespace_runner::domain::{EndedBy, ErrorCode, ProcessStatus, RunnerError, State};
use tokio::time::{Instant, sleep_until};

use super::cause::Cause;
use super::point::{Point, Role};
use super::start::{ANSWER, Desk, GONE, Ran, Start};
use super::table::{Outcome, Visit};
use crate::fixture::ask;

/// A fork that does not become the helper holds up the Runner's spawner, and with it its own end. It is let go so long
/// after the cause.
const FORK_IS_HELD: Duration = Duration::from_millis(100);
/// Time for a kill to reach whoever is held, after the killed one's death.
pub(super) const FOLLOWS: Duration = Duration::from_millis(20);

type Answer = Option<Result<ProcessStatus, RunnerError>>;

/// Visits the point. `of_process`: the process's timeout, where that is the cause.
pub(super) async fn visit(desk: &Desk, point: Point, cause: Cause, of_process: Duration) -> (Visit, Option<Ran>) {
    let visit = |outcome| Visit { point, cause, outcome };
    let asked = Instant::now();
    let mut start = desk.begin(Some(point), (cause == Cause::Timeout).then_some(of_process)).await;
    if !start.is_held().await {
        desk.give_up(start).await;
        return (visit(Outcome::NotReached), None);
    }
    let call = start.call();
    let came = if cause == Cause::Timeout { asked + of_process } else { Instant::now() };
    let mut ran = None;
    if let Some(generation) = cause.victim() {
        if !desk.kill(&mut start, generation).await {
            desk.give_up(start).await;
            return (visit(Outcome::NotReached), None);
        }
        start.held_one_is_dead(FOLLOWS).await;
        ran = Some(start.ran());
        desk.let_go(start.tree);
    }
    let answer = answer(desk, &mut start, point, cause, came).await;
    let mut found = judge(cause, &answer);
    if came.elapsed() > ANSWER {
        found.push(format!("the answer took {:?}", came.elapsed()));
    }
    let live = desk.live_now(&start);
    let says_gone = match &answer {
        Some(Ok(status)) => status.tree.as_ref().is_some_and(|tree| tree.confirmed),
        Some(Err(_)) => true,
        None => false,
    };
    if says_gone && !live.is_empty() {
        found.push(format!("the answer says that nothing is left, and there lives {live:?}"));
    }
    let ran = ran.unwrap_or_else(|| start.ran());
    found.extend(desk.see_gone(&mut start, Instant::now() + GONE).await);
    if start.exec_answer(ANSWER).await.is_none() {
        found.push("exec was never answered".to_owned());
    }
    let found: Vec<String> =
        found.into_iter().map(|what| format!("held before system call {call:?}: {what}")).collect();
    (visit(if found.is_empty() { Outcome::Clean } else { Outcome::Found(found) }), Some(ran))
}

/// The final answer, during which the held one stays held.
async fn answer(desk: &Desk, start: &mut Start, point: Point, cause: Cause, came: Instant) -> Answer {
    let (tree, key) = (start.tree, start.key.clone());
    let answer = async {
        match cause {
            Cause::Terminate => {
                let status = desk.client.terminate_process(ask::terminate_by_key(&key)).await;
                Some(status.map(|status| *status))
            }
            _ => desk.final_status(start).await,
        }
    };
    let let_go = async {
        if point.role == Role::RunnersFork {
            sleep_until(came + FORK_IS_HELD).await;
            desk.let_go(tree);
        }
        std::future::pending::<Answer>().await
    };
    tokio::select! {
        answer = answer => answer,
        never = let_go => never,
        () = sleep_until(came + ANSWER) => None,
    }
}

/// What of the answer is not as promised.
fn judge(cause: Cause, answer: &Answer) -> Vec<String> {
    let status = match answer {
        None => return vec![format!("no answer within {ANSWER:?}")],
        Some(Err(error)) => {
            let failed_start = error.code == ErrorCode::ProcessSpawnFailed && cause.victim().is_some();
            return if failed_start { Vec::new() } else { vec![format!("the answer is {error:?}")] };
        }
        Some(Ok(status)) => status,
    };
    let expected = match cause {
        Cause::Terminate => Some(EndedBy::Terminate),
        Cause::Timeout => Some(EndedBy::Timeout),
        Cause::KillHelper => Some(EndedBy::HelperLost),
        Cause::KillMonitor | Cause::KillInner | Cause::KillRunner => None,
    };
    let mut found = Vec::new();
    if status.state != State::Exited || expected.is_some_and(|expected| status.ended_by != Some(expected)) {
        found.push(format!("the answer is {:?}, ended by {:?}", status.state, status.ended_by));
    }
    match &status.tree {
        Some(tree) if tree.confirmed => {}
        tree => found.push(format!("the end was not confirmed: {tree:?}")),
    }
    found
}
