use codespace_domain::Limits;
use proptest::prelude::*;

use super::*;

fn terms() -> Terms {
    Terms {
        timeout: None,
        grace: Duration::ZERO,
        linger: Duration::from_millis(250),
        keep: false,
        limits: Limits::default(),
    }
}

fn usage() -> TreeUsage {
    TreeUsage { user_ms: 1, system_ms: 2, max_rss_bytes: 3 }
}

/// Feeds events, in order, and returns everything that had to be done.
fn feed(state: &mut Lifecycle, events: impl IntoIterator<Item = Event>) -> Vec<Action> {
    events.into_iter().flat_map(|event| state.on(event)).collect()
}

fn started(terms: Terms) -> Lifecycle {
    let (mut state, _) = Lifecycle::new(terms);
    let actions = feed(&mut state, [Event::Launched, Event::Armed, Event::FirstProcess, Event::Ready, Event::Started]);
    assert_eq!(actions, [Action::AnswerHelper, Action::HandStdio, Action::AnnounceStart, Action::Show(Phase::Running)]);
    state
}

fn exited(end: CommandEnd, leftovers: u64) -> Event {
    Event::Exited { end, usage: usage(), leftovers }
}

fn terminate() -> Event {
    Event::End { cause: EndedBy::Terminate, grace: None }
}

const ALL_GONE: [Event; 4] = [Event::ControlClosed, Event::RootGone, Event::NamespaceGone, Event::CgroupEmpty];

/// The tree goes, the output is drained: the outcome.
fn finish(state: &mut Lifecycle) -> Outcome {
    let actions = feed(state, ALL_GONE);
    assert!(actions.contains(&Action::Drain), "{actions:?}");
    published(&state.on(Event::Drained))
}

fn published(actions: &[Action]) -> Outcome {
    let [Action::Publish(outcome)] = actions else { panic!("one outcome expected, not {actions:?}") };
    (**outcome).clone()
}

fn ended(outcome: Outcome) -> Ended {
    let Outcome::Ended(ended) = outcome else { panic!("an ended process expected, not {outcome:?}") };
    ended
}

#[test]
fn a_command_that_ends_without_leftovers_is_told_at_once() {
    let mut state = started(terms());
    let actions = state.on(exited(CommandEnd::Code(3), 0));
    assert!(!actions.contains(&Action::KillTree), "{actions:?}");
    let end = ended(finish(&mut state));
    assert_eq!((end.cause, end.termination), (EndedBy::Command, Termination::Exited));
    assert_eq!((end.command, end.unconfirmed), (Some(CommandEnd::Code(3)), None));
}

#[test]
fn leftovers_have_their_time_and_are_then_ended() {
    let mut state = started(terms());
    let actions = state.on(exited(CommandEnd::Code(0), 2));
    assert!(actions.contains(&Action::Arm(Timer::Linger, Duration::from_millis(250))), "{actions:?}");
    assert!(state.on(Event::Fired(Timer::Linger)).contains(&Action::KillTree));
    let end = ended(finish(&mut state));
    assert_eq!((end.cause, end.leftovers), (EndedBy::Command, 2));
}

#[test]
fn what_hides_from_the_count_does_not_stay_for_ever() {
    let mut state = started(Terms { linger: Duration::ZERO, ..terms() });
    let actions = state.on(exited(CommandEnd::Code(0), 0));
    assert!(actions.contains(&Action::Arm(Timer::Linger, UNSEEN)), "{actions:?}");
    assert!(state.on(Event::Fired(Timer::Linger)).contains(&Action::KillTree));
    assert_eq!(ended(finish(&mut state)).cause, EndedBy::Command);
}

#[test]
fn an_end_that_is_asked_for_while_leftovers_linger_makes_it_sooner_and_is_not_the_cause() {
    let mut state = started(terms());
    state.on(exited(CommandEnd::Code(0), 1));
    assert!(state.on(terminate()).contains(&Action::KillTree));
    assert_eq!(ended(finish(&mut state)).cause, EndedBy::Command);
}

#[test]
fn what_a_command_leaves_behind_does_not_outlast_the_timeout_which_is_not_the_cause() {
    let mut state = started(Terms { linger: Duration::from_secs(3600), ..terms() });
    state.on(exited(CommandEnd::Code(0), 1));
    assert!(state.on(Event::Fired(Timer::Timeout)).contains(&Action::KillTree));
    assert_eq!(ended(finish(&mut state)).cause, EndedBy::Command);
}

