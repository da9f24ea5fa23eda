//! What the kernel offers and nobody wraps: the crate's only `unsafe`, a named file per kernel feature.

pub(crate) mod async_fd;
pub(crate) mod descriptor_limit;
#[cfg(target_os = "linux")]
pub(crate) mod given;
#[cfg(target_os = "linux")]
pub(crate) mod memfd;
#[cfg(target_os = "linux")]
pub(crate) mod orphan;
#[cfg(target_os = "linux")]
pub(crate) mod pidfd;
#[cfg(target_os = "linux")]
pub(crate) mod spawn;
pub(crate) mod subreaper;
