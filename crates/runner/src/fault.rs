//! Safety devices that the tests switch off one by one, to prove that each is needed and that the tests see it missing.
//! Compiled in only with the feature `fault-injection`, which no released binary has.

/// A device that is switched off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Of a tree, only the root is ended.
    NoWalk,
    /// No process gets a cgroup, and what a dead Runner has left in one is not swept.
    NoCgroup,
}

/// Whether `fault` is switched on in this process.
#[cfg(feature = "fault-injection")]
pub(crate) fn on(fault: Fault) -> bool {
    let wanted = match fault {
        Fault::NoWalk => "no-walk",
        Fault::NoCgroup => "no-cgroup",
    };
    std::env::var("CODESPACE_FAULT").is_ok_and(|list| list.split(',').any(|name| name == wanted))
}

/// Whether `fault` is switched on in this process: never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn on(_: Fault) -> bool {
    false
}
