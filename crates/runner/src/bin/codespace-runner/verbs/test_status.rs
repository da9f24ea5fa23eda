//! A status for the tests of what is made of one.

use codespace_domain::{EndedBy, Enforcement, Lifetime, ProcessId, ProcessStatus, State, Termination, TreeReport};

/// Of a process that has ended well.
pub(crate) fn exited() -> ProcessStatus {
    ProcessStatus {
        process_id: ProcessId::mint(),
        process_key: None,
        workspace_id: "demo".parse().unwrap(),
        command: vec!["make".into(), "all tests".into()],
        tty: false,
        state: State::Exited,
        phase: None,
        pid: None,
        started_at: "2026-01-02T03:04:05.678Z".into(),
        ended_at: Some("2026-01-02T03:04:06Z".into()),
        exit_code: Some(0),
        signal: None,
        termination: Some(Termination::Exited),
        ended_by: Some(EndedBy::Command),
        tree: Some(TreeReport { confirmed: true, leftovers: 0, took_ms: 1, detail: None }),
        usage: None,
        limit: None,
        policy_findings: vec![],
        output_total: 0,
        output_retained_from: 0,
        eof: true,
        timeout_ms: None,
        limits: Default::default(),
        lifetime: Lifetime::Workspace,
        sandbox: Enforcement::Bubblewrap,
    }
}
