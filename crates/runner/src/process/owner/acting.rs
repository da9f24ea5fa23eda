//! Performs what the lifecycle decides, and tells others what they see.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use codespace_linux_sandbox_protocol::ToSandbox;
use tokio::time::Instant;

use super::launching::{Launch, start_failed};
use super::{End, Owner, status};
use crate::lifecycle::{Action, Event, Outcome, Timer, Used};
use crate::process::end::{Target, kill_pipe_root};

/// How long the pipes may stay open after the tree is gone: only where somebody outside the tree holds them.
const DRAIN: Duration = Duration::from_millis(500);

impl Owner {
    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::AnswerHelper => self.say(&ToSandbox::Go),
                Action::HandStdio => {
                    if let (Some(control), Some(theirs)) = (&self.control, self.theirs.take()) {
                        let fds = [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()];
                        if let Err(error) = control.send(&ToSandbox::Start, &fds) {
                            // The sandbox is gone; its end of file follows.
                            tracing::debug!(%error, "nobody took the command's descriptors");
                        }
                    }
                }
                Action::AskToEnd => {
                    self.say(&ToSandbox::Signal { number: libc::SIGTERM });
                    // A stopped command takes the first only when it goes on.
                    self.say(&ToSandbox::Signal { number: libc::SIGCONT });
                }
                Action::AskSupervisor => self.say(&ToSandbox::End),
                Action::KillTree => self.kill_tree(),
                Action::Arm(timer, after) => self.arm(timer, after),
                Action::AnnounceStart => {
                    self.visible.send_modify(|visible| visible.started = true);
                }
                Action::Show(phase) => {
                    self.visible.send_modify(|visible| visible.phase = Some(phase));
                }
                Action::Drain => {
                    self.proven_at = Some(Instant::now());
                    // Never handed over, or held by nobody: the pipes end here.
                    self.theirs = None;
                    if let Some(stdin) = self.stdin.take() {
                        stdin.abort();
                    }
                    if let Some(pumps) = &self.pumps {
                        pumps.drain(DRAIN);
                    }
                    self.drained_asked = true;
                    if self.pumps.is_none() {
                        self.slot.journal.close();
                        self.feed(Event::Drained);
                    }
                }
                Action::Publish(outcome) => self.publish(*outcome),
            }
        }
    }

    fn say(&self, message: &ToSandbox) {
        let Some(control) = &self.control else { return };
        if let Err(error) = control.send(message, &[]) {
            tracing::debug!(%error, ?message, "nobody heard");
        }
    }

    fn arm(&mut self, timer: Timer, after: Duration) {
        let from = if timer == Timer::Timeout { self.accepted } else { Instant::now() };
        // A time too far away to be told never comes.
        let Some(at) = from.checked_add(after) else { return };
        match self.timers.iter_mut().find(|(kind, _)| *kind == timer) {
            // A second grace can only make it sooner.
            Some((_, known)) => *known = at.min(*known),
            None => self.timers.push((timer, at)),
        }
    }

    pub(super) fn kill_tree(&mut self) {
        if let Launch::Planning(_) = self.launch {
            // The look at the disk may go on, but nothing comes of it.
            self.launch = Launch::Over;
            self.feed(Event::Abandoned);
            return;
        }
        if self.root.is_none() && self.first.is_none() && self.cgroup.is_none() {
            return;
        }
        let target = Target {
            root: self.root.clone(),
            first: self.first.clone(),
            cgroup: self.cgroup.as_ref().map(|(leaf, _)| Arc::clone(leaf)),
            sandboxed: self.slot.sandboxed,
        };
        self.walk = Some(self.launcher.spawner.run(move || kill_pipe_root(&target)));
    }

    fn publish(&mut self, outcome: Outcome) {
        let now = Instant::now();
        let end = match outcome {
            Outcome::Ended(mut ended) => {
                // An end by force leaves no one who could tell what was used, or what was used since the command's own
                // end; the cgroup still knows.
                if let Some((user_ms, system_ms)) = self.cgroup.as_ref().and_then(|(leaf, _)| leaf.cpu_ms()) {
                    let told = ended.usage.unwrap_or(Used { user_ms: 0, system_ms: 0, max_rss_bytes: None });
                    let (user_ms, system_ms) = (told.user_ms.max(user_ms), told.system_ms.max(system_ms));
                    ended.usage = Some(Used { user_ms, system_ms, ..told });
                }
                let proven = self.proven_at.unwrap_or(now);
                let took = proven - self.ending_since.unwrap_or(proven).min(proven);
                End::Ended(status::ended(&self.slot, &ended, now - self.accepted, took))
            }
            Outcome::StartFailed(failure) => {
                self.table.forget(self.slot.id);
                End::StartFailed(self.refusal.take().unwrap_or_else(|| start_failed(failure)))
            }
        };
        if matches!(end, End::Ended(_)) {
            self.table.ended(self.slot.id);
        }
        self.visible.send_modify(|visible| {
            visible.phase = None;
            visible.end = Some(end);
        });
        self.published = true;
    }
}
