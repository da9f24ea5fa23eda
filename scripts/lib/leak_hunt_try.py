"""One try: the command that is started, and what was seen of its start from outside, by the file that it leaves."""

import time
from dataclasses import dataclass
from pathlib import Path

# After this nothing may live.
SETTLE_S = 1.0
# Until here from nothing, in measured starts, the moment of an end is drawn.
REACH = 1.5
# After a SIGKILL: so long may a command that was there already take to its first act, and the death to reach it.
FIRST_ACT_S = 0.05
# The clock of file times, which is coarser than the usual one.
FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE


@dataclass(frozen=True)
class Command:
    """Starts in `workspace`. `mark` is in the arguments of everything that it starts."""

    workspace: Path
    mark: str

    def argv(self, name: str) -> list[str]:
        # No touch: what a killed shell had started would leave the file a moment later.
        return ["sh", "-c", f": > {name}; exec sleep {self.mark}"]

    def marker(self, name: str) -> Path:
        return self.workspace / name


class Try:
    """Begins with the start. `ending` is called just before the end, `over` when it is answered or seen."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker
        self.began = time.monotonic()
        self.during_start = False
        self._over_ns = 0
        self._over_at = 0.0
        self._started_before = False
        self._allowed_ms = 0.0

    def wait_until(self, age_s: float) -> None:
        time.sleep(max(0.0, self.began + age_s - time.monotonic()))

    def wait_for_start(self, deadline_s: float = 10.0) -> float:
        """Seconds from the beginning until the command ran; TimeoutError when it does not."""
        while not self.marker.exists():
            if time.monotonic() > self.began + deadline_s:
                raise TimeoutError(f"{self.marker.name} did not start within {deadline_s:g} s")
            time.sleep(0.0002)
        return time.monotonic() - self.began

    def ending(self) -> None:
        self.during_start = not self.marker.exists()

    def over(self, answered: bool = True) -> None:
        """`answered`: somebody has said that it ended, so that nothing may start from now on; else a death was seen."""
        self._allowed_ms = 0.0 if answered else FIRST_ACT_S * 1000
        self._over_ns = time.clock_gettime_ns(FILE_CLOCK)
        self._started_before = self.marker.exists()
        self._over_at = time.monotonic()

    def settle(self) -> None:
        time.sleep(max(0.0, self._over_at + SETTLE_S - time.monotonic()))

    def started_afterwards_ms(self) -> float | None:
        """How long after its end the command started; None when it did not. To be asked when it has settled."""
        if self._started_before or not self.marker.exists():
            return None
        late_ms = max(0.0, (self.marker.stat().st_mtime_ns - self._over_ns) / 1e6)
        return late_ms if late_ms >= self._allowed_ms else None


def settled(tries: list[Try]) -> None:
    """Waits until each has had its time."""
    for one in tries:
        one.settle()


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
