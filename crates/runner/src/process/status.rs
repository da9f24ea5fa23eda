//! What others are told of a process.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use codespace_domain::{Enforcement, Lifetime, Limits, Phase, ProcessStatus, State, TreeReport, Usage};
use codespace_linux_sandbox_protocol::CommandEnd;
use codespace_policy::Admitted;

use super::{End, Slot, Visible};
use crate::lifecycle::Ended;

/// The part of what was decided that others may see.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) limits: Limits,
    pub(crate) lifetime: Lifetime,
    pub(crate) enforcement: Enforcement,
    pub(crate) exclusive: bool,
    pub(crate) max_processes: u64,
    pub(crate) started_at: SystemTime,
}

impl Terms {
    pub(super) fn new(admitted: &Admitted) -> Self {
        Self {
            timeout_ms: admitted.timeout_ms,
            limits: admitted.limits,
            lifetime: admitted.lifetime,
            enforcement: admitted.enforcement,
            exclusive: admitted.exclusive,
            max_processes: admitted.max_processes,
            started_at: SystemTime::now(),
        }
    }
}

/// As it is now: what the owner shows, with what the journal has.
pub(super) fn status(slot: &Slot, visible: &Visible) -> ProcessStatus {
    let mut status = match &visible.end {
        Some(End::Ended(ended)) => ProcessStatus::clone(ended),
        Some(End::StartFailed(_)) => base(slot, State::Exited),
        None => ProcessStatus { phase: visible.phase, pid: visible.pid, ..base(slot, State::Running) },
    };
    let totals = slot.journal.totals();
    status.output_total = totals.total;
    status.output_retained_from = totals.retained_from;
    status.eof = totals.eof;
    status
}

/// The final status.
pub(super) fn ended(slot: &Slot, ended: &Ended, wall: Duration, took: Duration) -> Arc<ProcessStatus> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let used = ended.usage;
    let (exit_code, signal) = match ended.command {
        Some(CommandEnd::Code(code)) => (Some(code), None),
        Some(CommandEnd::Signal(number)) => (None, Some(number.into())),
        None => (None, None),
    };
    Arc::new(ProcessStatus {
        ended_at: Some(humantime::format_rfc3339_millis(SystemTime::now()).to_string()),
        exit_code,
        signal,
        termination: Some(ended.termination),
        ended_by: Some(ended.cause),
        tree: Some(TreeReport {
            confirmed: ended.unconfirmed.is_none(),
            leftovers: ended.leftovers,
            took_ms: ms(took),
            detail: ended.unconfirmed.clone(),
        }),
        usage: Some(Usage {
            wall_ms: ms(wall),
            user_ms: used.map(|usage| usage.user_ms),
            system_ms: used.map(|usage| usage.system_ms),
            max_rss_bytes: used.and_then(|usage| usage.max_rss_bytes),
        }),
        limit: ended.limit,
        ..base(slot, State::Exited)
    })
}

fn base(slot: &Slot, state: State) -> ProcessStatus {
    let running = state == State::Running;
    ProcessStatus {
        process_id: slot.id,
        process_key: slot.asked.process_key.clone(),
        workspace_id: slot.asked.workspace_id.clone(),
        command: slot.asked.command.clone(),
        tty: slot.asked.tty,
        state,
        phase: running.then_some(Phase::Starting),
        pid: None,
        started_at: humantime::format_rfc3339_millis(slot.terms.started_at).to_string(),
        ended_at: None,
        exit_code: None,
        signal: None,
        termination: None,
        ended_by: None,
        tree: None,
        usage: None,
        limit: None,
        policy_findings: Vec::new(),
        output_total: 0,
        output_retained_from: 0,
        eof: false,
        timeout_ms: slot.terms.timeout_ms,
        limits: slot.terms.limits,
        lifetime: slot.terms.lifetime,
        sandbox: slot.terms.enforcement,
    }
}
