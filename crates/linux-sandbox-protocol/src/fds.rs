//! The descriptors that the helper is started with, above the three standard ones (which are all `/dev/null`: the
//! command's own stdin, stdout and stderr travel over the control socket, straight to the inner stage).

/// The helper's end of the `SOCK_SEQPACKET` pair.
pub const CONTROL_FD: i32 = 3;
/// A sealed memfd with the [`crate::Plan`] as JSON.
pub const PLAN_FD: i32 = 4;
/// A pidfd of the Runner: readable when it is gone.
pub const RUNNER_PIDFD: i32 = 5;