#[test]
fn a_timeout_during_the_grace_of_another_end_changes_nothing() {
    let mut state = started(terms());
    state.on(Event::End { cause: EndedBy::Terminate, grace: Some(Duration::from_secs(5)) });
    assert_eq!(state.on(Event::Fired(Timer::Timeout)), []);
}

#[test]
fn a_kept_background_goes_on_after_the_commands_own_end() {
    let mut state = started(Terms { keep: true, ..terms() });
    assert_eq!(state.on(exited(CommandEnd::Code(5), 1)), []);
    assert!(!state.is_ending());
    state.on(terminate());
    let end = ended(finish(&mut state));
    assert_eq!(
        (end.cause, end.termination, end.command),
        (EndedBy::Terminate, Termination::Terminated, Some(CommandEnd::Code(5)))
    );
    assert_eq!(end.leftovers, 0);
}

#[test]
fn a_kept_background_that_loses_its_helper_was_not_ended_by_the_command() {
    let mut state = started(Terms { keep: true, ..terms() });
    state.on(exited(CommandEnd::Code(5), 1));
    let end = ended(finish(&mut state));
    assert_eq!(
        (end.cause, end.termination, end.command),
        (EndedBy::HelperLost, Termination::Unknown, Some(CommandEnd::Code(5)))
    );
    let mut state = started(Terms { keep: true, ..terms() });
    feed(&mut state, [exited(CommandEnd::Code(5), 1), Event::Gone { usage: usage() }]);
    let end = ended(finish(&mut state));
    assert_eq!((end.cause, end.termination), (EndedBy::Command, Termination::Exited));
}

#[test]
fn an_end_during_the_start_kills_and_is_told_as_an_end() {
    for reached in 0..4 {
        let (mut state, _) = Lifecycle::new(terms());
        let steps = [Event::Launched, Event::Armed, Event::FirstProcess, Event::Ready];
        feed(&mut state, steps.iter().take(reached).cloned());
        let mut actions = state.on(terminate());
        // Whatever asks now gets no leave to go on.
        actions.extend(feed(&mut state, steps.iter().skip(reached).cloned()));
        // Once more when the root exists, if it did not when the end came.
        let kills = actions.iter().filter(|action| **action == Action::KillTree).count();
        assert_eq!(kills, if reached == 0 { 2 } else { 1 }, "{reached}: {actions:?}");
        assert!(
            !actions.contains(&Action::HandStdio) && !actions.contains(&Action::AnswerHelper),
            "{reached}: {actions:?}"
        );
        let end = ended(finish(&mut state));
        assert_eq!((end.cause, end.termination, end.command), (EndedBy::Terminate, Termination::Terminated, None));
    }
}

#[test]
fn an_end_before_there_is_a_root_is_told_without_one() {
    let (mut state, _) = Lifecycle::new(terms());
    state.on(terminate());
    assert_eq!(state.on(Event::Abandoned), [Action::Drain]);
    let end = ended(published(&state.on(Event::Drained)));
    assert_eq!((end.cause, end.unconfirmed), (EndedBy::Terminate, None));
}

#[test]
fn a_grace_asks_first_and_ends_then() {
    let mut state = started(Terms { grace: Duration::from_secs(1), ..terms() });
    let actions = state.on(Event::Fired(Timer::Timeout));
    assert!(
        actions.contains(&Action::AskToEnd) && actions.contains(&Action::Arm(Timer::Grace, Duration::from_secs(1)))
    );
    // The command ends by itself, what it left has the rest of the grace.
    assert_eq!(state.on(exited(CommandEnd::Code(0), 1)), []);
    assert!(state.on(Event::Fired(Timer::Grace)).contains(&Action::KillTree));
    let end = ended(finish(&mut state));
    assert_eq!(
        (end.cause, end.termination, end.command, end.leftovers),
        (EndedBy::Timeout, Termination::Timeout, None, 0)
    );
}

#[test]
fn a_second_end_without_grace_cuts_the_first_ones_grace_short() {
    let mut state = started(terms());
    state.on(Event::End { cause: EndedBy::Workspace, grace: Some(Duration::from_secs(60)) });
    let actions = state.on(Event::End { cause: EndedBy::Terminate, grace: Some(Duration::ZERO) });
    assert!(actions.contains(&Action::KillTree), "{actions:?}");
    assert_eq!(ended(finish(&mut state)).cause, EndedBy::Workspace);
}

