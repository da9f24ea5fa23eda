"""Ends starts at random moments, by plain bubblewrap and by this Runner in turn, and counts what each leaves behind.

Every try starts `sh -c ': > FILE; exec sleep NUMBER'` and ends it after a random time from 0 to 1.5 times the measured
start. A survivor is a process that is still there 1 s after the last end of its batch: one that carries the run's unique
number, or any process below this one (a subreaper) that is not the Runner itself. Counted apart: commands that started
after the end was answered, or more than 50 ms after the killed process was seen dead. Exits 1 when this Runner left anything, did not
confirm an end, or too few ends landed during a start to show anything; what bubblewrap leaves is only shown. Interrupted
(SIGINT, SIGTERM), it ends what it has started, shows what it has so far, and exits 130.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from leak_hunt_bwrap import Bwrap
from leak_hunt_processes import Survivors, become_subreaper
from leak_hunt_runner import Runner
from leak_hunt_try import SETTLE_S, Command, Try, median, settled

# A quarter of the ends, or nothing was shown.
LANDED = 0.25


@dataclass
class Row:
    """One line of the table: what one cause did to one contestant. Times are milliseconds."""

    who: str
    cause: str
    tries: int = 0
    during_start: int = 0
    survivors: int = 0
    started_afterwards: int = 0
    latest_start_ms: float | None = None
    problems: list[str] = field(default_factory=list)

    def add(self, tries: list[Try]) -> None:
        self.tries += len(tries)
        self.during_start += sum(one.during_start for one in tries)
        late = [ms for one in tries if (ms := one.started_afterwards_ms()) is not None]
        self.started_afterwards += len(late)
        self.latest_start_ms = max([*late, *([] if self.latest_start_ms is None else [self.latest_start_ms])], default=None)


def main() -> int:
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    become_subreaper()
    survivors = Survivors(str(1_000_000_000 + random.SystemRandom().randrange(10**9)))
    rows: list[Row] = []
    interrupted = False
    # Not below /tmp, which a sandbox of ours has for itself alone.
    with tempfile.TemporaryDirectory(prefix="codespace-leak-hunt.", dir="/var/tmp") as folder:
        # Apart from each other: what lies beside the socket is the Runner's own, and no workspace.
        workspace, private = Path(folder) / "workspace", Path(folder) / "private"
        workspace.mkdir()
        private.mkdir(mode=0o700)
        command = Command(workspace, survivors.mark)
        contestants = (Bwrap(options.bwrap, command), Runner(options.runner.resolve(), command, private))
        try:
            hunt(contestants, options, survivors, rows)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            # Whatever was found, and whatever an interrupted run has started.
            survivors.end()
    starts = {name: median(taken) * 1000 for contestant in contestants for name, taken in contestant.starts_s.items()}
    failures = judged(rows)
    (tell_json if options.json else tell)(options.seed, starts, rows, failures)
    return 130 if interrupted else 1 if failures else 0


def arguments() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target"))
    parser = argparse.ArgumentParser(prog="leak-hunt", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tries", type=int, default=200, help="for each line of the table (200; 5000 is the thorough run)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--runner", type=Path, default=target / "release/codespace-runner",
                        help="its helper lies beside it, or where CODESPACE_LINUX_SANDBOX_BIN says")
    parser.add_argument("--bwrap", default="bwrap")
    parser.add_argument("--only", nargs="+", choices=[*Bwrap.CAUSES, *Runner.CAUSES], metavar="CAUSE",
                        help="some lines only: " + ", ".join([*Bwrap.CAUSES, *Runner.CAUSES]))
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    options = parser.parse_args()
    if options.tries < 1:
        parser.error("--tries must be at least 1")
    if not os.access(options.runner, os.X_OK):
        parser.error(f"there is no {options.runner}: cargo build --release -p codespace-runner -p codespace-linux-sandbox")
    if shutil.which(options.bwrap) is None:
        parser.error(f"there is no {options.bwrap}: scripts/install-deps")
    return options


def hunt(contestants: tuple[Bwrap, Runner], options: argparse.Namespace, survivors: Survivors, table: list[Row]) -> None:
    """In batches, the lines of both contestants in turn, so that both meet the same machine. Fills the table."""
    chance = random.Random(options.seed)
    bwrap, runner = contestants
    pairs = zip(bwrap.CAUSES, runner.CAUSES)
    turns = [(contestant, cause) for pair in pairs for contestant, cause in zip(contestants, pair)]
    turns = [turn for turn in turns if not options.only or turn[1] in options.only]
    rows = {cause: Row(contestant.NAME, contestant.CAUSES[cause]) for contestant, cause in turns}
    table.extend(rows.values())
    size = min(100, max(10, -(-options.tries // 8)))
    for begin in range(0, options.tries, size):
        numbers = range(begin, min(begin + size, options.tries))
        for contestant, cause in turns:
            row = rows[cause]
            with contestant.batch(cause, row.problems) as attempt:
                # What the measurement of the start has left is no try's.
                survivors.end(contestant.own_pid())
                tries = [attempt(f"{cause}-{number}", chance.random()) for number in numbers]
                settled(tries)
                row.add(tries)
                row.survivors += count(row, survivors, contestant.own_pid())
            # A Runner that was stopped has said that nothing is left.
            row.survivors += count(row, survivors, None)
        print(f"\r{numbers.stop} of {options.tries} tries", end="", file=sys.stderr, flush=True)
    print("", file=sys.stderr)


def count(row: Row, survivors: Survivors, runner: int | None) -> int:
    """Counts what is left, names the first few, and ends it, so that the next batch begins with nothing."""
    left = survivors.left(runner)
    row.problems += [f"left: {process}" for process in left[: max(0, 5 - len(row.problems))]]
    survivors.end(runner)
    return len(left)


def judged(rows: list[Row]) -> list[str]:
    """Why the run fails; empty when it does not."""
    failures = []
    for row in rows:
        name = f"{row.who}, {row.cause}"
        if row.during_start < LANDED * row.tries:
            failures.append(f"{name}: only {row.during_start} of {row.tries} ends landed during a start")
        if row.who == Runner.NAME:
            failures += [f"{name}: {problem}" for problem in row.problems]
            if row.survivors:
                failures.append(f"{name}: {row.survivors} survivors")
            if row.started_afterwards:
                failures.append(f"{name}: {row.started_afterwards} commands started afterwards")
    return failures


def tell(seed: int, starts: dict[str, float], rows: list[Row], failures: list[str]) -> None:
    medians = ", ".join(f"{name} {ms:.1f} ms" for name, ms in starts.items())
    print(f"seed {seed}, uid {os.getuid()}; median start: {medians}\n{laid_out(rows)}")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)


def tell_json(seed: int, starts: dict[str, float], rows: list[Row], failures: list[str]) -> None:
    whole = {"seed": seed, "uid": os.getuid(), "median_start_ms": starts, "rows": [vars(row) for row in rows]}
    print(json.dumps(whole | {"failures": failures}))


def laid_out(rows: list[Row]) -> str:
    lines = [("who", "ended by", "tries", "during start", f"survivors after {SETTLE_S:g} s", "started afterwards", "latest start")]
    for row in rows:
        latest = "" if row.latest_start_ms is None else f"{row.latest_start_ms:.0f} ms later"
        counts = (row.tries, row.during_start, row.survivors, row.started_afterwards)
        lines.append((row.who, row.cause, *map(str, counts), latest))
    widths = [max(map(len, column)) for column in zip(*lines)]
    # Words to the left, numbers to the right.
    cells = [[f"{cell:<{width}}" if at < 2 else f"{cell:>{width}}" for at, (cell, width) in enumerate(zip(line, widths))]
             for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in cells)


if __name__ == "__main__":
    sys.exit(main())
