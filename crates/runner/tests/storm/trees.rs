//! What the storm starts, and where: trees that stay until they are ended, trees that end by themselves, and starts that
//! fail. It only describes; `worker` starts and ends.

use std::path::Path;

use codespace_runner::domain::{Background, ExecRequest, OnFull, Stage, StdinMode};
use codespace_testkit::fixture::{WORKSPACE, ask};
use codespace_testkit::programs;
use codespace_testkit::random::Random;

/// The workspaces: sandboxed, without a sandbox, and without that and a PID namespace.
pub(crate) const PLACES: [&str; 3] = [WORKSPACE, "bare", "loose"];

/// How a tree behaves when nobody ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It stays.
    Stays,
    /// It ends by itself, soon.
    Ends,
    /// It never starts; this is where it fails.
    Fails(Stage),
}

/// One kind of tree.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) name: &'static str,
    pub(crate) nature: Nature,
    pub(crate) request: fn() -> ExecRequest,
}

const fn tree(name: &'static str, nature: Nature, request: fn() -> ExecRequest) -> Tree {
    Tree { name, nature, request }
}

const TREES: [Tree; 22] = [
    tree("a sleep", Nature::Stays, || ask::command(["sleep", "1000"])),
    tree("a double fork with setsid", Nature::Stays, || ask::command(["./double_fork_setsid", "stay"])),
    tree("sessions in sessions", Nature::Stays, || {
        ask::shell("setsid sh -c 'setsid sleep 1000 & sleep 1000' & exec sleep 1000")
    }),
    tree("twenty sleeps", Nature::Stays, || {
        ask::shell("i=0; while [ $i -lt 20 ]; do setsid sleep 1000 & i=$((i+1)); done; wait")
    }),
    tree("a chain of forks and exits", Nature::Stays, || ask::command(["./fork_and_exit_chain"])),
    tree("ignored signals", Nature::Stays, || ask::command(["./ignore_every_signal"])),
    tree("stopped members", Nature::Stays, || ask::shell("sleep 1000 & kill -STOP $!; kill -STOP $$; wait")),
    tree("held output", Nature::Stays, || ask::command(["./hold_stdout_open", "stay"])),
    tree("a flood that nobody reads", Nature::Stays, || ask::command(["./flood_both", "1000000000000"])),
    tree("a flood that waits for its reader", Nature::Stays, || ExecRequest {
        on_full: OnFull::Wait,
        ..ask::command(["./flood_both", "1000000000000"])
    }),
    tree("open stdin", Nature::Stays, || ExecRequest { stdin: StdinMode::Pipe, ..ask::command(["cat"]) }),
    tree("a terminal", Nature::Stays, || ExecRequest { tty: true, ..ask::command(["cat"]) }),
    tree("a terminal with sessions of its own", Nature::Stays, || ExecRequest {
        tty: true,
        ..ask::shell("setsid sleep 1000 & trap '' HUP; sleep 1000 & exec sleep 1000")
    }),
    tree("a background that is kept", Nature::Stays, || ExecRequest {
        background: Background::Keep,
        ..ask::shell("setsid sleep 1000 & exit 3")
    }),
    tree("nothing", Nature::Ends, || ask::command(["true"])),
    tree("leftovers", Nature::Ends, || ask::command(["./double_fork_setsid"])),
    tree("leftovers that hold the output", Nature::Ends, || ask::command(["./hold_stdout_open"])),
    tree("a short flood", Nature::Ends, || ask::command(["./flood_both", "1000000"])),
    tree("a short terminal", Nature::Ends, || ExecRequest {
        tty: true,
        ..ask::shell("setsid sleep 1000 & echo hi; exit 7")
    }),
    tree("a background that is kept and ends", Nature::Ends, || ExecRequest {
        background: Background::Keep,
        ..ask::shell("setsid sleep 0.1 & exit 3")
    }),
    tree("a missing program", Nature::Fails(Stage::Exec), || ask::command(["./no-such-program"])),
    tree("a missing directory", Nature::Fails(Stage::Cwd), || ExecRequest {
        cwd: Some("no-such-directory".into()),
        ..ask::command(["true"])
    }),
];

const PROGRAMS: [&str; 5] =
    ["double_fork_setsid", "fork_and_exit_chain", "ignore_every_signal", "hold_stdout_open", "flood_both"];

/// Any of them.
pub(crate) fn any(random: &mut Random) -> Tree {
    TREES[below(random, TREES.len())]
}

/// A number below `bound`.
pub(crate) fn below(random: &mut Random, bound: usize) -> usize {
    (random.number() % bound as u64) as usize
}

/// Copies the programs that the trees use into a workspace.
pub(crate) fn install(workspace: &Path) {
    for name in PROGRAMS {
        programs::install(name, workspace);
    }
}