#[test]
fn a_start_that_failed_is_an_error_and_no_end() {
    let (mut state, _) = Lifecycle::new(terms());
    let failure = StageFailure { stage: Stage::Exec, errno: Some(2), message: "execute x".into() };
    feed(&mut state, [Event::Launched, Event::Armed, Event::FirstProcess, Event::Ready]);
    assert!(state.on(Event::Failed(failure.clone())).contains(&Action::KillTree));
    assert_eq!(finish(&mut state), Outcome::StartFailed(failure));
}

#[test]
fn a_sandbox_that_could_not_be_set_up_says_what_the_engine_said() {
    let (mut state, _) = Lifecycle::new(terms());
    feed(&mut state, [Event::Launched, Event::Armed, Event::FirstProcess]);
    state.on(Event::EngineEnded { said: "bwrap: no".into() });
    let Outcome::StartFailed(failure) = finish(&mut state) else { panic!("a failed start expected") };
    assert!(failure.stage == Stage::Sandbox && failure.message.contains("bwrap: no"), "{failure:?}");
}

#[test]
fn a_helper_that_something_else_killed_is_told_as_lost_and_its_tree_is_ended() {
    let mut state = started(terms());
    assert!(state.on(Event::RootGone).contains(&Action::Arm(Timer::Proof, PROOF)));
    feed(&mut state, [Event::ControlClosed, Event::NamespaceGone]);
    let end = ended(published(&state.on(Event::Drained)));
    assert_eq!((end.cause, end.termination), (EndedBy::HelperLost, Termination::Unknown));
}

#[test]
fn a_cgroup_that_is_not_empty_is_no_confirmed_end() {
    let (mut state, _) = Lifecycle::new(terms());
    feed(
        &mut state,
        [Event::InCgroup, Event::Launched, Event::Armed, Event::FirstProcess, Event::Ready, Event::Started],
    );
    state.on(terminate());
    assert!(!feed(&mut state, [Event::ControlClosed, Event::RootGone, Event::NamespaceGone]).contains(&Action::Drain));
    assert_eq!(state.on(Event::CgroupEmpty), [Action::Drain]);
}

#[test]
fn a_helper_that_stays_after_its_sandbox_has_ended_is_ended() {
    let mut state = started(terms());
    state.on(exited(CommandEnd::Code(0), 0));
    assert_eq!(state.on(Event::NamespaceGone), [Action::Arm(Timer::Helper, HELPER)]);
    assert!(state.on(Event::Fired(Timer::Helper)).contains(&Action::KillTree));
    feed(&mut state, [Event::ControlClosed, Event::RootGone]);
    assert_eq!(ended(published(&state.on(Event::Drained))).cause, EndedBy::Command);
}

#[test]
fn a_tree_that_is_not_seen_gone_in_time_is_told_as_unconfirmed_with_the_reason() {
    let mut state = started(terms());
    state.on(terminate());
    feed(&mut state, [Event::ControlClosed, Event::RootGone]);
    assert!(state.on(Event::Fired(Timer::Proof)).contains(&Action::Drain));
    let end = ended(published(&state.on(Event::Drained)));
    assert!(end.unconfirmed.as_deref().is_some_and(|why| why.contains("first process")), "{end:?}");
}

#[test]
fn a_limit_that_the_kernel_kept_is_named() {
    let limits = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let mut state = started(Terms { limits, ..terms() });
    state.on(exited(CommandEnd::Signal(libc::SIGXCPU), 0));
    let end = ended(finish(&mut state));
    assert_eq!((end.cause, end.limit, end.termination), (EndedBy::Limit, Some(LimitName::Cpu), Termination::Signaled));
    // One that ignores SIGXCPU gets SIGKILL a second later; a SIGKILL before that is somebody else's.
    let spent = |ms| Event::Exited {
        end: CommandEnd::Signal(libc::SIGKILL),
        usage: TreeUsage { user_ms: ms, ..usage() },
        leftovers: 0,
    };
    for (ms, cause) in [(2010, EndedBy::Limit), (500, EndedBy::Command)] {
        let mut state = started(Terms { limits, ..terms() });
        state.on(spent(ms));
        assert_eq!(ended(finish(&mut state)).cause, cause);
    }
    // Without such a limit it is a signal like any other.
    let mut state = started(terms());
    state.on(exited(CommandEnd::Signal(libc::SIGXCPU), 0));
    assert_eq!(ended(finish(&mut state)).cause, EndedBy::Command);
}

