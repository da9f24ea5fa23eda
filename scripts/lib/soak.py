"""Puts many short processes through one Runner and compares what it occupies after the first thousand and at the end.

The processes are of eleven kinds, drawn by chance: plain ones, terminals, stdin, output that is read and that is not,
large requests, timeouts, terminates at random moments, signals, leftovers, and starts that fail. Every answer is held
against the promise: the end has its cause, and the tree was seen gone.

What the Runner occupies is read when it has come to rest, with no connection open, and after 300 processes that say
nothing, so that of what it keeps of ended processes (256) nothing is chance's. Descriptors, threads and children must be
the same number; memory (RssAnon) may have grown by --most-growth, for the allocator's own sake. Exits 1 otherwise.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from runner_client import RunnerClient, RunnerError, connect_when_ready
from soak_kinds import KINDS, Turn, Wrong, plain
from soak_level import Level, settled

# More than the Runner keeps of ended processes.
QUIET = 300
SHOWN = 20


class Soak:
    """One Runner, and everything that is put through it."""

    def __init__(self, options: argparse.Namespace, socket: Path, pid: int) -> None:
        self._socket = socket
        self._pid = pid
        self._parallel = options.parallel
        self._chance = random.Random(options.seed)
        self._lock = threading.Lock()
        self._started = 0
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def put(self, processes: int, only: str | None = None) -> None:
        """So many processes, by several clients at once."""
        names = list(KINDS)
        drawn = [only or self._chance.choice(names) for _ in range(processes)]
        clients = [
            threading.Thread(target=self._client, args=(drawn, random.Random(self._chance.random()))) for _ in range(self._parallel)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def level(self) -> Level:
        """When what is kept is of one kind."""
        self.put(QUIET, only=plain.__name__)
        return settled(self._pid)

    def _client(self, drawn: list[str], chance: random.Random) -> None:
        try:
            with RunnerClient(self._socket, "soak", deadline_s=90.0) as client:
                while turn := self._next(drawn):
                    name, key = turn
                    try:
                        KINDS[name](Turn(client, key, chance))
                    except (Wrong, RunnerError) as error:
                        self._fault(f"{name}: {error}")
        except OSError as error:
            self._fault(f"a client: {error}")

    def _next(self, drawn: list[str]) -> tuple[str, str] | None:
        with self._lock:
            if not drawn or len(self.faults) >= SHOWN:
                return None
            self._started += 1
            name = drawn.pop()
            self.counts[name] += 1
            return name, f"soak-{self._started}"

    def _fault(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)


def main() -> int:
    options = arguments()
    # Not below /tmp, which a sandbox of ours has for itself alone.
    with tempfile.TemporaryDirectory(prefix="codespace-soak.", dir="/var/tmp") as folder:
        workspace, private = Path(folder) / "workspace", Path(folder) / "private"
        workspace.mkdir()
        private.mkdir(mode=0o700)
        environment = {name: value for name, value in os.environ.items() if name != "CODESPACE_CONFIG"}
        with open(private / "log", "wb") as log:
            runner = subprocess.Popen([options.runner.resolve(), "serve", "--socket", private / "runner.sock"], cwd=workspace,
                                      env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        try:
            failures = soak(options, private / "runner.sock", runner)
            if failures:
                words = (private / "log").read_text(errors="replace")[-2000:]
                print(f"soak: the Runner's last words: {words or 'none'}", file=sys.stderr)
        finally:
            # One that has ended is as good.
            runner.kill()
            runner.wait()
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def soak(options: argparse.Namespace, socket: Path, runner: subprocess.Popen) -> list[str]:
    """Why it has failed; empty when it has not."""
    print(f"soak: {options.processes} processes, {options.parallel} at a time, seed {options.seed}, uid {os.getuid()}", flush=True)
    with connect_when_ready(socket, "soak", lambda: runner.poll() is None) as client:
        sandbox = client.hello["sandbox"]
    if sandbox["engine"] == "none":
        return [f"no sandbox can be had here: {'; '.join(sandbox['reasons'])}"]
    one = Soak(options, socket, runner.pid)
    began = time.monotonic()
    one.put(options.warm_up)
    before = one.level()
    print(f"soak: after the first {options.warm_up}: {before}", flush=True)
    done = options.warm_up
    while done < options.processes and not one.faults:
        part = min(1000, options.processes - done)
        one.put(part)
        done += part
        if sys.stderr.isatty():
            print(f"\r{done} of {options.processes}", end="\n" if done == options.processes else "", file=sys.stderr, flush=True)
    after = one.level()
    took = time.monotonic() - began
    counts = ", ".join(f"{count} {name}" for name, count in sorted(one.counts.items()))
    print(f"soak: at the end, after {done} in {took:.0f} s: {after}\nsoak: {counts}, {2 * QUIET} of them beside the count", flush=True)
    with RunnerClient(socket, "soak") as client:
        running = client.call("list_processes", state="running")["processes"]
        client.call("stop")
    code = runner.wait(timeout=20)
    failures = one.faults[:SHOWN] + compared(before, after, options.most_growth)
    if running:
        failures.append(f"{len(running)} processes still run: {running[0]}")
    if code != 0:
        failures.append(f"the Runner's stop ended with {code}, not 0")
    return failures


def compared(before: Level, after: Level, most_growth_kib: int) -> list[str]:
    """What is not as it was."""
    failures = []
    for name in ("descriptors", "threads", "children"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            failures.append(f"{was} {name} after the first processes, {now} at the end")
    grown = after.memory_kib - before.memory_kib
    if grown > most_growth_kib:
        failures.append(f"the memory has grown by {grown} KiB, of which {most_growth_kib} are allowed")
    return failures


def arguments() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target"))
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20_000, help="how many, the first ones with them (20000)")
    parser.add_argument("--warm-up", type=int, default=1000, help="after how many the first look is taken (1000)")
    parser.add_argument("--parallel", type=int, default=4, help="how many at a time (4)")
    parser.add_argument("--most-growth", type=int, default=2048, metavar="KIB", help="of the memory (2048)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--runner", type=Path, default=target / "release/codespace-runner", help="the Runner's program (release build)")
    options = parser.parse_args()
    if not 1 <= options.warm_up <= options.processes or options.parallel < 1:
        parser.error("--processes must be at least --warm-up, and both and --parallel at least 1")
    if not os.access(options.runner, os.X_OK):
        parser.error(f"there is no {options.runner}: cargo build --release -p codespace-runner -p codespace-linux-sandbox")
    return options


if __name__ == "__main__":
    sys.exit(main())
