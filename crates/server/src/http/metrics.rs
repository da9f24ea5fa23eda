//! `/metrics`, as Prometheus reads it: what was started through this gateway and how it ended.
//!
//! Counts what it has seen: each start is followed to its end through a session of its own, so that no session is kept
//! alive by being counted.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use codespace_domain::{EndedBy, ProcessId, ProcessStatus, State as ProcessState, StatusRequest};
use codespace_runner::Runner as _;
use serde_json::Value;
use tokio::sync::Notify;

use crate::backend::{Backend, Client};

/// More than a Runner keeps of ended ones, so that none comes back unknown.
const MOST_COUNTED: usize = 512;

/// The counters of one gateway.
pub struct Metrics {
    counts: Mutex<Counts>,
    /// Told when the last call under way is over.
    quiet: Notify,
    watcher: Client,
}

#[derive(Default)]
struct Counts {
    /// Calls of tools under way.
    calls: u64,
    starts: u64,
    live: HashSet<ProcessId>,
    /// The latest that were counted, live or not.
    counted: VecDeque<ProcessId>,
    /// By the contract's words for `ended_by`.
    ends: BTreeMap<String, u64>,
    unconfirmed: u64,
    output_bytes: u64,
}

impl Metrics {
    pub(super) fn new(backend: &Backend) -> Self {
        Self { counts: Mutex::default(), quiet: Notify::new(), watcher: backend.client() }
    }

    /// A call of a tool begins; it is over when what this returns is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> UnderWay {
        self.with(|counts| counts.calls += 1);
        UnderWay(Arc::clone(self))
    }

    /// Returns when no call is under way.
    pub(super) async fn no_calls(&self) {
        loop {
            let quiet = self.quiet.notified();
            tokio::pin!(quiet);
            // From here on it hears of it, so that none is missed between the look and the wait.
            quiet.as_mut().enable();
            if self.with(|counts| counts.calls == 0) {
                return;
            }
            quiet.await;
        }
    }

    /// One more was started; its end is counted when it comes.
    pub(crate) fn started(self: &Arc<Self>, process_id: ProcessId) {
        if !self.with(|counts| counts.started(process_id)) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let ended = this.end_of(process_id).await;
            this.with(|counts| counts.ended(process_id, ended.as_ref()));
        });
    }

    /// `None` where it could not be seen: the Runner is gone, or has forgotten it.
    async fn end_of(&self, process_id: ProcessId) -> Option<ProcessStatus> {
        loop {
            let status = self.watcher.process_status(StatusRequest { process_id, wait_ms: 600_000 }).await.ok()?;
            if status.state == ProcessState::Exited {
                return Some(*status);
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Counts) -> T) -> T {
        act(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call that is not over.
pub(crate) struct UnderWay(Arc<Metrics>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let left = self.0.with(|counts| {
            counts.calls -= 1;
            counts.calls
        });
        if left == 0 {
            self.0.quiet.notify_waiters();
        }
    }
}

impl Counts {
    /// False for one that is counted already: a retry with the same key brings the same process.
    fn started(&mut self, process_id: ProcessId) -> bool {
        if self.counted.contains(&process_id) || !self.live.insert(process_id) {
            return false;
        }
        self.counted.push_back(process_id);
        if self.counted.len() > MOST_COUNTED {
            self.counted.pop_front();
        }
        self.starts += 1;
        true
    }

    fn ended(&mut self, process_id: ProcessId, status: Option<&ProcessStatus>) {
        self.live.remove(&process_id);
        let cause = status.and_then(|status| status.ended_by).map_or_else(|| "unseen".to_owned(), word);
        *self.ends.entry(cause).or_default() += 1;
        if let Some(status) = status {
            self.output_bytes += status.output_total;
            self.unconfirmed += u64::from(status.tree.as_ref().is_none_or(|tree| !tree.confirmed));
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
            writeln!(text, "# HELP codespace_{name} {help}\n# TYPE codespace_{name} {kind}").ok();
            for (labels, value) in samples {
                writeln!(text, "codespace_{name}{labels} {value}").ok();
            }
        };
        let plain = |value| [(String::new(), value)];
        let ends: Vec<_> = self.ends.iter().map(|(cause, n)| (format!("{{ended_by=\"{cause}\"}}"), *n)).collect();
        family("calls", "gauge", "Calls of tools under way.", &plain(self.calls));
        family("starts_total", "counter", "Processes started.", &plain(self.starts));
        family("ends_total", "counter", "Processes ended, by cause.", &ends);
        family("live", "gauge", "Processes that live now.", &plain(self.live.len() as u64));
        let help = "Trees that were not seen gone.";
        family("unconfirmed_trees_total", "counter", help, &plain(self.unconfirmed));
        family("output_bytes_total", "counter", "Output of ended processes.", &plain(self.output_bytes));
        text
    }
}

fn word(cause: EndedBy) -> String {
    match serde_json::to_value(cause) {
        Ok(Value::String(word)) => word,
        _ => "unseen".to_owned(),
    }
}

pub(super) async fn show(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.with(|counts| counts.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_comes_again_is_counted_once_also_after_its_end() {
        let mut counts = Counts::default();
        let one = ProcessId::mint();
        assert!(counts.started(one));
        assert!(!counts.started(one));
        counts.ended(one, None);
        assert!(!counts.started(one));
        assert_eq!((counts.starts, counts.live.len(), counts.ends["unseen"]), (1, 0, 1));
        let more = (0..MOST_COUNTED + 10).filter(|_| counts.started(ProcessId::mint())).count();
        assert_eq!((more, counts.counted.len()), (MOST_COUNTED + 10, MOST_COUNTED));
    }
}
