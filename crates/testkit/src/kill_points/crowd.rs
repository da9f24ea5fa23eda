//! Many visits at once by a cause that leaves the Runner alive.
//!
//! Who waits for a timeout costs nothing meanwhile, so many wait together; but each must reach its point before its time is
//! up, which depends on how many others are on their way and on how busy the machine is. So their number follows what is
//! seen: one more when all have come in time, one less for each that has not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::cause::Cause;
use super::end;
use super::point::{Point, Role};
use super::stage::Stage;
use super::start::{GONE, Ran};
use super::table::{Outcome, Visit};

/// Timeouts of processes.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// That of one that is held where nearly nothing has happened yet.
const TIMEOUT_OF_A_FORK: Duration = Duration::from_millis(200);

/// How many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crowd {
    /// As many as go.
    Many,
    /// So few that each has all the time it needs.
    Few,
}

/// How many may be on their way.
#[derive(Debug)]
struct Pace {
    now: usize,
    least: usize,
    most: usize,
    in_a_row: usize,
}

impl Pace {
    fn new(crowd: Crowd, cause: Cause) -> Self {
        let (now, least, most) = match (crowd, cause) {
            (Crowd::Few, _) => (2, 2, 2),
            (Crowd::Many, Cause::Timeout) => (12, 2, 32),
            (Crowd::Many, _) => (6, 6, 6),
        };
        Self { now, least, most, in_a_row: 0 }
    }

    /// One is done; how many may follow it.
    fn done(&mut self, in_time: bool) -> usize {
        self.in_a_row = if in_time { self.in_a_row + 1 } else { 0 };
        if !in_time && self.now > self.least {
            self.now -= 1;
            return 0;
        }
        if self.in_a_row >= self.now && self.now < self.most {
            self.in_a_row = 0;
            self.now += 1;
            return 2;
        }
        1
    }
}

/// Visits each of the points.
pub(super) async fn visit(
    stage: &mut Stage,
    cause: Cause,
    points: &[Point],
    crowd: Crowd,
) -> Vec<(Visit, Option<Ran>)> {
    let desk = Arc::new(stage.fresh_desk().await);
    let (forks, others): (Vec<Point>, Vec<Point>) =
        points.iter().copied().partition(|point| point.role == Role::RunnersFork);
    let mut seen = Vec::new();
    // While one of these is held, no other start can come about.
    for point in forks {
        seen.push(end::visit(&desk, point, cause, TIMEOUT_OF_A_FORK).await);
    }
    let pace = Pace::new(crowd, cause);
    let (places, pace) = (Arc::new(Semaphore::new(pace.now)), Arc::new(Mutex::new(pace)));
    let mut visits = JoinSet::new();
    for point in others {
        // Given back by hand, as many as the pace says.
        places.acquire().await.expect("a semaphore that is never closed").forget();
        let (desk, places, pace) = (Arc::clone(&desk), Arc::clone(&places), Arc::clone(&pace));
        visits.spawn(async move {
            let seen = end::visit(&desk, point, cause, TIMEOUT).await;
            let in_time = seen.0.outcome != Outcome::NotReached;
            places.add_permits(pace.lock().unwrap_or_else(PoisonError::into_inner).done(in_time));
            seen
        });
    }
    seen.extend(visits.join_all().await);
    let survivors = &stage.runner.ground.survivors;
    let left = survivors.wait_until_nothing_is_left(&[], GONE);
    if let (Some((visit, _)), false) = (seen.last_mut(), left.is_empty()) {
        visit.add(format!("after one of the visits by {cause}: {left:?}"));
        survivors.end_what_is_left();
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_go_at_once_when_all_come_in_time_and_fewer_when_one_does_not() {
        let mut pace = Pace::new(Crowd::Many, Cause::Timeout);
        let given: usize = (0..12).map(|_| pace.done(true)).sum();
        assert_eq!((given, pace.now), (13, 13));
        assert_eq!((pace.done(false), pace.now), (0, 12));
        (0..100).for_each(|_| assert!(pace.done(false) <= 1));
        assert_eq!((pace.now, pace.done(false)), (2, 1));
        let mut fixed = Pace::new(Crowd::Many, Cause::Terminate);
        assert!((0..100).all(|n| fixed.done(n % 3 == 0) == 1));
    }
}
