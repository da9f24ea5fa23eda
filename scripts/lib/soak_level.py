"""What a process occupies: descriptors, threads and memory, read from /proc when it has come to rest."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Level:
    """Memory in KiB: what is resident and is the process's own (no program text, which is only mapped in as it is used)."""

    descriptors: int
    threads: int
    children: int
    memory_kib: int

    def __str__(self) -> str:
        return f"{self.descriptors} descriptors, {self.threads} threads, {self.children} children, {self.memory_kib} KiB of memory"


def level(pid: int) -> Level:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    children = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            children += len(Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except FileNotFoundError:
            pass  # A thread that has ended meanwhile.
    return Level(len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"]), children, int(fields["RssAnon"].split()[0]))


def settled(pid: int, quiet_s: float = 1.0, deadline_s: float = 20.0) -> Level:
    """The level once nothing of it but the memory has moved for a while; the deadline's, whatever it is then."""
    end = time.monotonic() + deadline_s
    before, since = level(pid), time.monotonic()
    while time.monotonic() < end and time.monotonic() < since + quiet_s:
        time.sleep(0.02)
        now = level(pid)
        if (now.descriptors, now.threads, now.children) != (before.descriptors, before.threads, before.children):
            since = time.monotonic()
        before = now
    return before
