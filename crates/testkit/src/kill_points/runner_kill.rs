//! Visits by the death of the Runner: several starts are held, and one SIGKILL meets all of them.

use tokio::time::Instant;

use super::cause::Cause;
use super::end::FOLLOWS;
use super::point::Point;
use super::stage::Stage;
use super::start::{GONE, Ran};
use super::table::{Outcome, Visit};

/// Visits all of the points, of which only the last may be one of the Runner's fork. Leaves a Runner that is dead.
pub(super) async fn visit(stage: &mut Stage, points: &[Point]) -> Vec<(Visit, Option<Ran>)> {
    let desk = stage.fresh_desk().await;
    let mut starts = Vec::new();
    for point in points {
        starts.push((*point, desk.begin(Some(*point), None).await));
    }
    let mut held = Vec::new();
    for (point, mut start) in starts {
        let outcome = if start.is_held().await { Outcome::Clean } else { Outcome::NotReached };
        held.push((Visit { point, cause: Cause::KillRunner, outcome }, start));
    }
    stage.runner.kill();
    let killed = Instant::now();
    for (_, start) in &mut held {
        start.held_one_is_dead(FOLLOWS.saturating_sub(killed.elapsed())).await;
    }
    let mut visits = Vec::new();
    for (visit, start) in held {
        let ran = start.ran();
        desk.let_go(start.tree);
        visits.push((visit, start, ran));
    }
    let by = Instant::now() + GONE;
    let mut seen = Vec::new();
    for (mut visit, mut start, ran) in visits {
        let call = start.call();
        for what in desk.see_gone(&mut start, by).await {
            visit.add(format!("held before system call {call:?}: {what}"));
        }
        seen.push((visit, Some(ran)));
    }
    let left = stage.runner.ground.survivors.wait_until_nothing_is_left(&[], GONE);
    if let (Some((visit, _)), false) = (seen.last_mut(), left.is_empty()) {
        visit.add(format!("after one of {points:?}: {left:?}"));
        stage.runner.ground.survivors.end_what_is_left();
    }
    seen
}
