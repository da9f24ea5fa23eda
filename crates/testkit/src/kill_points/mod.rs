//! Kill points: a start is held at one of its system calls, and there somebody ends it or is killed.
//!
//! A [`Point`] is one system call of the set-up of a sandbox, named by the [`Role`] of the process that makes it and by its
//! number there. A [`Stage`] is a Runner whose starts are traced from their first instruction on; it lists the points of a
//! start, and visits them: the process that reaches the point is held there, before the call is made, while all others go
//! on; the [`Cause`] comes; then it is let go, if it is still there. What must not be is told as a [`Visit`]'s finding:
//! - a process of the tree that lives a second later,
//! - an answer that does not come in time, names another cause or could not confirm the tree's end, or says so while
//!   something lives,
//! - a process that becomes another program or starts one after it was let go,
//! - a command whose first act comes later than the answer or the kill.
//!
//! One thread does all tracing, since the kernel ties a tracee to its tracer's thread, and reaps at once what has died: a
//! tracee that nobody reaps keeps the first process of its namespace from vanishing.
//!
//! A point is the entry of a call only: between the exit of one call and the entry of the next a process does nothing that
//! another could see.

mod cause;
mod crowd;
mod end;
mod point;
mod processor;
mod ptrace;
mod runner_kill;
mod stage;
mod start;
mod table;
mod tracer;
mod tracer_thread;
mod tree;
mod wake;

pub use cause::Cause;
pub use point::{Point, Role};
pub use stage::{Programs, Stage};
pub use table::{Outcome, Visit, table};
