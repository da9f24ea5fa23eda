//! The working directory: within the workspace, there, a directory, and not denied.

use std::path::{Path, PathBuf};

use codespace_domain::{ByteString, ErrorCode, RunnerError, Stage};
use codespace_linux_sandbox_protocol::Access;

use crate::facts::{EACCES, ENOTDIR, errno_text};
use crate::paths::{Escape, walk_within};
use crate::view::ViewMap;
use crate::{Disk, Kind};

/// The resolved directory that `requested` names below `root`, which has no links in it. `view` is `None` without a
/// sandbox.
pub(crate) fn resolve(
    requested: Option<&ByteString>,
    root: &Path,
    view: Option<&ViewMap>,
    disk: &dyn Disk,
) -> Result<PathBuf, RunnerError> {
    let Some(requested) = requested else {
        return Ok(root.to_owned());
    };
    let text = requested.to_text();
    let failed = |errno| {
        let message = format!("change to the directory {text}: {}", errno_text(errno));
        RunnerError::spawn_failed(Stage::Cwd, Some(errno), message)
    };
    let walked = walk_within(disk, root, requested.as_path()).map_err(|Escape| {
        RunnerError::new(ErrorCode::PathEscape, format!("use {text} as cwd: it leads out of the workspace"))
            .with_hint("give a directory relative to the workspace's root")
    })?;
    match walked.end {
        Ok(Kind::Dir) if view.is_some_and(|view| view.access(&walked.path) == Some(&Access::Deny)) => {
            Err(failed(EACCES))
        }
        Ok(Kind::Dir) => Ok(walked.path),
        Ok(_) => Err(failed(ENOTDIR)),
        Err(errno) => Err(failed(errno)),
    }
}
