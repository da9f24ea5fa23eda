//! A timeout, a terminate and a natural end that race: there is one end, the first cause is told, and everybody is told
//! the same.
//!
//! `CODESPACE_SEED` plays a run again.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use codespace_runner::domain::{EndedBy, ExecRequest, ProcessStatus, Request, StatusRequest, Termination};
use codespace_runner::{Runner, Session};
use codespace_testkit::fixture::{Fixture, ask};
use codespace_testkit::random::Random;
use codespace_testkit::tell;

const TRIES: usize = 60;
const AT_ONCE: usize = 4;

/// One process, and what everybody was told about its end.
struct Race {
    natural: Duration,
    timeout: Duration,
    terminate: Duration,
}

impl Race {
    async fn run(self, session: &Session, number: usize) -> EndedBy {
        let name = format!("race-{number}");
        let mut request: ExecRequest = ask::command(["sleep".to_owned(), format!("{:.3}", self.natural.as_secs_f64())]);
        request.process_key = Some(ask::key(&name));
        request.timeout_ms = Some(self.timeout.as_millis() as u64);
        let began = Instant::now();
        let exec = session.call(Request::Exec(Box::new(request)));
        let watcher = tokio::spawn(exec);
        tokio::time::sleep(self.terminate).await;
        // Three who ask at once, two of them for its end.
        let ends = [0, 1].map(|_| session.terminate_process(ask::terminate_by_key(&name)));
        let asked_after = began.elapsed();
        let [first, second] = ends;
        let (first, second) = tokio::join!(first, second);
        let status = *first.expect("a final status");
        let what = format!("try {number}: {status:?}");
        assert_eq!(*second.expect("a final status"), status, "{what}");
        let again = session.terminate_process(ask::terminate_by_key(&name)).await.expect("the same status");
        assert_eq!(*again, status, "{what}");
        let looked = session.process_status(StatusRequest { process_id: status.process_id, wait_ms: 1000 }).await;
        assert_eq!(*looked.expect("a status"), status, "{what}");
        watcher.await.expect("the exec's task").unwrap_or_else(|error| panic!("{what}: {error:?}"));
        self.assert_first_cause(&status, asked_after, &what);
        status.ended_by.expect("a cause")
    }

    /// The cause is one that could have been the first, and the rest of the status agrees with it.
    fn assert_first_cause(&self, status: &ProcessStatus, asked_after: Duration, what: &str) {
        assert!(status.tree.as_ref().is_some_and(|tree| tree.confirmed), "{what}");
        assert!(status.eof, "{what}");
        let wall = Duration::from_millis(status.usage.expect("usage").wall_ms + 1);
        let outcome = (status.termination.expect("a termination"), status.exit_code);
        match status.ended_by.expect("a cause") {
            EndedBy::Command => {
                assert_eq!(outcome, (Termination::Exited, Some(0)), "{what}");
                assert!(wall >= self.natural, "{what}");
            }
            EndedBy::Timeout => {
                assert_eq!(outcome, (Termination::Timeout, None), "{what}");
                assert!(wall >= self.timeout, "{what}");
            }
            EndedBy::Terminate => {
                assert_eq!(outcome, (Termination::Terminated, None), "{what}");
                assert!(wall + Duration::from_millis(1) >= self.terminate.min(asked_after), "{what}");
            }
            EndedBy::Workspace | EndedBy::Stop | EndedBy::Connection | EndedBy::Limit | EndedBy::HelperLost => {
                panic!("nobody caused this: {what}")
            }
        }
        assert_eq!(status.signal, None, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_three_ends_that_race_one_is_told_and_to_everybody_the_same() {
    let mut random = Random::announced("one end");
    let Some(fixture) = Fixture::start().await else { return };
    // The command's own time begins when it is there, everybody else's with the request.
    let start = ask::median_start(&fixture.session).await;
    let mut seen = Vec::new();
    let numbers: Vec<usize> = (0..TRIES).collect();
    for batch in numbers.chunks(AT_ONCE) {
        let mut race = |number: &usize| {
            // All three within the same 60 ms: where the others fall, each can be the first.
            let mut moment = || Duration::from_millis(30) + random.up_to(Duration::from_millis(60));
            let race = Race { natural: moment(), timeout: start + moment(), terminate: start + moment() };
            race.run(&fixture.session, *number)
        };
        let [a, b, c, d] = [&batch[0], &batch[1], &batch[2], &batch[3]].map(&mut race);
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        seen.extend([a, b, c, d]);
    }
    let of = |cause: EndedBy| seen.iter().filter(|one| **one == cause).count();
    tell(&format!(
        "one end: {TRIES} tries, {} ended by the command, {} by the timeout, {} by a terminate",
        of(EndedBy::Command),
        of(EndedBy::Timeout),
        of(EndedBy::Terminate)
    ));
    fixture.assert_nothing_is_left("after the races").await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_cause_that_comes_long_before_the_others_is_the_one_that_is_told() {
    let Some(fixture) = Fixture::start().await else { return };
    let long = Duration::from_secs(30);
    let short = Duration::from_millis(100);
    let cases = [
        (Race { natural: short, timeout: long, terminate: Duration::from_secs(2) }, EndedBy::Command),
        (Race { natural: long, timeout: short, terminate: Duration::from_secs(2) }, EndedBy::Timeout),
        (Race { natural: long, timeout: long, terminate: short }, EndedBy::Terminate),
        // A start that is ended before it has begun in earnest.
        (Race { natural: long, timeout: long, terminate: Duration::ZERO }, EndedBy::Terminate),
        (
            Race { natural: long, timeout: Duration::from_millis(1), terminate: Duration::from_secs(2) },
            EndedBy::Timeout,
        ),
    ];
    for (number, (race, cause)) in cases.into_iter().enumerate() {
        assert_eq!(race.run(&fixture.session, number).await, cause, "case {number}");
    }
    fixture.end().await;
}
