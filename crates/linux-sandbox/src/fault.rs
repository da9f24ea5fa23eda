//! Safety devices that the tests switch off one by one, to prove that each is needed and that the tests see it missing;
//! and abilities of the kernel that they do without, to see what happens on hosts that lack them.
//! Compiled in only with the feature `fault-injection`, which no released binary has.

/// A device, or an ability, that is switched off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No death signal is armed and nobody asks whether its parent is still there.
    NoLifeline,
    /// The first process asks and is answered first, and arms its death signal afterwards.
    AnswerBeforeArming,
    /// The first process's question is answered by a process whose death its signal does not follow, and it does not look
    /// at whether its parent lives.
    AnswerFromWrongProcess,
    /// The kernel seems to have none of the newer mount calls: every view is built from bubblewrap's arguments.
    NoMountCalls,
}

/// Whether `fault` is switched on in this process.
#[cfg(feature = "fault-injection")]
pub(crate) fn on(fault: Fault) -> bool {
    let wanted = match fault {
        Fault::NoLifeline => "no-lifeline",
        Fault::AnswerBeforeArming => "answer-before-arming",
        Fault::AnswerFromWrongProcess => "answer-from-wrong-process",
        Fault::NoMountCalls => "no-mount-calls",
    };
    std::env::var("CODESPACE_FAULT").is_ok_and(|list| list.split(',').any(|name| name == wanted))
}

/// The environment of what this process turns into: it passes the switches on.
#[cfg(feature = "fault-injection")]
pub(crate) fn environment() -> Vec<std::ffi::CString> {
    let faults = std::env::var("CODESPACE_FAULT").ok();
    faults.and_then(|list| std::ffi::CString::new(format!("CODESPACE_FAULT={list}")).ok()).into_iter().collect()
}

/// The environment of what this process turns into: empty.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn environment() -> Vec<std::ffi::CString> {
    Vec::new()
}

/// Whether `fault` is switched on in this process: never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn on(_: Fault) -> bool {
    false
}
