//! What the kernel offers and nobody wraps: the crate's only `unsafe`, a named file per kernel feature.

pub(crate) mod async_fd;
pub(crate) mod memfd;
pub(crate) mod orphan;
pub(crate) mod pidfd;
pub(crate) mod spawn;
pub(crate) mod subreaper;