#[test]
fn without_a_namespace_the_supervisor_or_a_look_below_it_is_the_proof() {
    for proof in [Event::Gone { usage: usage() }, Event::SeenEmpty] {
        let (mut state, _) = Lifecycle::new(terms());
        feed(&mut state, [Event::Launched, Event::Armed, Event::Supervised, Event::Ready, Event::Started]);
        let actions = state.on(terminate());
        assert!(actions.contains(&Action::AskSupervisor) && !actions.contains(&Action::KillTree), "{actions:?}");
        assert_eq!(state.clone().on(Event::Fired(Timer::Helper)), [Action::KillTree]);
        assert!(!feed(&mut state, [Event::ControlClosed, Event::RootGone]).contains(&Action::Drain));
        assert_eq!(state.on(proof), [Action::Drain]);
        assert_eq!(ended(published(&state.on(Event::Drained))).unconfirmed, None);
    }
    // A namespace is proven gone by its own handle only.
    let mut state = started(terms());
    state.on(terminate());
    assert!(!feed(&mut state, [Event::ControlClosed, Event::RootGone, Event::SeenEmpty]).contains(&Action::Drain));
}

fn any_event() -> impl Strategy<Value = Event> {
    let failure = StageFailure { stage: Stage::Exec, errno: Some(2), message: "x".into() };
    prop_oneof![
        Just(Event::Launched),
        Just(Event::LaunchFailed(failure.clone())),
        Just(Event::InCgroup),
        Just(Event::CgroupEmpty),
        Just(Event::Abandoned),
        Just(Event::Armed),
        Just(Event::FirstProcess),
        Just(Event::Supervised),
        Just(Event::SeenEmpty),
        Just(Event::Ready),
        Just(Event::Started),
        Just(Event::Failed(failure)),
        (0..3u64).prop_map(|leftovers| exited(CommandEnd::Code(0), leftovers)),
        Just(Event::Gone { usage: usage() }),
        Just(Event::EngineEnded { said: "x".into() }),
        Just(Event::ControlClosed),
        Just(Event::RootGone),
        Just(Event::NamespaceGone),
        (any::<bool>(), 0..2u64).prop_map(|(stop, grace)| Event::End {
            cause: if stop { EndedBy::Stop } else { EndedBy::Terminate },
            grace: Some(Duration::from_secs(grace)),
        }),
        prop_oneof![
            Just(Timer::Timeout),
            Just(Timer::Grace),
            Just(Timer::Linger),
            Just(Timer::Helper),
            Just(Timer::Proof)
        ]
        .prop_map(Event::Fired),
        Just(Event::Drained),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_it_is_published_once_and_only_after_a_drain(
        events in proptest::collection::vec(any_event(), 0..40),
        keep in any::<bool>(),
    ) {
        let (mut state, _) = Lifecycle::new(Terms { keep, ..terms() });
        let mut drained = false;
        let mut outcomes = Vec::new();
        for event in events.into_iter().chain([Event::Launched, terminate()]).chain(ALL_GONE).chain([Event::Drained]) {
            for action in state.on(event) {
                match action {
                    Action::Drain => drained = true,
                    Action::Publish(outcome) => {
                        prop_assert!(drained);
                        outcomes.push(*outcome);
                    }
                    Action::HandStdio | Action::AnswerHelper => prop_assert!(!state.killed),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(outcomes.len(), 1);
        if let Outcome::Ended(end) = &outcomes[0] {
            let own = matches!(end.termination, Termination::Exited | Termination::Signaled);
            prop_assert!(keep || end.command.is_some() == own, "{:?}", end);
            prop_assert!(end.leftovers == 0 || matches!(end.cause, EndedBy::Command | EndedBy::Limit));
        }
    }

    #[test]
    fn the_first_cause_is_the_one_that_is_told(events in proptest::collection::vec(any_event(), 0..20)) {
        let mut state = started(terms());
        let mut first = None;
        for event in events {
            let cause = match &event {
                Event::End { cause, .. } => Some(*cause),
                Event::Fired(Timer::Timeout) => Some(EndedBy::Timeout),
                Event::Exited { .. } => Some(EndedBy::Command),
                _ => None,
            };
            if state.published { break; }
            first = first.or(cause);
            for action in state.on(event) {
                if let Action::Publish(outcome) = action
                    && let Outcome::Ended(end) = *outcome
                {
                    prop_assert_eq!(end.cause, first.unwrap_or(EndedBy::HelperLost));
                }
            }
        }
    }
}
