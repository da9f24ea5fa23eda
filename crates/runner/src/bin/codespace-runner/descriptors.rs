//! Whether this process may open as many files as it is going to need. The runtime does not report it when it has too few
//! of them, it panics; so this looks first.

use std::fs::File;
use std::io;

use nix::sys::resource::{Resource, getrlimit};

use crate::error::CliError;

/// To start one command and follow it: 27 were measured.
pub(crate) const TO_START: usize = 32;
/// To ask a Runner something: 7 were measured.
pub(crate) const TO_ASK: usize = 12;

/// Tries it, which also counts those that are open already.
pub(crate) fn need(count: usize) -> Result<(), CliError> {
    let opened: io::Result<Vec<File>> = (0..count).map(|_| File::open("/dev/null")).collect();
    match opened {
        Err(source) if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            let limit = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft).ok();
            Err(CliError::Descriptors { count, limit, source })
        }
        // Another error is another problem, and none of ours.
        Ok(_) | Err(_) => Ok(()),
    }
}
