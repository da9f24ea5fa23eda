"""Finds what outlived its end: every process below this one that was not there before. This process makes itself the one to
which orphans come, so that nothing can detach itself out of sight. Ends nothing but what it has found that way, by handle."""

import ctypes
import os
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def collect_orphans() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "failed to become a subreaper")


def below() -> dict[tuple[int, int], str]:
    """Each live process below this one, by pid and start time, with its command line. Dead ones hold nothing."""
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _status(int(entry.name))):
            parent, state, started = status
            children.setdefault(parent, []).append((int(entry.name), started if state not in "ZX" else -1))
    found = {}
    parents = [os.getpid()]
    while parents:
        for pid, started in children.get(parents.pop(), []):
            parents.append(pid)
            if started >= 0:
                found[(pid, started)] = _command_line(pid)
    return found


def left(known: set[tuple[int, int]], within: float) -> dict[tuple[int, int], str]:
    """What is left beyond what was known, after so many seconds at most."""
    until = time.monotonic() + within
    while True:
        rest = {key: words for key, words in below().items() if key not in known}
        if not rest or time.monotonic() > until:
            return rest
        time.sleep(0.01)  # The death of somebody else's child has no event.


def end(known: set[tuple[int, int]]) -> None:
    """Ends whatever is left, so that a test that found something leaves nothing to the next one."""
    until = time.monotonic() + 5
    while (rest := left(known, 0)) and time.monotonic() < until:
        for pid, started in rest:
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            # Looked at again: the handle is of the process that was found, or of nobody that is ended.
            if (status := _status(pid)) and status[2] == started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        time.sleep(0.01)


def _status(pid: int) -> tuple[int, str, int] | None:
    """Parent, state and start time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0], int(fields[19])


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"
