"""Starts a long command through a Runner, ends it at a random moment of its start, many times, and looks what is left.

Prints what it did in a few lines; exits 1 when anything is left, was not confirmed, or ended in another way. The
search does not trust the Runner: it reads /proc itself, for the command's unique number and for any live process below
the Runner.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner_client import RunnerClient, connect_when_ready

WORKSPACE = "default"  # What `serve` calls the current directory when it has no configuration.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", type=Path, required=True, help="the codespace-runner binary")
    parser.add_argument("--workspace", type=Path, required=True, help="the directory that the command runs in")
    parser.add_argument("--tries", type=int, default=20, help="ends that must land during a start")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    # A number of seconds that no other sleep of this machine has; it finds the command in /proc.
    mark = str(1_000_000_000 + random.SystemRandom().randrange(10**9))
    with tempfile.TemporaryDirectory(prefix="codespace-socket.") as folder:
        path = Path(folder) / "runner.sock"
        environment = {name: value for name, value in os.environ.items() if name != "CODESPACE_CONFIG"}
        command = [options.runner.resolve(), "serve", "--socket", path]
        daemon = subprocess.Popen(command, cwd=options.workspace, env=environment, stdout=subprocess.DEVNULL)
        try:
            with connect_when_ready(path, "quickstart", lambda: daemon.poll() is None) as runner:
                problems = end_many(runner, daemon.pid, mark, options.tries, options.seed)
                runner.call("stop")
            if daemon.wait(timeout=10) != 0:
                problems.append(f"the Runner's stop ended with {daemon.returncode}, not 0")
        finally:
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(timeout=30)
    left = carrying(mark)
    print(f"left after the Runner's own end: {listed(left)}")
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if problems or left else 0


def end_many(runner: RunnerClient, daemon: int, mark: str, wanted: int, seed: int) -> list[str]:
    """Ends starts until `wanted` ends came before the command ran; what came later is ended too, but does not count."""
    problems = []
    chance = random.Random(seed)
    start_s = measured_start(runner, mark)
    tries = during_start = slowest_ms = 0
    while during_start < wanted and tries < 5 * wanted:
        key = {"workspace_id": WORKSPACE, "process_key": f"try-{tries}"}
        started = runner.send("exec", command=["sleep", mark], **key)
        time.sleep(chance.uniform(0, start_s))
        status = runner.wait(runner.send("terminate_process", **key))
        # An answer to `exec` with a status is that of a start which was ended while it was pending.
        during_start += "status" in runner.wait(started)
        tree = status.get("tree", {"confirmed": False})
        slowest_ms = max(slowest_ms, tree.get("took_ms", 0))
        if status["state"] != "exited" or status.get("ended_by") != "terminate" or not tree["confirmed"]:
            problems.append(f"try {tries}: {status['state']}, ended by {status.get('ended_by')}, tree {tree}")
        tries += 1
    left = carrying(mark) | descendants(daemon)
    print(f"`sleep {mark}`, a start takes {start_s * 1000:.0f} ms (seed {seed})")
    print(f"ended {during_start} times during its start, {tries - during_start} times just after; slowest end {slowest_ms} ms")
    print(f"left with the Runner still there: {listed(left)}")
    if left:
        problems.append(f"{len(left)} processes are left")
    if during_start < wanted:
        problems.append(f"only {during_start} of {wanted} ends landed during a start, so too little was shown")
    return problems


def measured_start(runner: RunnerClient, mark: str) -> float:
    """The median of five whole starts, in seconds."""
    times = []
    for number in range(5):
        key = {"workspace_id": WORKSPACE, "process_key": f"measure-{number}"}
        begin = time.monotonic()
        runner.call("exec", command=["sleep", mark], **key)
        times.append(time.monotonic() - begin)
        runner.call("terminate_process", **key)
    return sorted(times)[2]


def carrying(mark: str) -> set[int]:
    """Live processes with the mark among their arguments, this one apart."""
    return {pid for pid in live() if mark.encode() in arguments(pid)} - {os.getpid()}


def descendants(root: int) -> set[int]:
    parents = live()
    found, level = set(), {root}
    while level := {pid for pid, parent in parents.items() if parent in level} - found:
        found |= level
    return found


def live() -> dict[int, int]:
    """Every process that is no zombie -> its parent."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                # The command name is in parentheses and may hold anything, so the fields begin after the last one.
                state, parent = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue  # Gone meanwhile.
            if state not in (b"Z", b"X"):
                parents[int(entry)] = int(parent)
    return parents


def arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def listed(pids: set[int]) -> str:
    if not pids:
        return "nothing"
    return "; ".join(f"{pid}: {arguments(pid).replace(bytes(1), b' ').decode(errors='replace')}" for pid in sorted(pids))


if __name__ == "__main__":
    sys.exit(main())
