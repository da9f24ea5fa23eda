//! Whatever ends a start, and at whichever of its system calls: the answer comes in time and is true, nothing of the tree
//! lives a second later, and nothing starts afterwards.
//!
//! `CODESPACE_KILL_POINTS=all` visits every point by every cause, else a random tenth is; `CODESPACE_SEED` plays that again.
//!
//! The driver itself is tested on faults: with a safety device switched off, it must find what that lets through. This needs
//! a Runner and a helper with the feature `fault-injection`, which `CODESPACE_FAULT_RUNNER` and `CODESPACE_FAULT_HELPER`
//! name.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::Instant;

use codespace_testkit::kill_points::{Cause, Outcome, Point, Programs, Role, Stage, Visit, table};
use codespace_testkit::random::Random;
use codespace_testkit::tell;

/// One in so many is visited, unless all are.
const SHARE: u64 = 10;

/// Of so many points that are there, one may be out of a start's way.
const MAY_BE_MISSED: usize = 20;

fn found(visits: &[Visit]) -> Vec<String> {
    let found = visits.iter().filter_map(|visit| match &visit.outcome {
        Outcome::Found(found) => Some(format!("{} at {}: {}", visit.cause, visit.point, found.join("; "))),
        Outcome::Clean | Outcome::NotReached => None,
    });
    found.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_end_or_a_kill_at_any_system_call_of_a_start_leaves_nothing_and_nothing_starts_afterwards() {
    let all = std::env::var("CODESPACE_KILL_POINTS").is_ok_and(|which| which == "all");
    let mut random = Random::announced("kill points");
    let Some(mut stage) = Stage::start(None).await else { return };
    let points = stage.points().await;
    for role in Role::ALL {
        assert!(points.iter().any(|point| point.role == role), "a start has no point of the {role}: {points:?}");
    }
    let (mut visits, mut asked) = (Vec::new(), 0);
    for cause in Cause::ALL {
        let began = Instant::now();
        let chosen: Vec<Point> =
            points.iter().filter(|_| all || random.number().is_multiple_of(SHARE)).copied().collect();
        let of_cause = stage.visit(cause, &chosen).await;
        tell(&format!("kill points: {cause}: {} visits in {:?}", of_cause.len(), began.elapsed()));
        // At once: a long run may be broken off.
        found(&of_cause).iter().for_each(|finding| tell(finding));
        asked += of_cause.len();
        visits.extend(of_cause);
    }
    tell(&format!("kill points: visited / with findings\n{}", table(&points, &visits)));
    let missed: Vec<&Visit> = visits.iter().filter(|visit| visit.outcome == Outcome::NotReached).collect();
    let names = missed.iter().map(|visit| format!("{} at {}", visit.cause, visit.point)).collect::<Vec<_>>();
    tell(&format!("kill points: {} of {asked} visits did not come by their point: {names:?}", missed.len()));
    let found = found(&visits);
    assert!(found.is_empty(), "{} findings: {found:#?}", found.len());
    assert!(missed.len() * MAY_BE_MISSED <= asked, "{} of {asked} visits did not come by their point", missed.len());
}

/// Programs that have this fault. `None` is a skip, which has been told.
fn with_fault(fault: &str) -> Option<Programs> {
    let required = std::env::var_os("CODESPACE_REQUIRE_LINUX_SANDBOX").is_some_and(|value| value == "1");
    let named = |variable: &str| {
        let path = std::env::var_os(variable).map(PathBuf::from);
        if path.is_none() {
            let why = format!("{variable} names no program with the feature fault-injection");
            assert!(!required, "{why}");
            tell(&format!("SKIPPED the fault {fault}: {why}"));
        }
        path
    };
    let (runner, helper) = (named("CODESPACE_FAULT_RUNNER")?, named("CODESPACE_FAULT_HELPER")?);
    Some(Programs { runner, helper, faults: Some(fault.to_owned()) })
}

/// Visits points of the role, one in so many, with the fault, and with the same programs without it.
async fn finds(fault: &str, cause: Cause, role: Role, one_in: usize) {
    let Some(programs) = with_fault(fault) else { return };
    for (faults, expected) in [(programs.faults.clone(), true), (None, false)] {
        let Some(mut stage) = Stage::start(Some(Programs { faults, ..programs.clone() })).await else { return };
        let points = stage.points().await.into_iter().filter(|point| point.role == role);
        let points: Vec<Point> = points.step_by(one_in).collect();
        assert!(!points.is_empty(), "no point of the {role}");
        let found = found(&stage.visit(cause, &points).await);
        let fault = if expected { fault } else { "no fault" };
        tell(&format!("{fault}: {cause}: {} of {} points of the {role} found it", found.len(), points.len()));
        assert_eq!(!found.is_empty(), expected, "{fault}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_that_is_answered_before_the_arming_is_found() {
    finds("answer-before-arming,no-cgroup", Cause::KillRunner, Role::FirstProcess, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_that_the_wrong_process_answers_is_found() {
    finds("answer-from-wrong-process,no-cgroup", Cause::KillRunner, Role::FirstProcess, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_missing_lifeline_with_a_missing_walk_is_found() {
    finds("no-lifeline,no-walk,no-cgroup", Cause::KillRunner, Role::Command, 10).await;
}
