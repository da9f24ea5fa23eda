//! Reads the plan from the inherited memfd. It is never a file: nothing can be left over, and nobody else can see it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};

use codespace_linux_sandbox_protocol::{PLAN_FD, PLAN_PROTOCOL, Plan};

use crate::sys;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("read the plan: {0}")]
    Read(#[from] io::Error),
    #[error("understand the plan: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "use a plan of protocol {0}; this helper speaks {PLAN_PROTOCOL}, so Runner and helper are of different builds"
    )]
    Protocol(u32),
    #[error("run an empty command")]
    EmptyCommand,
}

/// Takes over the inherited descriptor, makes it close-on-exec and reads the plan from its beginning. Helper and inner
/// stage both read it, so the descriptor is given back.
///
/// # Safety
/// Once per process image.
pub(crate) unsafe fn inherited() -> Result<(Plan, OwnedFd), PlanError> {
    // SAFETY: the Runner opened this number for us, and the caller calls once.
    let fd = unsafe { sys::inherited(PLAN_FD) };
    sys::set_cloexec(fd.as_fd(), true)?;
    let mut file = File::from(fd);
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let plan: Plan = serde_json::from_slice(&bytes)?;
    if plan.protocol != PLAN_PROTOCOL {
        return Err(PlanError::Protocol(plan.protocol));
    }
    if plan.command.argv.is_empty() {
        return Err(PlanError::EmptyCommand);
    }
    Ok((plan, file.into()))
}
